//! The client of the management API: requests, the stream of changes, and waiting for operations.

mod api;
mod changes;
mod clock;
pub mod event_history;
mod follow;
mod history_line;
#[cfg(test)]
pub mod sample;
mod suggest;
mod timeline;

pub use api::{Api, Call};
pub use changes::{Changes, Next};
pub use clock::{clock_advice, is_manual, next_deadline, now_since, whole_secs};
pub use follow::{describe_status, print_started, wait, wait_all};
pub use history_line::{describe_row, history_line};
pub use timeline::{
    actor_name, describe, event_facts, format_time, format_time_left, format_timeline, join_few, operation_noun,
    status_word, unannounced_reason,
};
