//! Runs the conformance suite on the log in memory. The log on etcd runs it in `etcd`.

use std::collections::HashMap;
use std::sync::Mutex;

use forewarn_cluster::conformance::{CASES, LogFactory};
use forewarn_cluster::{Faults, FaultyLog, Log, MemoryLog};

#[derive(Default)]
struct InMemory(Mutex<HashMap<String, MemoryLog>>);

impl LogFactory for InMemory {
    fn open(&self, region: &str) -> Box<dyn Log> {
        Box::new(self.0.lock().unwrap().entry(region.into()).or_default().clone())
    }
}

/// The wrapper must be transparent while it has no faults.
struct WithoutFaults(InMemory);

impl LogFactory for WithoutFaults {
    fn open(&self, region: &str) -> Box<dyn Log> {
        let log = self.0.0.lock().unwrap().entry(region.into()).or_default().clone();
        Box::new(FaultyLog::new(log, Faults::default()))
    }
}

#[test]
fn the_log_in_memory_conforms() {
    let regions = InMemory::default();
    CASES.iter().for_each(|case| case.run(&regions, case.name));
}

#[test]
fn a_log_without_faults_left_conforms() {
    let regions = WithoutFaults(InMemory::default());
    CASES.iter().for_each(|case| case.run(&regions, case.name));
}
