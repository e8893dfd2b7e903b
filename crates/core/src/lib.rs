//! The rules of events: who is told what, when an event starts, how it ends.
//!
//! Pure: no I/O, no async, no clock, no randomness. A command and a time go in; a new region, what to
//! store and what to do come out.

mod apply;
mod command;
mod entity;
mod ids;
mod model;
mod names;
mod region;
mod rejection;
mod rules;
pub mod settings;
mod snapshot;
mod step;
mod time;
mod transition;

pub use command::*;
pub use entity::*;
pub use ids::*;
pub use model::*;
pub use region::{Found, LoadError, Region};
pub use rejection::Rejection;
pub use settings::Settings;
pub use snapshot::Snapshot;
pub use time::Timestamp;
pub use transition::*;
