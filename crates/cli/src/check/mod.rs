//! `forewarn check`: a handler, unchanged, is put through scenarios and faults, and what it did is judged.
//!
//! ```text
//!   cases    which scenarios, at which pace
//!   stage    a server and a handler for one case, and everything that was observed there
//!   handler  the handler's process, and what it writes
//!   observed     what was observed: requests, events, lines of output
//!   judge    from what was observed to findings and a verdict. Pure
//!   report   as a table, as JSON, as JUnit XML
//! ```
//!
//! All cases run at once, each with a server and a network of its own, on scaled notice: every NotBefore is
//! true on the handler's own clock.

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
    let marks = Marks::typed(&args.mark)?;
    let cases = cases::select(&args.only, args.profile)?;
    let observed = case_run::all(args, &cases, &marks)?;
    let verdicts: Vec<Verdict> = cases
        .iter()
        .zip(&observed)
        .map(|(case, observed)| judge::judge(case, observed, args.profile, &marks))
        .collect();
    if let Some(file) = &args.junit {
        let written = std::fs::write(file, report::junit(&verdicts));
        written.map_err(|error| Failure::Refused(format!("cannot write {}: {error}", file.display())))?;
    }
    report::show(&verdicts, args.output)?;
    match verdicts.iter().filter(|verdict| !verdict.passed()).count() {
        0 => Ok(()),
        failed => Err(Failure::Failed(format!("{failed} of {} cases failed", verdicts.len()))),
    }
}

/// What all cases have in context while they run.
struct CheckContext {
    command: Vec<std::ffi::OsString>,
    marks: Marks,
    verbose: bool,
    /// Handlers that were started and have asked for nothing yet.
    starting: StartLimiter,
    /// One case has found that there is no point in going on.
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
