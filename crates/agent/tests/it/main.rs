//! Tests of the agent as a process, against a server in this process.

mod actions;
mod day;
mod docs;
mod failures;
mod kubernetes;
mod lifecycle;
mod metrics;
mod support;
