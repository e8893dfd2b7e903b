//! Renders `docs/compatibility.md`: the results of running other clients against Forewarn.

use std::fmt::Write as _;

use anyhow::{Result, ensure};

use crate::sh;

const FILE: &str = "docs/compatibility.md";

const HEAD: &str = "# Compatibility

These clients run unmodified against `forewarn serve`. `cargo xtask accept azure` runs every row and fails if a result differs from this page;
`cargo xtask accept azure --write` regenerates it. Each run checks the effect described in the second column, not only the exit code: in the metadata
document, in the list of machines, and in the duration of the command. To connect these clients to a server, see [azure-cli.md](azure-cli.md).

Not tested: PowerShell, Windows and macOS. The CLI extension `maintenance` is distributed outside of PyPI, npm and Debian, so it is not installed here.
The requests of its commands `configuration`, `assignment`, `applyupdate` and `update list` were taken from its source; they are sent below with
`az rest` and the SDK, and one by one in `crates/server/tests/it/arm_maintenance_cli.rs`. Its commands `…-parent` are supported for
instances of scale sets, not for dedicated hosts. Assignments to whole subscriptions and resource groups and `public-configuration` are not supported.
";

/// Whether to check or to write the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptTable {
    Check,
    Write,
}

/// The results of one client, in order.
pub struct ClientRows {
    pub client: String,
    pub rows: Vec<CommandRow>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct CommandRow {
    pub command: String,
    pub what: String,
    pub passed: bool,
}

impl KeptTable {
    pub fn keep(self, parts: &[ClientRows]) -> Result<()> {
        let (path, text) = (sh::root().join(FILE), render(parts));
        match self {
            KeptTable::Write => std::fs::write(path, text)?,
            KeptTable::Check => {
                let kept = std::fs::read_to_string(path).unwrap_or_default();
                let difference = text.lines().zip(kept.lines()).find(|(new, old)| new != old);
                let hint = "cargo xtask accept azure --write writes it";
                ensure!(text == kept, "{FILE} is not what was seen; {hint}. First difference: {difference:?}");
            }
        }
        Ok(())
    }
}

fn render(parts: &[ClientRows]) -> String {
    let mut text = HEAD.to_owned();
    for ClientRows { client, rows } in parts {
        let _ = write!(text, "\n## {client}\n\n| command | effect | result |\n|---|---|---|\n");
        for CommandRow { command, what, passed } in rows {
            let word = if *passed { "passed" } else { "failed" };
            let _ = writeln!(text, "| `{}` | {} | {word} |", command.replace('|', "\\|"), what.replace('|', "\\|"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_happened() {
        let row = CommandRow { command: "az a | b".into(), what: "Done.".into(), passed: false };
        let text = render(&[ClientRows { client: "az 1".into(), rows: vec![row] }]);
        assert!(
            text.ends_with(
                "## az 1\n\n| command | effect | result |\n|---|---|---|\n| `az a \\| b` | Done. | failed |\n"
            )
        );
    }
}
