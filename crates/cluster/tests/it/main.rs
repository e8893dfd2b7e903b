//! Tests of the logs and of the servers on them.

mod conformance;
#[cfg(feature = "etcd")]
mod etcd;
mod machine;
mod servers;
