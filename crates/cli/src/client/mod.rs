//! The client of the management API: requests, the stream of changes, and waiting for an operation's end.

mod api;
mod changes;
mod follow;
pub mod past;
mod shapes;
mod suggest;
mod timeline;

pub use api::{Api, Call};
pub use changes::{Changes, Next};
pub use follow::{asked, wait, wait_all};
pub use shapes::*;
pub use timeline::{day_time, describe, event_facts, few, noun, time_left, timeline, who};
