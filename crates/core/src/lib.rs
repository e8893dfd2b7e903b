//! The rules of Scheduled Events: which events a machine sees, when an event starts, and how it ends.
//!
//! The crate is pure: no I/O, no async, no clock, no randomness. It takes a command and a time, and returns a
//! new region, the writes to store, and the effects to carry out.
//!
//! | module | contents |
//! |---|---|
//! | `command`, `rejection` | the input of the rules, and the reasons to refuse it |
//! | `apply`, `step`, `transition` | one command: its entry point, the change in progress, its result |
//! | `rules` | the rules, a file for each topic |
//! | `model`, `rollout`, `order`, `entity`, `ids` | plain data: machines, groups, hosts, events, operations, rollouts, orders |
//! | `region`, `snapshot`, `collections`, `names` | the whole state as one immutable value, and its indexes |
//! | `replay` | applies the writes of another server, without rules |
//! | `preview` | the expected progress of a rollout |
//! | `settings`, `time`, `window` | settings and limits; points in time; maintenance windows |

mod apply;
mod collections;
mod command;
mod entity;
mod group_type;
mod ids;
mod model;
mod names;
mod order;
mod preview;
mod region;
mod rejection;
mod replay;
mod rollout;
mod rules;
pub mod settings;
mod snapshot;
mod step;
mod time;
mod transition;
mod window;

pub use command::*;
pub use entity::*;
pub use group_type::GroupType;
pub use ids::*;
pub use model::*;
pub use order::{OrderKind, PendingOrder};
pub use preview::*;
pub use region::{LoadError, MachineLookup, Region};
pub use rejection::Rejection;
pub use rollout::*;
pub use settings::Settings;
pub use snapshot::Snapshot;
pub use time::Timestamp;
pub use transition::*;
pub use window::{Span, Weekdays, Window, Zone, current_or_next};
