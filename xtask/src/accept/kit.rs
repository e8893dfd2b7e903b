//! The kit for testing handlers: the Python package with its own tests and its example, and the GitHub Actions job with
//! our action, run step by step in a shell.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::needs::Needs;
use crate::setup::Download;
use crate::sh;

/// The tools that build, test and check the package.
const PYTEST: Download = Download::Python(&["flit-core==4.2.0", "pytest==9.2.0", "mypy==2.4.1"]);
const PYYAML: Download = Download::Python(&["PyYAML==6.0.3"]);

pub const PYTEST_NEEDS: Needs = Needs { root: false, packages: &[("python3", "python3")], downloads: &[PYTEST] };

pub const ACTIONS_NEEDS: Needs = Needs {
    root: true,
    packages: &[("iproute2", "ip"), ("curl", "curl"), ("python3", "/usr/bin/python3"), ("util-linux", "unshare")],
    downloads: &[PYYAML],
};

const PACKAGE: &str = "./python";
const EXAMPLE: &str = "examples/pytest";
const JOB: &str = "examples/github-actions/handler.yml";

const ACTION: &str = "action.yml";

/// Runs all steps in one process tree, as a runner does, so that background programs last until the job ends. The
/// directories that a step adds are in the `PATH` of the next steps.
const RUNNER: &str = r#"ip link set lo up
for step; do
  echo "   · $step" | head -1
  while read -r dir; do PATH=$dir:$PATH; done < "$GITHUB_PATH"
  bash --noprofile --norc -eo pipefail -c "$step" || exit
done"#;

/// Installs the Python package, then runs its own tests, the example's tests and the type checker with it.
pub fn pytest() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let installed = dir.path().join("site");
    let site = installed.to_str().context("path")?;
    let pip = ["install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", site, PACKAGE];
    python("pip")?.args(&pip).run()?;
    let copy = CheckoutCopy::new()?;
    for tests in [&sh::root().join(PACKAGE), copy.path()] {
        let pytest = python("pytest")?.args(&["-q", "-W", "error", "-p", "no:cacheprovider"]);
        pytest.within(tests).env("PYTHONPATH", site).env("PATH", &path()?).run()?;
    }
    let cache = dir.path().join("mypy");
    let mypy = python("mypy")?.args(&["--strict", "--cache-dir", cache.to_str().context("path")?, "src", "tests"]);
    mypy.within(&sh::root().join(PACKAGE)).env("PYTHONPATH", site).run()
}

/// A program of the Python environment. It leaves no files in the repository.
fn python(name: &str) -> Result<sh::Sh> {
    let mut program = sh::program(PYTEST.path()?.join("bin").join(name).to_str().context("path")?);
    program.env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(program)
}

pub fn actions() -> Result<()> {
    let job = read_yaml(JOB)?;
    let steps = job["jobs"]["scheduled-events"]["steps"].as_array().context("the job has no steps")?;
    let flags = steps.iter().find_map(|step| step["with"]["serve"].as_str()).context("the job starts no server")?;
    let scripts = [action_scripts()?, scripts(steps)].concat();
    ensure!(scripts.len() >= 6, "the action and the job have fewer than six scripts: {scripts:?}");
    let copy = CheckoutCopy::new()?;
    let temp = tempfile::tempdir()?;
    // The job uses fixed ports, so it gets its own network. Its own process namespace ends everything that it started.
    let runner = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", RUNNER, "sh"];
    let mut command = Command::new("unshare");
    command.args(runner).args(&scripts).current_dir(copy.path()).env_remove("FOREWARN_SERVER");
    command.env("BINARY", sh::built_dir().join("forewarn")).env("FLAGS", flags).env("RUNNER_TEMP", temp.path());
    for name in ["GITHUB_PATH", "GITHUB_OUTPUT"] {
        std::fs::write(temp.path().join(name), "")?;
        command.env(name, temp.path().join(name));
    }
    let output = command.output().context("cannot run unshare")?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{}:\n{}", output.status, String::from_utf8_lossy(&said));
    eprintln!("   {} scripts of {ACTION} and {JOB} done", scripts.len());
    Ok(())
}

/// The scripts of our action, except the installation of the Python package, which [`pytest`] covers.
fn action_scripts() -> Result<Vec<String>> {
    let action = read_yaml(ACTION)?;
    let steps = action["runs"]["steps"].as_array().context("the action has no steps")?;
    let wanted = steps.iter().filter(|step| step["if"] != "inputs.python == 'true'");
    Ok(scripts(&wanted.cloned().collect::<Vec<_>>()))
}

fn scripts(steps: &[Value]) -> Vec<String> {
    steps.iter().filter_map(|step| Some(step["run"].as_str()?.to_owned())).collect()
}

fn read_yaml(path: &str) -> Result<Value> {
    let python = PYYAML.path()?.join("bin/python");
    let read = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let text = sh::program(python.to_str().context("path")?).args(&["-c", read, path]).read()?;
    Ok(serde_json::from_str(&text)?)
}

/// A copy of the example, so that the run leaves no files in the repository.
struct CheckoutCopy(tempfile::TempDir);

impl CheckoutCopy {
    fn new() -> Result<CheckoutCopy> {
        let dir = tempfile::Builder::new().prefix("forewarn-accept-").tempdir()?;
        for entry in std::fs::read_dir(sh::root().join(EXAMPLE))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                std::fs::copy(entry.path(), dir.path().join(entry.file_name()))?;
            }
        }
        Ok(CheckoutCopy(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

/// `PATH` with our build of `forewarn` first.
fn path() -> Result<String> {
    let ours = sh::built_dir();
    Ok(format!("{}:{}", ours.display(), std::env::var("PATH")?))
}
