//! The region and its history as the API shows them: a module for each resource, `titles` for operations, rollouts and steps, and
//! `convert` for values in both directions.

mod convert;
mod event;
mod group;
mod host;
mod machine;
mod operation;
mod operation_parts;
mod operation_waits;
mod owner;
mod rollout;
mod titles;

pub use convert::Convert;
pub use event::{failure_reason, render_event, render_past_event};
pub use group::{render_group, render_scale_set};
pub use host::render_host;
pub use machine::render_machine;
pub use operation::{
    describe_request, render_events_of, render_operation, render_operation_from_history, render_operation_kind,
    render_operation_phase, render_whole_operation,
};
pub use owner::{find_owner, render_owner, render_owners};
pub use rollout::{render_rollout, render_rollout_preview, render_rollout_with_forecast, render_wait};
pub use titles::{name_operation, name_rollout, name_step};
