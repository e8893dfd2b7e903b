//! `forewarn check`: a handler, unchanged, is put through scenarios and faults, and what it did is judged.
//!
//! ```text
//!   cases    which scenarios, at which pace
//!   stage    a server and a handler for one case, and everything that was seen there
//!   handler  the handler's process, and what it writes
//!   seen     what was seen: requests, events, lines of output
//!   judge    from what was seen to findings and a verdict. Pure
//!   report   as a table, as JSON, as JUnit XML
//! ```
//!
//! All cases run at once, each with a server and a network of its own, on scaled notice: every NotBefore is
//! true on the handler's own clock.

mod cases;
mod handler;
mod judge;
mod marks;
mod report;
mod seen;
mod stage;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::args::{CheckArgs, Profile};
use crate::failure::Failure;
use judge::Verdict;
use marks::Marks;
use stage::Starting;

pub fn run(args: &CheckArgs) -> Result<(), Failure> {
    let marks = Marks::typed(&args.mark)?;
    let cases = cases::chosen(&args.only, args.profile)?;
    let seen = stage::all(args, &cases, &marks)?;
    let verdicts: Vec<Verdict> =
        cases.iter().zip(&seen).map(|(case, seen)| judge::judge(case, seen, args.profile, &marks)).collect();
    if let Some(file) = &args.junit {
        let written = std::fs::write(file, report::junit(&verdicts));
        written.map_err(|error| Failure::Refused(format!("{} cannot be written: {error}.", file.display())))?;
    }
    report::show(&verdicts, args.output)?;
    match verdicts.iter().filter(|verdict| !verdict.passed()).count() {
        0 => Ok(()),
        failed => Err(Failure::Ended(format!("{failed} of {} cases failed.", verdicts.len()))),
    }
}

/// What all cases have in common while they run.
struct Common {
    command: Vec<std::ffi::OsString>,
    marks: Marks,
    verbose: bool,
    /// Handlers that were started and have asked for nothing yet.
    starting: Starting,
    /// One case has found that there is no point in going on.
    hopeless: Arc<AtomicBool>,
}

/// Whether the handler should approve an event.
fn should_approve(profile: Profile, mine: bool) -> bool {
    match profile {
        Profile::Own => mine,
        Profile::All => true,
        Profile::Never => false,
    }
}
