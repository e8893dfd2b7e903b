//! Chapters: text files that read like a transcript, with one step per line:
//!
//! ```text
//!  # Title of the chapter
//!  ## Title of a section; the result of its commands in the table of compatibility
//!  eval "$(forewarn az)"           runs in a shell and keeps the exported variables; also export X=Y
//!  $ az group list                 must succeed; a \ at the end continues the line
//!  & az vm delete -g rg -n web     starts in the background
//!  ! az vm show -g rg -n no        must fail
//!  = ["web"]                       the complete output, as JSON
//!  says NotFound                   text in the output or in the error output
//!  waits                           the background command polls its operation and has not ended
//!  ends                            the background command ends with success
//!  fails                           the background command ends with an error
//!  web sees Reboot Scheduled web   the events that this machine sees, separated by commas, or nothing
//!  web approves                    this machine approves its own events
//!  machines su_0 su_1              all machines, or none
//!  advance 10m                     advances the manual clock
//! ```
//!
//! Placeholders: `{1}` is the name of the first machine, `{event}` the ID of the event seen last.

use anyhow::{Context, Result, bail, ensure};

#[derive(Debug)]
pub struct Chapter {
    pub title: String,
    pub sections: Vec<Section>,
}

#[derive(Debug)]
pub struct Section {
    pub title: String,
    /// Steps with their line numbers.
    pub steps: Vec<(usize, ScriptStep)>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum ScriptStep {
    Shell(String),
    Run(String),
    Begin(String),
    Fail(String),
    Printed(String),
    Says(String),
    Waits,
    Ends,
    Fails,
    Sees { machine: String, events: String },
    Approves { machine: String },
    Machines(String),
    Advance { seconds: u32 },
}

impl ScriptStep {
    /// The command line, if the step runs one.
    pub fn command(&self) -> Option<&str> {
        match self {
            ScriptStep::Run(command) | ScriptStep::Begin(command) | ScriptStep::Fail(command) => Some(command),
            ScriptStep::Shell(_)
            | ScriptStep::Printed(_)
            | ScriptStep::Says(_)
            | ScriptStep::Waits
            | ScriptStep::Ends
            | ScriptStep::Fails
            | ScriptStep::Sees { .. }
            | ScriptStep::Approves { .. }
            | ScriptStep::Machines(_)
            | ScriptStep::Advance { .. } => None,
        }
    }
}

pub fn parse(text: &str) -> Result<Chapter> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let title = lines.next().and_then(|(_, line)| line.strip_prefix("# ")).context("no title in the first line")?;
    let mut sections: Vec<Section> = Vec::new();
    while let Some((number, line)) = lines.next() {
        let mut line = line.trim().to_owned();
        while line.ends_with('\\') {
            let (_, more) =
                lines.next().with_context(|| format!("line {number} is continued, but it is the last one"))?;
            line = format!("{} {}", line.trim_end_matches('\\').trim_end(), more.trim());
        }
        if let Some(title) = line.strip_prefix("## ") {
            sections.push(Section { title: title.to_owned(), steps: Vec::new() });
            continue;
        }
        let step = step(&line).with_context(|| format!("line {number}"))?;
        sections.last_mut().context("a step before the first section")?.steps.push((number, step));
    }
    Ok(Chapter { title: title.to_owned(), sections })
}

fn step(line: &str) -> Result<ScriptStep> {
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim().to_owned();
    Ok(match first {
        "eval" | "export" => ScriptStep::Shell(line.to_owned()),
        "$" => ScriptStep::Run(rest),
        "&" => ScriptStep::Begin(rest),
        "!" => ScriptStep::Fail(rest),
        "=" => ScriptStep::Printed(rest),
        "says" => ScriptStep::Says(rest),
        "waits" => ScriptStep::Waits,
        "ends" => ScriptStep::Ends,
        "fails" => ScriptStep::Fails,
        "machines" => ScriptStep::Machines(if rest == "none" { String::new() } else { rest }),
        "advance" => ScriptStep::Advance { seconds: seconds(&rest)? },
        machine => match rest.split_once(' ').unwrap_or((&rest, "")) {
            ("sees", events) => {
                let events = if events == "nothing" { String::new() } else { events.to_owned() };
                ScriptStep::Sees { machine: machine.to_owned(), events }
            }
            ("approves", "") => ScriptStep::Approves { machine: machine.to_owned() },
            _ => bail!("not a step: {line}"),
        },
    })
}

