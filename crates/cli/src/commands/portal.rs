//! `forewarn portal`: opens or prints a link that signs a browser in.

use std::process::{Command, Stdio};

use forewarn_api_types::{EmptyBody, PortalLink};

use crate::args::PortalArgs;
use crate::client::Call;
use crate::connect::connect;
use crate::decode::decode;
use crate::failure::Failure;
use crate::output;

/// The program that opens links on a desktop.
const OPENER: &str = "xdg-open";

pub fn run(args: &PortalArgs) -> Result<(), Failure> {
    let api = connect(&args.connection)?;
    let answer = api.post(&Call::api(&["portal-links"]), &EmptyBody {})?;
    let PortalLink { path, .. } = decode(&answer)?;
    let link = format!("{}{path}", api.server());
    if !args.print && is_opened(&link) {
        output::print_stderr("Opened the portal in a browser");
        return Ok(());
    }
    output::print_line(&link)
}

/// Whether a desktop opened the link. Other users can see the link in the process list, but it works only once, and the
/// browser is faster.
fn is_opened(link: &str) -> bool {
    let has_desktop =
        ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    let open =
        || Command::new(OPENER).arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    has_desktop && open().is_ok_and(|status| status.success())
}
