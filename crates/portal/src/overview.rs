//! The overview: counts, the timeline, and all event groups with their machines.

use std::sync::Arc;

use askama::Template;
use forewarn_core::{Region, ScopeId, Status};

use super::chunk::Chunking;
use super::panel::{PageContent, Panel};
use super::scene::Scene;
use super::timeline::{EventFilter, StageFilter};
use super::view::View;
use super::{html, scope, timeline, words};

/// Event groups per chunk: fills whole rows of one, two, three or four cards.
const CHUNK_SIZE: usize = 12;

/// The positions at which the lists start, for browsers without JavaScript.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListOffsets {
    pub scopes: usize,
    /// Event groups in the timeline.
    pub scope_groups: usize,
}

#[derive(Template)]
#[template(path = "counts.html")]
struct Counts {
    machines: usize,
    scopes: usize,
    /// Event groups with a handler.
    handlers: usize,
    scheduled: usize,
    started: usize,
    /// HTML.
    next: Option<String>,
    /// Number of matching event groups, if there is a search or a filter.
    found: Option<usize>,
}

#[derive(Template)]
#[template(path = "search.html")]
struct Search<'a> {
    search: &'a str,
    show: &'static str,
    /// Address, label, and whether it is selected.
    filters: Vec<(String, &'static str, bool)>,
}

#[derive(Template)]
#[template(path = "start.html")]
struct GetStarted;

pub async fn render(scene: &Scene, search: &str, stage: StageFilter, offsets: ListOffsets) -> PageContent {
    let region = scene.region();
    let lowered = search.trim().to_lowercase();
    let filter = EventFilter { stage, search: &lowered };
    let first_view = || {
        let first = offsets.scopes / CHUNK_SIZE;
        let chunks = [first, first + 1].map(|number| format!("scopes-{number}"));
        let in_timeline = format!("timeline-{}", offsets.scope_groups / timeline::CHUNK_SIZE);
        View::of_chunks(chunks.into_iter().chain([in_timeline]))
    };
    let view = scene.view.clone().unwrap_or_else(first_view);
    let here = build_address(search, stage);
    let filters = StageFilter::EACH.map(|each| (build_address(search, each), each.label(), each == stage)).into();
    let search = Search { search, show: stage.word(), filters };
    let found = find_scopes(scene, &filter);
    let counts = count(region, (!filter.matches_everything()).then_some(found.len()));
    let mut panels = vec![
        Panel::with_content("counts", "Summary", &counts).with_html_before(html::render(&search)),
        timeline::render_scope_groups(scene, &filter, &view, &here).await,
        render_scopes(region, &found, &view, &here),
    ];
    if region.machines().len() == 0 {
        panels.insert(0, Panel::with_content("start", "Get started", &GetStarted));
    }
    PageContent { title: "Overview".into(), lead: String::new(), panels }
}

/// The address of the overview with this search and filter. Ends so that another field can follow.
fn build_address(search: &str, stage: StageFilter) -> String {
    let mut fields = form_urlencoded::Serializer::new(String::new());
    for (name, value) in [("search", search), ("show", stage.word())] {
        if !value.is_empty() {
            fields.append_pair(name, value);
        }
    }
    let fields = fields.finish();
    if fields.is_empty() { "/?".into() } else { format!("/?{fields}&") }
}

fn find_scopes(scene: &Scene, filter: &EventFilter<'_>) -> Arc<[ScopeId]> {
    let region = scene.region();
    let order = scene.portal.shared.scope_order(&scene.snapshot);
    if filter.matches_everything() {
        return order;
    }
    let is_wanted = |id: &&ScopeId| region.scope(**id).is_some_and(|scope| filter.matches_scope(region, scope));
    order.iter().filter(is_wanted).copied().collect()
}

fn render_scopes(region: &Region, found: &[ScopeId], view: &View, address: &str) -> Panel {
    let chunking = Chunking { list: "scopes", size: CHUNK_SIZE, view, noun: "Event groups", address, field: "from" };
    let card = |id: &ScopeId| region.scope(*id).map(|scope| scope::render_card(region, scope)).into_iter().collect();
    let panel = Panel::new("scopes", "Machines", Vec::new()).with_chunks(chunking.split(found, card));
    panel.or_empty_text("No matching machines.")
}

fn count(region: &Region, found: Option<usize>) -> Counts {
    let live = || region.events().filter(|event| event.is_live());
    let started = live().filter(|event| matches!(event.status, Status::Started { .. })).count();
    let scheduled = || live().filter(|event| event.status == Status::Scheduled);
    let next = scheduled().map(|event| event.not_before).min();
    Counts {
        machines: region.machines().len(),
        scopes: region.scopes().len(),
        handlers: region.scopes().filter(|scope| region.is_on(scope.id)).count(),
        scheduled: scheduled().count(),
        started,
        next: next.map(|at| format!(r#"{} <span class="count" data-until="{}"></span>"#, words::time(at), at.0)),
        found,
    }
}
