//! The overview, by cause: the status sentence, what needs attention, one lane per operation, and the table of groups.

use askama::Template;
use forewarn_widgets::panel::{PageContent, Panel};
use forewarn_widgets::query::PageQuery;

use super::activities;
use super::fleet;
use super::operation_lanes::{self, LaneView};
use super::page_context::PageContext;
use super::unready::Unready;
use super::{attention, group_table, status};
use forewarn_widgets::conflict;
use forewarn_widgets::outage::Outages;

/// Groups on the overview; the others are on their own page.
const GROUPS_MAX: usize = 20;

#[derive(Template)]
#[template(path = "start.html")]
struct GetStarted {
    /// The only machine, if there is one.
    machine: Option<String>,
}

pub async fn render(context: &PageContext, query: &PageQuery) -> PageContent {
    let view = LaneView::of(context, query, "/");
    let activities = activities::collect(context, view.window.begin()).await;
    let groups = fleet::list_groups(context);
    let outages = Outages::of(context.region(), context.now);
    let dips = conflict::find_all_dips(context.region(), context.now, &activities);
    let unready = Unready::find_all(context, &activities);
    let mut panels = vec![
        status::render_panel(context, &activities, &groups, &outages, &dips),
        attention::render_panel(context, &activities, &outages, &dips, &unready),
        operation_lanes::render_operation_lanes(context, &activities, query, view),
        group_table::render_panel(context, &groups, query, "/", GROUPS_MAX),
    ];
    let region = context.region();
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
