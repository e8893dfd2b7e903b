//! The rules. Each file adds methods to [`Step`](crate::step::Step):
//!
//! ```text
//!  fleet, sets    changes of machines, groups and scale sets
//!  requests       requests become operations and events
//!  maintain       maintenance of machines, a host, or a group by update domain
//!  hosts          hosts, their state, contact with their agents, and placement
//!  drain          moving all machines away from a host
//!  rollouts       maintenance in steps over hosts, update domains or machines
//!  rollout_checks checks of a new rollout
//!  availability   how many machines of a group may be unavailable
//!  orders         orders to hosts, and their reports about single machines
//!  power          starts, stops and deallocations of machines
//!  responses      approvals, cancellations and driver reports
//!  switching      turning scopes on and off
//!  deadlines      changes that happen without a command
//!  lifecycle      the lifecycle of an event; used by all of the above
//! ```

mod availability;
mod deadlines;
mod drain;
mod fleet;
mod hosts;
mod lifecycle;
mod maintain;
mod orders;
mod power;
mod requests;
mod responses;
mod rollout_checks;
mod rollouts;
mod sets;
mod switching;
