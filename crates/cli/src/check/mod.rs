//! `forewarn check`: runs an unchanged handler through scenarios and faults, and judges its behavior.
//!
//! ```text
//!   case_run     a server and a handler for one case
//!   handler      the process of the handler and its output
//!   progress     a status line while the cases run
//!   report       table, JSON
//! ```
//!
//! The crate `forewarn-judge` has the cases and turns an observation into a verdict. All cases run at once, each with its own
//! server and network. Notice periods are scaled, so every NotBefore is correct on the handler's clock.

mod case_run;
mod handler;
mod progress;
mod report;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use forewarn_judge::{Marks, Verdict, judge, render_junit, render_junit_error, select};

use crate::args::CheckArgs;
use crate::failure::Failure;
use case_run::StartLimiter;

pub fn run(args: &CheckArgs) -> Result<(), Failure> {
    let marks = Marks::parse(&args.mark).map_err(Failure::Usage)?;
    let cases = select(&args.only, args.profile.into()).map_err(Failure::Usage)?;
    let junit = args.junit.as_deref().map(JunitFile::create).transpose()?;
    let observed = match (case_run::run_all(args, &cases, &marks), junit.as_ref()) {
        (Ok(observed), _) => observed,
        (Err(failure), Some(junit)) => {
            junit.write(&render_junit_error(failure.message().unwrap_or("the check was interrupted")))?;
            return Err(failure);
        }
        (Err(failure), None) => return Err(failure),
    };
    let verdicts: Vec<Verdict> = cases
        .iter()
        .zip(&observed)
        .map(|(case, observed)| judge(case, observed, args.profile.into(), &marks))
        .collect();
    if let Some(junit) = junit {
        junit.write(&render_junit(&verdicts))?;
    }
    report::print(&verdicts, args.output)?;
    match verdicts.iter().filter(|verdict| !verdict.passed()).count() {
        0 => Ok(()),
        failed => Err(Failure::Failed(format!("{failed} of {} cases failed", verdicts.len()))),
    }
}

/// The JUnit report, created before the cases run: a wrong path should not cost a minute.
struct JunitFile<'a> {
    path: &'a Path,
    file: File,
}

impl JunitFile<'_> {
    fn create(path: &Path) -> Result<JunitFile<'_>, Failure> {
        let file = File::create(path);
        let file = file.map_err(|error| Failure::Usage(format!("cannot write --junit {}: {error}", path.display())))?;
        Ok(JunitFile { path, file })
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        let written = (&self.file).write_all(text.as_bytes());
        written.map_err(|error| Failure::Refused(format!("cannot write {}: {error}", self.path.display())))
    }
}

/// State that all running cases share.
struct CheckContext {
    command: Vec<std::ffi::OsString>,
    marks: Marks,
    verbose: bool,
    /// Handlers that have started and sent no request yet.
    starting: StartLimiter,
    /// Set when one case finds that the check cannot succeed, and when the check is interrupted.
    aborted: AtomicBool,
}

#[cfg(test)]
mod tests {
    use forewarn_api::scenario::{BUILTIN_SCENARIOS, Scenario, find_builtin};

    use forewarn_judge::{CASES, Profile, select};

    #[test]
    fn every_case_is_a_scenario_with_this_subject() {
        for case in CASES.iter().filter(|case| case.scenario.is_some()) {
            let scenario = Scenario::parse(find_builtin(case.name).unwrap().text).unwrap();
            assert_eq!(scenario.subject.as_deref(), Some(case.subject), "{}", case.name);
        }
    }

    #[test]
    fn every_built_in_scenario_is_a_case() {
        for shipped in BUILTIN_SCENARIOS {
            assert!(select(&[shipped.name.into()], Profile::Own).is_ok(), "{}", shipped.name);
        }
    }
}
