//! The timeline of the overview: lanes grouped by event group. A group with one event is just its lane. If there are many
//! lanes, groups with several events are collapsed into one summary lane.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use askama::Template;
use forewarn_core::ScopeId;

use super::expected::{ExpectedEvent, find_expected};
use super::lane::{ScopeLabel, Shapes};
use super::{EventFilter, EventTimeline, Stage, add_controls, live_events};
use crate::chunk::Chunking;
use crate::fragment::Fragment;
use crate::panel::Panel;
use crate::scene::Scene;
use crate::view::{Fold, View};
use crate::words;

/// Event groups per chunk.
pub const CHUNK_SIZE: usize = 20;

/// With more lanes than this, groups with several events are collapsed.
const LANES_OPEN_MAX: usize = 40;

/// Lanes per event group; its own page has more.
const GROUP_LANES_MAX: usize = 100;

/// Events drawn in a collapsed group; more cannot be told apart.
const SHAPES_MAX: usize = 24;

/// An event group with its events.
struct ScopeGroup {
    scope: Option<ScopeId>,
    sort: String,
    events: Vec<Arc<EventTimeline>>,
    /// Expected events of rollouts.
    expected: Vec<ExpectedEvent>,
}

#[derive(Template)]
#[template(path = "scope_group.html")]
struct GroupHeader<'a> {
    number: u64,
    sort: &'a str,
    name: &'a str,
    href: &'a str,
    fold: Fold,
    /// Numbers of scheduled, started and finished events.
    stages: [usize; 3],
    /// The next deadline.
    due: Option<i64>,
    shapes: Vec<Shapes>,
    /// Lanes beyond the limit.
    left_out: usize,
}

impl GroupHeader<'_> {
    fn is_open(&self) -> bool {
        self.fold == Fold::Open
    }

    /// `2 scheduled, 1 in progress`
    fn counts(&self) -> String {
        let words = ["scheduled", "in progress", "finished"];
        let counted = self.stages.iter().zip(words).filter(|(count, _)| **count > 0);
        counted.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
    }
}

/// The panel of all matching events, with the chunks that are on screen.
pub async fn render_scope_groups(scene: &Scene, filter: &EventFilter<'_>, view: &View, address: &str) -> Panel {
    let mut events = live_events(scene.region(), |_, _| true);
    events.extend(scene.portal.shared.past.finished(scene, |_| true).await);
    events.retain(|event| filter.matches_event(event));
    let default_fold = if events.len() > LANES_OPEN_MAX { Fold::Closed } else { Fold::Open };
    let mut expected = find_expected(scene.region());
    expected.retain(|event| filter.matches_expected(scene.region(), event.scope));
    let groups = group_by_scope(events, expected);
    let noun = "Event groups with events,";
    let chunking = Chunking { list: "timeline", size: CHUNK_SIZE, view, noun, address, field: "events" };
    let chunks = chunking.split(&groups, |group| group.render(scene, view, default_fold));
    let panel = add_controls(scene, Panel::new("timeline", "Timeline", Vec::new()).with_chunks(chunks));
    if filter.matches_everything() { panel } else { panel.or_empty_text("No matching events.") }
}

fn group_by_scope(events: Vec<Arc<EventTimeline>>, expected: Vec<ExpectedEvent>) -> Vec<ScopeGroup> {
    let mut scopes: BTreeMap<Option<ScopeId>, Vec<Arc<EventTimeline>>> = BTreeMap::new();
    for event in events {
        scopes.entry(event.scope_id).or_default().push(event);
    }
    let mut expected_of: BTreeMap<Option<ScopeId>, Vec<ExpectedEvent>> = BTreeMap::new();
    for event in expected {
        scopes.entry(Some(event.scope)).or_default();
        expected_of.entry(Some(event.scope)).or_default().push(event);
    }
    let mut group = |(scope, events)| ScopeGroup::new(scope, events, expected_of.remove(&scope).unwrap_or_default());
    let mut groups: Vec<ScopeGroup> = scopes.into_iter().map(&mut group).collect();
    groups.sort_by(|one, other| one.sort.cmp(&other.sort));
    groups
}

impl ScopeGroup {
    fn new(scope: Option<ScopeId>, mut events: Vec<Arc<EventTimeline>>, expected: Vec<ExpectedEvent>) -> ScopeGroup {
        events.sort_by_cached_key(|event| event.sort_key());
        // Groups are sorted by their first event: the next deadline, or else the most recent end.
        let first = events.first().map(|event| format!("{}-{}", event.time_key(), event.scope));
        let first = first.or(expected.first().map(ExpectedEvent::time_key)).unwrap_or_default();
        let sort = format!("{first}-{:012}", scope.map_or(0, |scope| scope.0));
        ScopeGroup { scope, sort, events, expected }
    }

    fn render(&self, scene: &Scene, view: &View, default_fold: Fold) -> Vec<Fragment> {
        if let ([only], []) = (&self.events[..], &self.expected[..]) {
            return vec![only.render_lane(scene, &self.sort, ScopeLabel::Shown)];
        }
        let number = self.scope.map_or(0, |scope| scope.0);
        let fold = view.fold(number, default_fold);
        let mut fragments = vec![self.render_header(scene, number, fold)];
        if fold == Fold::Open {
            let sort = |key: String| format!("{}-1-{key}", self.sort);
            let lanes = self.events.iter().take(GROUP_LANES_MAX);
            fragments.extend(lanes.map(|event| event.render_lane(scene, &sort(event.sort_key()), ScopeLabel::Hidden)));
            fragments.extend(self.expected.iter().map(|event| event.render_lane(scene, &sort(event.time_key()))));
            fragments.sort_by(|one, other| one.sort.cmp(&other.sort));
        }
        fragments
    }

    fn render_header(&self, scene: &Scene, number: u64, fold: Fold) -> Fragment {
        let region = scene.region();
        let known = self.scope.and_then(|scope| region.scope(scope)).map(|scope| words::scope(region, scope));
        let (name, href) = match &known {
            Some(known) => (known.name.as_str(), known.href.as_str()),
            None => (self.events.first().map_or("", |event| &event.scope), ""),
        };
        let count = |stage| self.events.iter().filter(|event| event.stage() == stage).count();
        let scheduled = self.events.iter().filter(|event| event.stage() == Stage::Scheduled);
        let sort = format!("{}-0", self.sort);
        let header = GroupHeader {
            number,
            sort: &sort,
            name: if name.is_empty() { "Deleted event group" } else { name },
            href,
            fold,
            stages: [count(Stage::Scheduled), count(Stage::InProgress), count(Stage::Finished)],
            due: scheduled.map(|event| event.not_before.0).min(),
            shapes: if fold == Fold::Closed { self.distinct_shapes(scene) } else { Vec::new() },
            left_out: if fold == Fold::Open { self.events.len().saturating_sub(GROUP_LANES_MAX) } else { 0 },
        };
        Fragment::render(format!("scope-group-{number}"), sort.as_str(), &header)
    }

    /// The shapes of all events, without duplicates.
    fn distinct_shapes(&self, scene: &Scene) -> Vec<Shapes> {
        let mut seen = BTreeSet::new();
        let shapes = self.events.iter().map(|event| Shapes::of(event, scene));
        shapes.filter(|shapes| seen.insert(shapes.key())).take(SHAPES_MAX).collect()
    }
}
