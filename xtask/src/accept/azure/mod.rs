//! The Azure CLI and the Azure SDKs for Python and JavaScript, unchanged: every command related to scheduled events, and
//! its effect.
//!
//! The CLI runs chapters (`chapters/*.txt`, in the language of `script`), the SDKs run scripts. Each has its own region of two
//! servers with a manual clock and uses the follower, in a network namespace without a route to other networks.

mod region;
mod script;
mod sdk;
mod stage;
mod table;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};

use self::region::Etcd;
use self::script::{Chapter, ScriptStep, Section};
use self::sdk::Script;
use self::table::{ClientRows, CommandRow, KeptTable};
use super::cluster::ETCD;
use super::netns::Namespace;
use crate::needs::Needs;
use crate::setup::Download;

const CHAPTERS: &[(&str, &str)] = &[
    ("sign-in", include_str!("chapters/sign-in.txt")),
    ("sign-in-identity", include_str!("chapters/sign-in-identity.txt")),
    ("sign-in-client", include_str!("chapters/sign-in-client.txt")),
    ("terminate", include_str!("chapters/terminate.txt")),
    ("manual", include_str!("chapters/manual.txt")),
    ("actions", include_str!("chapters/actions.txt")),
    ("machines", include_str!("chapters/machines.txt")),
    ("maintenance", include_str!("chapters/maintenance.txt")),
    ("flexible", include_str!("chapters/flexible.txt")),
];

/// Pinned, so that every run uses the same clients.
const CLI_VERSION: &str = "2.91.0";
/// About 400 MB.
const CLI: Download = Download::Python(&["azure-cli==2.91.0"]);

const SDK_PYTHON_PACKAGES: [&str; 3] =
    ["azure-mgmt-compute==39.0.0", "azure-mgmt-maintenance==2.2.0b4", "azure-identity==1.27.0"];
/// Newer than the SDK that the CLI includes, so in an environment of its own.
const SDK_PYTHON: Download =
    Download::Python(&[SDK_PYTHON_PACKAGES[0], SDK_PYTHON_PACKAGES[1], SDK_PYTHON_PACKAGES[2], "requests"]);

const SDK_JAVASCRIPT_PACKAGE: &str = "@azure/arm-compute@24.1.0";
const SDK_JAVASCRIPT: Download = Download::Node("azure-sdk", &[SDK_JAVASCRIPT_PACKAGE]);

pub const NEEDS: Needs = Needs {
    root: true,
    packages: &[
        ("curl", "curl"),
        ("python3", "python3"),
        ("util-linux", "setpriv"),
        ("nodejs", "node"),
        ("npm", "npm"),
    ],
    downloads: &[CLI, SDK_PYTHON, SDK_JAVASCRIPT, ETCD],
};

/// Chapters that run at the same time: the CLI needs a core while it starts, and then mostly waits.
const AT_ONCE: usize = 3;

/// Runs everything and compares the result with `docs/compatibility.md`.
pub fn run() -> Result<()> {
    run_and(KeptTable::Check)
}

/// Runs everything and writes the result to `docs/compatibility.md`.
pub fn write() -> Result<()> {
    run_and(KeptTable::Write)
}

fn run_and(table: KeptTable) -> Result<()> {
    let namespace = Namespace::new("azure")?;
    let etcd = Etcd::start(&namespace)?;
    let cli = CLI.path()?;
    let (python, javascript) = (SDK_PYTHON.path()?, SDK_JAVASCRIPT.path()?);
    let mut problems = Vec::new();
    let mut parts = vec![play_all(&etcd, &cli, &mut problems)?];
    let sign_in = Script { name: "sign_in.py", interpreter: &python.join("bin/python"), modules: None };
    let sdk = Script { name: "sdk.py", ..sign_in };
    parts.push(run_all(
        &format!("Azure SDK for Python: {}", SDK_PYTHON_PACKAGES.join(", ")),
        &[sign_in, sdk],
        &etcd,
        &mut problems,
    )?);
    let sdk = Script { name: "sdk.mjs", interpreter: Path::new("node"), modules: Some(&javascript) };
    parts.push(run_all(
        &format!("Azure SDK for JavaScript: {}", SDK_JAVASCRIPT_PACKAGE),
        &[sdk],
        &etcd,
        &mut problems,
    )?);
    for problem in &problems {
        eprintln!("   {problem:#}");
    }
    if only().is_none() {
        table.keep(&parts)?;
    }
    ensure!(problems.is_empty(), "{} problems; see above", problems.len());
    Ok(())
}

