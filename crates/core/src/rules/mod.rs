//! What happens. Each file is a set of methods on [`Step`](crate::step::Step):
//!
//! ```text
//!  fleet, sets    machines, hosts, groups and scale sets come, change and go
//!  requests       what somebody asks for becomes operations and events
//!  maintain       maintenance of a machine, a host, or a group by update domains
//!  answers        approvals, cancellations, drivers' reports
//!  listen         scopes go on and off
//!  passing        what time alone changes
//!  life           how an event starts and ends: everything else leads here
//! ```

mod deadlines;
mod fleet;
mod life;
mod maintain;
mod requests;
mod responses;
mod sets;
mod switching;
