//! The conformance suite of [`Log`]: every implementation passes exactly these cases.
//!
//! A case gets a region of its own. It opens the region once per server that it plays.

mod cases;
mod sample;

use crate::contract::Log;

pub use cases::CASES;

/// Opens logs. Two logs of the same region are the views of two servers.
pub trait LogFactory {
    fn open(&self, region: &str) -> Box<dyn Log>;
}

/// One case and its name.
pub struct Case {
    pub name: &'static str,
    run: fn(&TestServer<'_>),
}

impl Case {
    /// Runs the case in a region of this name.
    ///
    /// # Panics
    /// If the implementation does not conform.
    pub fn run(&self, regions: &dyn LogFactory, region: &str) {
        (self.run)(&TestServer { regions, region });
    }
}

/// A region as the cases see it.
struct TestServer<'a> {
    regions: &'a dyn LogFactory,
    region: &'a str,
}

impl TestServer<'_> {
    fn open(&self) -> Box<dyn Log> {
        self.regions.open(self.region)
    }

    fn open_other_region(&self) -> Box<dyn Log> {
        self.regions.open(&format!("{}-other", self.region))
    }
}
