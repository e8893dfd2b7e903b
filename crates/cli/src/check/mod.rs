//! `forewarn check`: runs an unchanged handler through scenarios and faults, and judges its behavior.
//!
//! ```text
//!   cases        scenarios and time scales
//!   case_run     a server and a handler for one case
//!   handler      the process of the handler and its output
//!   observation  the observed requests, events and output lines
//!   judge        turns an observation into findings and a verdict; pure
//!   report       table, JSON, JUnit XML
//! ```
//!
//! All cases run at once, each with its own server and network. Notice periods are scaled, so every NotBefore is correct
//! on the handler's clock.

mod case_run;
mod cases;
mod handler;
mod judge;
mod marks;
mod observation;
mod report;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::args::{CheckArgs, Profile};
use crate::failure::Failure;
use case_run::StartLimiter;
use judge::Verdict;
use marks::Marks;

pub fn run(args: &CheckArgs) -> Result<(), Failure> {
    let marks = Marks::parse(&args.mark)?;
    let cases = cases::select(&args.only, args.profile)?;
    let observed = case_run::run_all(args, &cases, &marks)?;
    let verdicts: Vec<Verdict> = cases
        .iter()
        .zip(&observed)
        .map(|(case, observed)| judge::judge(case, observed, args.profile, &marks))
        .collect();
    if let Some(file) = &args.junit {
        let written = std::fs::write(file, report::render_junit(&verdicts));
        written.map_err(|error| Failure::Refused(format!("cannot write {}: {error}", file.display())))?;
    }
    report::print(&verdicts, args.output)?;
    match verdicts.iter().filter(|verdict| !verdict.passed()).count() {
        0 => Ok(()),
        failed => Err(Failure::Failed(format!("{failed} of {} cases failed", verdicts.len()))),
    }
}

/// State that all running cases share.
struct CheckContext {
    command: Vec<std::ffi::OsString>,
    marks: Marks,
    verbose: bool,
    /// Handlers that have started and sent no request yet.
    starting: StartLimiter,
    /// Set when one case finds that the check cannot succeed.
    aborted: Arc<AtomicBool>,
}

/// Whether the handler should approve an event.
fn is_approval_expected(profile: Profile, mine: bool) -> bool {
    match profile {
        Profile::Own => mine,
        Profile::All => true,
        Profile::Never => false,
    }
}
