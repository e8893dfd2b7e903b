//! The region and its history as the API shows them: a module for each resource, `titles` for operations, rollouts and steps, and
//! `convert` for values in both directions.

mod cause;
mod conflict;
mod convert;
mod event;
mod group;
mod group_dip;
mod host;
mod machine;
mod not_ready;
mod operation;
mod operation_parts;
mod operation_waits;
mod owner;
mod rollout;
mod titles;

pub use cause::{ActivityId, find_cause, find_rollout, find_title, title_of_rollout};
pub use conflict::find_conflicts;
pub use convert::Convert;
pub use event::{render_event, render_past_event};
pub use group::{render_group, render_scale_set};
pub use group_dip::{GroupDip, compare_with_floor, describe_losses, find_dips, impact_of};
pub use host::render_host;
pub use machine::render_machine;
pub use not_ready::render_not_ready;
pub use operation::{
    describe_request, read_past_operation, render_events_of, render_operation, render_operation_from_history,
    render_operation_kind, render_operation_phase, render_whole_operation,
};
pub use operation_parts::render_operation_groups;
pub use owner::{find_owner, render_owner, render_owners};
pub use rollout::{count_machines, render_rollout, render_rollout_preview, render_rollout_with_forecast, render_wait};
pub use titles::{name_operation, name_rollout, name_step};