/// Names of chapters or scripts to run, for work on a single one.
fn only() -> Option<String> {
    std::env::var("FOREWARN_ACCEPT_ONLY").ok()
}

fn is_wanted(name: &str) -> bool {
    only().is_none_or(|only| only.split(',').any(|wanted| wanted == name))
}

fn play_all(etcd: &Etcd<'_>, venv: &Path, problems: &mut Vec<anyhow::Error>) -> Result<ClientRows> {
    let chosen = CHAPTERS.iter().filter(|(name, _)| is_wanted(name));
    let chapters: Vec<(&str, Chapter)> = chosen
        .map(|(name, text)| Ok((*name, script::parse(text).with_context(|| format!("chapter {name}"))?)))
        .collect::<Result<_>>()?;
    let mut rows = Vec::new();
    for ((name, chapter), outcomes) in chapters.iter().zip(play_at_once(&chapters, etcd, venv)) {
        for (section, outcome) in chapter.sections.iter().zip(outcomes.with_context(|| format!("chapter {name}"))?) {
            add_rows(&mut rows, section, outcome.is_ok());
            problems.extend(outcome.err().map(|problem| problem.context(format!("{name}: {}", section.title))));
        }
    }
    Ok(ClientRows { client: format!("Azure CLI {}", CLI_VERSION), rows })
}

/// The results of a chapter's sections.
type Outcomes = Result<Vec<Result<()>>>;

/// The results are in the order of the chapters.
fn play_at_once(chapters: &[(&str, Chapter)], etcd: &Etcd<'_>, venv: &Path) -> Vec<Outcomes> {
    let (next, played) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let play = || {
            while let Some((n, (name, chapter))) = nth(chapters, next.fetch_add(1, Ordering::Relaxed)) {
                let outcomes = stage::play(chapter, etcd, venv);
                eprintln!("   {name}: {}", chapter.title);
                played.lock().expect("no worker panics").push((n, outcomes));
            }
        };
        (0..AT_ONCE).for_each(|_| drop(scope.spawn(play)));
    });
    let mut played = played.into_inner().expect("no worker panics");
    played.sort_by_key(|(n, _)| *n);
    played.into_iter().map(|(_, outcomes)| outcomes).collect()
}

fn nth<T>(list: &[T], n: usize) -> Option<(usize, &T)> {
    Some((n, list.get(n)?))
}

/// A row for each command. A command that only reads or prepares is listed once, where it is first used.
fn add_rows(rows: &mut Vec<CommandRow>, section: &Section, passed: bool) {
    for (_, step) in &section.steps {
        let Some(command) = step.command().filter(|command| command.starts_with("az ")).map(script::brief) else {
            continue;
        };
        let is_known = rows.iter().any(|row| row.command == command);
        if is_known && matches!(step, ScriptStep::Run(_)) && passed {
            continue;
        }
        let refused = if matches!(step, ScriptStep::Fail(_)) { "Refused. " } else { "" };
        rows.push(CommandRow { command, what: format!("{refused}{}", section.title), passed });
    }
}

fn run_all(
    client: &str,
    scripts: &[Script<'_>],
    etcd: &Etcd<'_>,
    problems: &mut Vec<anyhow::Error>,
) -> Result<ClientRows> {
    let mut part = ClientRows { client: client.to_owned(), rows: Vec::new() };
    for script in scripts.iter().filter(|script| is_wanted(script.name)) {
        let (rows, ended) = script.run(etcd)?;
        part.rows.extend(rows);
        problems.extend(ended.err());
    }
    Ok(part)
}
