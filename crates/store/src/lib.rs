//! One contract for durable state, several stores, one conformance suite that each of them runs.

mod contract;

pub use contract::*;
