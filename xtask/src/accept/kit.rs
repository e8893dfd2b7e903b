//! What we give to people who test handlers, as they would use it: the pytest fixture with pytest, the steps of the
//! GitHub Actions job in a shell. Of the job, what only a runner of theirs has is left out: steps under an `if`.

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

/// What goes on together in one step of a job is ended with the job, as a runner is.
const RUNNER: &str = r#"ip link set lo up; for step; do echo "   · $step" | head -1; bash --noprofile --norc -eo pipefail -c "$step" || exit; done"#;

pub fn pytest() -> Result<()> {
    let program = PYTEST.path()?.join("bin/pytest");
    let copy = Copy::new()?;
    let mut pytest = sh::program(program.to_str().context("path")?).args(&["-q", "-W", "error"]).within(copy.path());
    pytest.env("PATH", &path()?).env("PYTHONDONTWRITEBYTECODE", "1").run()
}

pub fn actions() -> Result<()> {
    let steps = steps()?;
    ensure!(steps.len() >= 3, "the job has hardly any steps: {steps:?}");
    let copy = Copy::new()?;
    // The job's addresses are fixed, so it gets a network of its own; and processes of its own, which end with it.
    let runner = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", RUNNER, "sh"];
    let mut command = Command::new("unshare");
    command.args(runner).args(&steps).current_dir(copy.path()).env("PATH", path()?).env_remove("FOREWARN_SERVER");
    let output = command.output().context("cannot run unshare")?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{}:\n{}", output.status, String::from_utf8_lossy(&said));
    eprintln!("   {} steps of {JOB} done", steps.len());
    Ok(())
}

/// The scripts of the job that run anywhere.
fn steps() -> Result<Vec<String>> {
    let python = PYYAML.path()?.join("bin/python");
    let read = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let text = sh::program(python.to_str().context("path")?).args(&["-c", read, JOB]).read()?;
    let job: Value = serde_json::from_str(&text)?;
    let steps = job["jobs"]["scheduled-events"]["steps"].as_array().context("the job has no steps")?;
    let anywhere = steps.iter().filter(|step| step["if"].is_null() || step["if"] == "always()");
    Ok(anywhere.filter_map(|step| Some(step["run"].as_str()?.to_owned())).collect())
}

/// The example in a directory of its own, so that nothing is left in the repository.
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

/// With the optimised `forewarn` before everything else.
fn path() -> Result<String> {
    let ours = sh::target().join("release");
    Ok(format!("{}:{}", ours.display(), std::env::var("PATH")?))
}
