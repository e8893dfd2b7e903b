//! `forewarn events watch`: a live view on a terminal, lines elsewhere.

mod lines;

use std::io::{self, IsTerminal as _};

use crate::args::Output;
use crate::client::Api;
use crate::failure::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Lines,
    /// A live view if the output is a terminal.
    View,
}

pub fn run(api: &Api, style: Style, output: Output) -> Result<(), Failure> {
    if style == Style::View && output == Output::Table && is_interactive() {
        forewarn_view::run(api)
    } else {
        lines::run(api, output)
    }
}

fn is_interactive() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|name| name == "dumb");
    io::stdout().is_terminal() && io::stdin().is_terminal() && !dumb
}
