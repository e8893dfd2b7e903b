//! The Azure CLI and the Azure SDKs for Python and JavaScript, unchanged: every command that has to do with scheduled
//! events, and what then happened.
//!
//! The CLI plays chapters (`chapters/*.txt`, in the language of `script`), the SDKs run scripts. Each has a server of its own with a manual
//! clock, all of them in a network without a way out.

mod script;
mod sdk;
mod stage;
mod table;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};

use self::script::{Chapter, Section, Step};
use self::sdk::Script;
use self::table::{Part, Row, Table};
use super::netns::Namespace;
use crate::setup;

const CHAPTERS: &[(&str, &str)] = &[
    ("sign-in", include_str!("chapters/sign-in.txt")),
    ("sign-in-identity", include_str!("chapters/sign-in-identity.txt")),
    ("sign-in-client", include_str!("chapters/sign-in-client.txt")),
    ("terminate", include_str!("chapters/terminate.txt")),
    ("manual", include_str!("chapters/manual.txt")),
    ("actions", include_str!("chapters/actions.txt")),
    ("machines", include_str!("chapters/machines.txt")),
    ("flexible", include_str!("chapters/flexible.txt")),
];

/// Chapters that are played at once: the CLI needs a core while it starts, and waits otherwise.
const AT_ONCE: usize = 3;

/// What is seen must be what `docs/compatibility.md` says.
pub fn run() -> Result<()> {
    run_and(Table::Check)
}

/// What is seen is written there.
pub fn write() -> Result<()> {
    run_and(Table::Write)
}

fn run_and(table: Table) -> Result<()> {
    setup::debian(&[
        ("curl", "curl"),
        ("python3", "python3"),
        ("util-linux", "setpriv"),
        ("nodejs", "node"),
        ("npm", "npm"),
    ])?;
    let namespace = Namespace::new("azure")?;
    let cli = setup::azure_cli()?;
    let (python, javascript) = (setup::azure_sdk_python()?, setup::azure_sdk_javascript()?);
    let mut problems = Vec::new();
    let mut parts = vec![play_all(&namespace, &cli, &mut problems)?];
    let sign_in = Script { name: "sign_in.py", interpreter: &python.join("bin/python"), modules: None };
    let sdk = Script { name: "sdk.py", ..sign_in };
    parts.push(run_all(
        &format!("Azure SDK for Python: {}", setup::AZURE_SDK_PYTHON.join(", ")),
        &[sign_in, sdk],
        &namespace,
        &mut problems,
    )?);
    let sdk = Script { name: "sdk.mjs", interpreter: Path::new("node"), modules: Some(&javascript) };
    parts.push(run_all(
        &format!("Azure SDK for JavaScript: {}", setup::AZURE_SDK_JAVASCRIPT),
        &[sdk],
        &namespace,
        &mut problems,
    )?);
    for problem in &problems {
        eprintln!("   {problem:#}");
    }
    if only().is_none() {
        table.keep(&parts)?;
    }
    ensure!(problems.is_empty(), "{} problems", problems.len());
    Ok(())
}

/// While something is being mended it can be run alone: a chapter or a script, by its name.
fn only() -> Option<String> {
    std::env::var("FOREWARN_ACCEPT_ONLY").ok()
}

fn is_wanted(name: &str) -> bool {
    only().is_none_or(|only| only.split(',').any(|wanted| wanted == name))
}

fn play_all(namespace: &Namespace, venv: &Path, problems: &mut Vec<anyhow::Error>) -> Result<Part> {
    let chosen = CHAPTERS.iter().filter(|(name, _)| is_wanted(name));
    let chapters: Vec<(&str, Chapter)> = chosen
        .map(|(name, text)| Ok((*name, script::parse(text).with_context(|| format!("chapter {name}"))?)))
        .collect::<Result<_>>()?;
    let mut rows = Vec::new();
    for ((name, chapter), outcomes) in chapters.iter().zip(play_at_once(&chapters, namespace, venv)) {
        for (section, outcome) in chapter.sections.iter().zip(outcomes.with_context(|| format!("chapter {name}"))?) {
            add_rows(&mut rows, section, outcome.is_ok());
            problems.extend(outcome.err().map(|problem| problem.context(format!("{name}: {}", section.title))));
        }
    }
    Ok(Part { client: format!("Azure CLI {}", setup::AZURE_CLI), rows })
}

/// What became of a chapter's sections.
type Outcomes = Result<Vec<Result<()>>>;

/// In the order of the chapters, whichever was over first.
fn play_at_once(chapters: &[(&str, Chapter)], namespace: &Namespace, venv: &Path) -> Vec<Outcomes> {
    let (next, played) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let play = || {
            while let Some((n, (name, chapter))) = nth(chapters, next.fetch_add(1, Ordering::Relaxed)) {
                let outcomes = stage::play(chapter, namespace, venv);
                eprintln!("   {name}: {}", chapter.title);
                played.lock().expect("nobody panics with it").push((n, outcomes));
            }
        };
        (0..AT_ONCE).for_each(|_| drop(scope.spawn(play)));
    });
    let mut played = played.into_inner().expect("nobody panics with it");
    played.sort_by_key(|(n, _)| *n);
    played.into_iter().map(|(_, outcomes)| outcomes).collect()
}

fn nth<T>(list: &[T], n: usize) -> Option<(usize, &T)> {
    Some((n, list.get(n)?))
}

/// A row for each command; one that only looks or prepares stands where it is first used.
fn add_rows(rows: &mut Vec<Row>, section: &Section, passed: bool) {
    for (_, step) in &section.steps {
        let Some(command) = step.command().filter(|command| command.starts_with("az ")).map(script::brief) else {
            continue;
        };
        let is_known = rows.iter().any(|row| row.command == command);
        if is_known && matches!(step, Step::Run(_)) && passed {
            continue;
        }
        let refused = if matches!(step, Step::Fail(_)) { "Refused. " } else { "" };
        rows.push(Row { command, what: format!("{refused}{}", section.title), passed });
    }
}

fn run_all(
    client: &str,
    scripts: &[Script<'_>],
    namespace: &Namespace,
    problems: &mut Vec<anyhow::Error>,
) -> Result<Part> {
    let mut part = Part { client: client.to_owned(), rows: Vec::new() };
    for script in scripts.iter().filter(|script| is_wanted(script.name)) {
        let (rows, ended) = script.run(namespace)?;
        part.rows.extend(rows);
        problems.extend(ended.err());
    }
    Ok(part)
}
