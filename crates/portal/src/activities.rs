//! Collects the activities that pages show: those that run, and past ones from the history.

use forewarn_core::{RolloutId, Timestamp};

use super::page_context::PageContext;
use super::timeline::EventTimeline;
use forewarn_widgets::activity::{Activity, ActivityId, group_by_cause};

/// All activities that run, and those with events that ended at this time or later.
pub async fn collect(context: &PageContext, since: Timestamp) -> Vec<Activity> {
    let past = context.portal.shared.past.find_finished(context, |_| true).await;
    let past = past.into_iter().filter(|event| event.ended.is_some_and(|ended| ended >= since));
    group_by_cause(context.region(), past.collect())
}

/// The activities with wanted events, without their other events, and the rollout that owns the subject of the page.
pub async fn collect_some(
    context: &PageContext,
    since: Timestamp,
    owner: Option<RolloutId>,
    is_wanted: impl Fn(&EventTimeline) -> bool,
) -> Vec<Activity> {
    let mut activities = collect(context, since).await;
    for activity in &mut activities {
        activity.events.retain(|event| is_wanted(event));
    }
    let owner = owner.map(ActivityId::Rollout);
    activities.retain(|activity| !activity.events.is_empty() || Some(activity.id) == owner);
    activities.sort_by_cached_key(Activity::sort_key);
    activities
}
