//! The rules. Each file adds methods to [`Step`](crate::step::Step):
//!
//! ```text
//!  fleet, sets    changes of machines, hosts, groups and scale sets
//!  requests       requests become operations and events
//!  maintain       maintenance of machines, a host, or a group by update domain
//!  responses      approvals, cancellations and driver reports
//!  switching      turning scopes on and off
//!  deadlines      changes that happen without a command
//!  lifecycle      the lifecycle of an event; used by all of the above
//! ```

mod deadlines;
mod fleet;
mod lifecycle;
mod maintain;
mod requests;
mod responses;
mod sets;
mod switching;
