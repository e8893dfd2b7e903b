//! The examples for testing handlers: the pytest fixture, run by pytest, and the GitHub Actions job, run step by step in
//! a shell. Steps with an `if` need a GitHub runner and are left out.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::needs::Needs;
use crate::setup::Download;
use crate::sh;

const PYTEST: Download = Download::Python(&["pytest==9.2.0"]);
const PYYAML: Download = Download::Python(&["PyYAML==6.0.3"]);

pub const PYTEST_NEEDS: Needs = Needs { root: false, packages: &[("python3", "python3")], downloads: &[PYTEST] };

pub const ACTIONS_NEEDS: Needs = Needs {
    root: true,
    packages: &[("iproute2", "ip"), ("curl", "curl"), ("python3", "/usr/bin/python3"), ("util-linux", "unshare")],
    downloads: &[PYYAML],
};

const EXAMPLE: &str = "examples/pytest";
const JOB: &str = "examples/github-actions/handler.yml";

/// Runs all steps in one process tree, as a runner does, so that background programs last until the job ends.
const RUNNER: &str = r#"ip link set lo up; for step; do echo "   · $step" | head -1; bash --noprofile --norc -eo pipefail -c "$step" || exit; done"#;

pub fn pytest() -> Result<()> {
    let program = PYTEST.path()?.join("bin/pytest");
    let copy = Copy::new()?;
    let mut pytest = sh::program(program.to_str().context("path")?).args(&["-q", "-W", "error"]).within(copy.path());
    pytest.env("PATH", &path()?).env("PYTHONDONTWRITEBYTECODE", "1").run()
}

pub fn actions() -> Result<()> {
    let steps = steps()?;
    ensure!(steps.len() >= 3, "the job has fewer than three steps: {steps:?}");
    let copy = Copy::new()?;
    // The job uses fixed ports, so it gets its own network. Its own process namespace ends everything that it started.
    let runner = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", RUNNER, "sh"];
    let mut command = Command::new("unshare");
    command.args(runner).args(&steps).current_dir(copy.path()).env("PATH", path()?).env_remove("FOREWARN_SERVER");
    let output = command.output().context("cannot run unshare")?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{}:\n{}", output.status, String::from_utf8_lossy(&said));
    eprintln!("   {} steps of {JOB} done", steps.len());
    Ok(())
}

/// The scripts of the job that need no GitHub runner.
fn steps() -> Result<Vec<String>> {
    let python = PYYAML.path()?.join("bin/python");
    let read = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let text = sh::program(python.to_str().context("path")?).args(&["-c", read, JOB]).read()?;
    let job: Value = serde_json::from_str(&text)?;
    let steps = job["jobs"]["scheduled-events"]["steps"].as_array().context("the job has no steps")?;
    let anywhere = steps.iter().filter(|step| step["if"].is_null() || step["if"] == "always()");
    Ok(anywhere.filter_map(|step| Some(step["run"].as_str()?.to_owned())).collect())
}

/// A copy of the example, so that the run leaves no files in the repository.
struct Copy(tempfile::TempDir);

impl Copy {
    fn new() -> Result<Copy> {
        let dir = tempfile::Builder::new().prefix("forewarn-accept-").tempdir()?;
        for entry in std::fs::read_dir(sh::root().join(EXAMPLE))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                std::fs::copy(entry.path(), dir.path().join(entry.file_name()))?;
            }
        }
        Ok(Copy(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

/// `PATH` with the release build of `forewarn` first.
fn path() -> Result<String> {
    let ours = sh::target().join("release");
    Ok(format!("{}:{}", ours.display(), std::env::var("PATH")?))
}
