//! `forewarn events watch`: a live view on a terminal, lines elsewhere.
//!
//! ```text
//!  keys, signals ─┐
//!                 ├─▶ view ─▶ state (pure) ─▶ draw (pure)
//!  server ─ source┘              └─ actions ─▶ server
//! ```

mod draw;
mod lines;
mod source;
mod state;
#[cfg(test)]
mod tests;
mod view;

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
        view::run(api)
    } else {
        lines::run(api, output)
    }
}

fn is_interactive() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|name| name == "dumb");
    io::stdout().is_terminal() && io::stdin().is_terminal() && !dumb
}
