//! The conformance suite. The tests of a store call [`run`]; `tests/it/conformance.rs` lists the stores of this
//! crate and fails if an `impl Store` is missing.
//!
//! The suite is part of the library so that stores in other crates can run it.

mod attachments;
mod cases;
mod history;
pub mod sample;

use crate::Store;

/// A location for a store, new for every case.
pub trait Fixture {
    /// Opens the store at this location. A store opened earlier has been dropped.
    fn open(&self) -> Box<dyn Store>;
}

/// Runs every case on its own fixture. Panics at the first failure.
pub fn run(make: &dyn Fn() -> Box<dyn Fixture>) {
    for (name, case) in cases::ALL.iter().chain(attachments::ALL).chain(history::ALL) {
        eprintln!("conformance: {name}");
        case(&*make());
    }
}

type Case = (&'static str, fn(&dyn Fixture));