/// `90s`, `15m`.
fn seconds(text: &str) -> Result<u32> {
    let (number, unit) = text.split_at(text.len().saturating_sub(1));
    let number: u32 = number.parse().with_context(|| format!("not a span: {text}"))?;
    ensure!(["s", "m"].contains(&unit), "not a span: {text}");
    Ok(if unit == "m" { number * 60 } else { number })
}

/// A command for the table, without names and test-only options.
pub fn brief(command: &str) -> String {
    const WITH_A_VALUE: &[&str] = &[
        "-g",
        "-n",
        "-l",
        "-o",
        "--query",
        "--resource-group",
        "--name",
        "--location",
        "--public-ip-address",
        "--nsg",
        "--admin-username",
        "--admin-password",
    ];
    const ALONE: &[&str] = &["--yes", "--generate-ssh-keys"];
    const NAMED: &[(&str, &str)] = &[
        ("/subscriptions/{subscriptionId}/resourceGroups/rg/providers", "…"),
        ("/subscriptions/{subscriptionId}/resourcegroups/rg/providers", "…"),
        ("/subscriptions/{subscriptionId}/resourceGroups/myResourceGroup/providers", "…"),
        ("/subscriptions/{subscriptionId}/providers", "…"),
        ("{event}", "EVENT"),
        ("{1}", "NAME"),
        ("{2}", "NAME"),
    ];
    let mut words = words(command).into_iter();
    let mut kept: Vec<String> = Vec::new();
    while let Some(word) = words.next() {
        if WITH_A_VALUE.contains(&word.as_str()) {
            words.next();
        } else if word.starts_with("\"$(") {
            kept.push("ID".to_owned());
        } else if !ALONE.contains(&word.as_str()) {
            kept.push(NAMED.iter().fold(word, |word, (name, short)| word.replace(name, short)));
        }
    }
    kept.join(" ")
}

/// Splits a command line into words, keeping quotes.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut quote) = (vec![String::new()], None);
    for character in command.chars() {
        match quote {
            None if character == ' ' => words.push(String::new()),
            None if ['\'', '"'].contains(&character) => quote = Some(character),
            Some(open) if open == character => quote = None,
            None | Some(_) => {}
        }
        if quote.is_some() || character != ' ' {
            words.last_mut().expect("there is one from the start").push(character);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chapter_is_read_line_by_line() {
        let text = "# Title\n\n## Section\n$ az group create \\\n    -n rg\n= []\nsu_0 sees nothing\nadvance 2m\nmachines none\n";
        let chapter = parse(text).unwrap();
        assert_eq!((chapter.title.as_str(), chapter.sections[0].title.as_str()), ("Title", "Section"));
        let steps: Vec<&ScriptStep> = chapter.sections[0].steps.iter().map(|(_, step)| step).collect();
        let sees = ScriptStep::Sees { machine: "su_0".into(), events: String::new() };
        let run = ScriptStep::Run("az group create -n rg".into());
        let rest = [&ScriptStep::Advance { seconds: 120 }, &ScriptStep::Machines(String::new())];
        assert_eq!(steps, [&run, &ScriptStep::Printed("[]".into()), &sees, rest[0], rest[1]]);
        assert_eq!(chapter.sections[0].steps[1].0, 6);
    }

    #[test]
    fn what_is_no_step_is_refused_with_its_line() {
        for text in ["# T\n$ az", "# T\n## S\nweb dreams", "# T\n## S\nadvance 2h", "no title", "# T\n## S\n$ az \\"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_table_shows_commands_without_names() {
        for (command, expected) in [
            ("az vmss list -g rg --query '[].name' -o json", "az vmss list"),
            (r#"az rest --url "/a b" --body '{"x": 1}'"#, r#"az rest --url "/a b" --body '{"x": 1}'"#),
            ("az vm delete -g rg -n web --yes", "az vm delete"),
            (r#"az vm create --nsg "" --image X"#, "az vm create --image X"),
            (r#"az vm list --vmss "$(az vmss show -n su)""#, "az vm list --vmss ID"),
            ("az vmss delete-instances --instance-ids {2}", "az vmss delete-instances --instance-ids NAME"),
        ] {
            assert_eq!(brief(command), expected);
        }
    }
}
