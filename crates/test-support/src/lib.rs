//! Code shared by the integration tests of several crates: a webhook receiver, and visible skips for tests that need
//! a program or a kernel feature the machine lacks. Only a dev-dependency; not the harness that other projects use,
//! which is `forewarn-testing`.

mod needs;
mod receiver;

pub use needs::{Need, can_run};
pub use receiver::{Delivery, Receiver};
