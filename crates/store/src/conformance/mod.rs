//! What every store does. A store's tests call [`run`]; the list of those that must is in this crate's
//! `tests/conformance.rs`, which fails when an `impl Store` is not in it.
//!
//! Here and not among the tests, so that stores outside this crate can run it.

mod attachments;
mod cases;
mod history;
pub mod sample;

use crate::Store;

/// A place that a store is kept in, new for every case.
pub trait Fixture {
    /// Opens what is kept there. The store that was opened before has been dropped.
    fn open(&self) -> Box<dyn Store>;
}

/// Runs every case, each on a fixture of its own. Panics at the first one that does not hold.
pub fn run(make: &dyn Fn() -> Box<dyn Fixture>) {
    for (name, case) in cases::ALL.iter().chain(attachments::ALL).chain(history::ALL) {
        eprintln!("conformance: {name}");
        case(&*make());
    }
}

type Case = (&'static str, fn(&dyn Fixture));
