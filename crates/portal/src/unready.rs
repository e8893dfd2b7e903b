//! Machines that are not ready for their events, by the state of their handlers.

use std::collections::BTreeMap;
use std::sync::Arc;

use forewarn_api_types::join_names;
use forewarn_core::{Event, Resource, Status};
use forewarn_widgets::words;

use super::handler::Handler;
use super::page_context::PageContext;
use super::timeline::Stage;
use forewarn_widgets::activity::{Activity, ActivityId};
use forewarn_widgets::outage::SOON;

/// Names of machines: a handler that polls may still prepare, one that is silent needs an operator, and a machine without a
/// handler does not know of the event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unready {
    pub polling: Vec<String>,
    pub silent: Vec<String>,
    pub unnotified: Vec<String>,
}

impl Unready {
    /// The machines of these events that `is_wanted` selects and whose approval is missing. Nothing waits for the approval of a recommendation.
    pub fn of<'r>(
        context: &PageContext,
        events: impl Iterator<Item = &'r Arc<Event>>,
        is_wanted: impl Fn(&Resource) -> bool,
    ) -> Unready {
        let mut found = Unready::default();
        let is_waiting = |event: &&Arc<Event>| {
            event.status == Status::Scheduled && event.kind.has_impact() && event.approval.is_none()
        };
        for event in events.filter(is_waiting) {
            for resource in event.resources.iter().filter(|resource| is_wanted(resource)) {
                let names = match (event.is_shown(), Handler::of(context, resource.machine).is_polling) {
                    (false, _) => &mut found.unnotified,
                    (true, true) => &mut found.polling,
                    (true, false) => &mut found.silent,
                };
                names.push(resource.name.to_string());
            }
        }
        [&mut found.polling, &mut found.silent, &mut found.unnotified].into_iter().for_each(|names| names.sort());
        found
    }

    /// Machines that are not ready, for each activity that starts soon. Activities without any are omitted.
    pub fn find_all(context: &PageContext, activities: &[Activity]) -> BTreeMap<ActivityId, Unready> {
        let due = activities.iter().filter(|activity| activity.is_due(context.now + SOON));
        let found = due.map(|activity| {
            let events = activity.events_in(Stage::Scheduled).filter_map(|event| context.region().event(event.id));
            (activity.id, Unready::of(context, events, |_| true))
        });
        found.filter(|(_, unready)| unready.count() > 0).collect()
    }

    pub fn count(&self) -> usize {
        self.polling.len() + self.silent.len() + self.unnotified.len()
    }

    /// Whether some of them have a handler, so that an approval is missing.
    pub fn is_waited_for(&self) -> bool {
        self.count() > self.unnotified.len()
    }

    /// `web-1, web-2 (silent) and web-4 (no handler)`.
    pub fn describe(&self) -> String {
        let silent = self.silent.iter().map(|name| format!("{name} (silent)"));
        let unnotified = self.unnotified.iter().map(|name| format!("{name} (no handler)"));
        join_names(self.polling.iter().cloned().chain(silent).chain(unnotified))
    }

    /// A part of the sentence at the top of a page. HTML.
    pub fn render(&self) -> String {
        match self.count() {
            0 => r#"<span class="green">all ready</span>"#.into(),
            _ => format!(r#"<span class="amber">not ready: {}</span>"#, words::escape_html(self.describe())),
        }
    }
}
