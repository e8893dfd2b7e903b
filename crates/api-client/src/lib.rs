//! The client of the management API for programs on a terminal: requests, the stream of changes, failures with their exit
//! codes, and descriptions of events. Not the client library for Scheduled Events, which is `forewarn-client`.

mod api;
mod changes;
mod clock;
pub mod decode;
pub mod failure;
mod history_line;
pub mod moment;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
pub mod short_id;
pub mod terminal;
mod timeline;

pub use api::{Api, Call};
pub use changes::{Change, Changes};
pub use clock::{clock_advice, is_manual, next_deadline, now_since, whole_secs};
pub use history_line::{describe_row, format_history_line};
pub use timeline::{
    actor_name, describe, event_facts, format_time, format_time_left, format_timeline, join_few, operation_noun,
    status_word, unannounced_reason,
};
