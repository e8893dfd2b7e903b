//! The events that pages draw over time, live and finished.
//!
//! ```text
//!   region: live events ────┐
//!                           ├─▶ events ─▶ the widget `timeline`: one lane each
//!   past: finished events ──┘        └──▶ the module `operation_lanes`: one lane per operation
//! ```

mod past;

use std::sync::Arc;

use forewarn_core::{Event, Region};
use forewarn_store::HistoryRow;
use forewarn_widgets::panel::Panel;

use super::page_context::PageContext;
pub use forewarn_widgets::event_timeline::{EventTimeline, describe_outcome, live_events};
pub use forewarn_widgets::expected_event::find_expected;
pub use forewarn_widgets::history_line::approver_name;
pub use forewarn_widgets::stage::Stage;
pub use past::FinishedEvents;

/// Lanes per page. More are not readable; the overview has a search.
const LANES_MAX: usize = 300;

/// The wanted events, including those that finished within the last day.
pub async fn find_events(
    context: &PageContext,
    wanted: impl Fn(&Region, &Event) -> bool,
    past: impl Fn(&HistoryRow) -> bool,
) -> Vec<Arc<EventTimeline>> {
    let mut events = live_events(context.region(), wanted);
    events.sort_by_key(|event| event.appeared);
    events.truncate(LANES_MAX);
    let room = LANES_MAX - events.len();
    let mut finished = context.portal.shared.past.find_finished(context, past).await;
    finished.sort_by_key(|event| std::cmp::Reverse(event.ended));
    finished.truncate(room);
    events.extend(finished);
    events
}

/// The panel with one lane per event.
pub fn render_panel(context: &PageContext, events: &[Arc<EventTimeline>]) -> Panel {
    forewarn_widgets::timeline::render_panel(context.region(), context.now, context.mode, events)
}
