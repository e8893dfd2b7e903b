//! Fuzz targets: each feeds bytes from outside to the code that reads them, and panics if a property does not hold.
//!
//! `cargo xtask fuzz [TARGET] [SECONDS]` searches for inputs that fail, starting from `fuzz/corpus/TARGET`. The ordinary tests
//! replay the corpora, so an input that failed once and was added there stays tested.

mod arm;
mod metadata;
mod replication;
mod store;

pub struct FuzzTarget {
    pub name: &'static str,
    pub run: fn(&[u8]),
}

pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "metadata-request", run: metadata::check_request },
    FuzzTarget { name: "plain-request", run: metadata::check_plain_request },
    FuzzTarget { name: "approval", run: metadata::check_approval },
    FuzzTarget { name: "arm-id", run: arm::check_id },
    FuzzTarget { name: "arm-body", run: arm::check_body },
    FuzzTarget { name: "template", run: arm::check_template },
    FuzzTarget { name: "record", run: store::check_record },
    FuzzTarget { name: "archive", run: store::check_archive },
    FuzzTarget { name: "log-record", run: replication::check_log_record },
    FuzzTarget { name: "change", run: replication::check_change },
    FuzzTarget { name: "host-stream", run: replication::check_host_stream },
];
