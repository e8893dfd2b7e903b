//! The overview, by cause: the status sentence, what needs attention, one lane per operation, and the table of groups.

use askama::Template;
use forewarn_widgets::panel::{PageContent, Panel};
use forewarn_widgets::query::PageQuery;

use super::activity;
use super::fleet;
use super::operation_lanes::{self, LaneView};
use super::outage::Outages;
use super::scene::Scene;
use super::{attention, group_table, status};

/// Groups on the overview; the others are on their own page.
const GROUPS_MAX: usize = 20;

#[derive(Template)]
#[template(path = "start.html")]
struct GetStarted {
    /// The only machine, if there is one.
    machine: Option<String>,
}

pub async fn render(scene: &Scene, query: &PageQuery) -> PageContent {
    let view = LaneView::of(scene, query);
    let activities = activity::collect(scene, view.window.begin()).await;
    let groups = fleet::list_groups(scene);
    let outages = Outages::of(scene.region(), scene.now);
    let mut panels = vec![
        status::render_panel(scene, &activities, &groups, &outages),
        attention::render_panel(scene, &activities, &outages),
        operation_lanes::render_operation_lanes(scene, &activities, query, view),
        group_table::render_panel(scene, &groups, query, "/", GROUPS_MAX),
    ];
    let region = scene.region();
    let is_unused = activities.is_empty() && region.operations().next().is_none();
    let machines = region.machines().len();
    if machines == 0 || (machines == 1 && is_unused) {
        let machine = region.machines().next().map(|machine| machine.name.to_string());
        panels.insert(
            1,
            Panel::with_content("start", "Three next steps", &GetStarted { machine }).without_frame_but_title(),
        );
    }
    PageContent::new("Overview", panels)
}
