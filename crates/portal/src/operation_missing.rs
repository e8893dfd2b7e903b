//! The machines of an operation that are not ready, with the state of their handlers, and a button for each to approve for it.

use std::sync::Arc;

use askama::Template;
use forewarn_api::Action;
use forewarn_api_types::{HandlerPresence, NotReadyMachine};
use forewarn_core::{Event, Guid, MachineId, OperationId, Region, ScopeId};
use forewarn_render::render_not_ready;
use forewarn_widgets::activity::ActivityId;
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::panel::Panel;
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::table::{self, Column, SortOrder};
use forewarn_widgets::{address, words};

use super::action::{Button, ButtonStyle};
use super::handler::describe_poll;
use super::page_context::PageContext;

/// Rows with a button: its consequences take a run of the rules. For more machines, there is one button for all of them.
const APPROVALS_MAX: usize = 8;

const COLUMNS: [Column; 6] = [
    Column { key: "", label: "Machine", class: "" },
    Column { key: "", label: "Group", class: "" },
    Column { key: "", label: "Handler", class: "" },
    Column { key: "", label: "Last poll", class: "r" },
    Column { key: "", label: "Reason", class: "" },
    Column { key: "", label: "", class: "" },
];

#[derive(Template)]
#[template(path = "missing_row.html")]
struct MissingRow<'a> {
    id: &'a str,
    sort: &'a str,
    name: String,
    href: String,
    group: words::ScopeName,
    state: &'static str,
    class: &'static str,
    last_poll: String,
    why: &'static str,
    /// HTML.
    approve: String,
}

/// `None` if no event is live.
pub fn render_panel(context: &PageContext, id: OperationId, events: &[&Arc<Event>]) -> Option<Panel> {
    let region = context.region();
    let (missing, count) = render_not_ready(region, events, |machine| context.portal.handlers().render(machine));
    let mut rows: Vec<Fragment> =
        missing.iter().enumerate().map(|(number, one)| render_row(context, id, one, number)).collect();
    if missing.len() < count {
        let (id, sort) = ("missing-more".to_owned(), "~".to_owned());
        let html = format!(
            r#"<tr id="{id}" class="folded" data-sort="{sort}"><td colspan="6">{} of {count}</td></tr>"#,
            missing.len()
        );
        rows.push(Fragment { id, sort, html });
    }
    (!rows.is_empty() || events.iter().any(|event| event.is_live())).then(|| {
        let order = SortOrder { key: "", is_descending: false };
        Panel::new("missing", "Machines that are not ready", rows)
            .with_table(table::render_head(&COLUMNS, order, &PageQuery::default(), ""))
            .or_empty_text("All machines are ready.")
    })
}

fn render_row(context: &PageContext, operation: OperationId, one: &NotReadyMachine, number: usize) -> Fragment {
    let region = context.region();
    let (id, sort) = (format!("missing-{}", one.machine_id), table::row_key(number));
    let machine = region.machine(MachineId(one.machine_id));
    let (state, class) = match one.handler {
        HandlerPresence::Missing => ("no handler", "idle"),
        HandlerPresence::Polling => ("polling", ""),
        HandlerPresence::Silent | HandlerPresence::Unknown(_) => ("silent", "wait"),
    };
    let row = MissingRow {
        id: &id,
        sort: &sort,
        name: one.machine.clone(),
        href: machine.map_or_else(String::new, |machine| address::of_machine(machine)),
        group: name_scope(region, ScopeId(one.event_group)),
        state,
        class,
        last_poll: describe_poll(context.now, one.last_poll.map(|at| forewarn_core::Timestamp(at.0))),
        why: one.reason.describe(),
        approve: if number < APPROVALS_MAX { render_approval(context, operation, one) } else { String::new() },
    };
    Fragment::render(id.as_str(), sort.as_str(), &row)
}

/// A button that approves the event of a machine. Empty if nothing waits for the approval.
fn render_approval(context: &PageContext, operation: OperationId, one: &NotReadyMachine) -> String {
    let event = context.region().event(Guid(one.event.0)).filter(|event| event.is_shown());
    let may = context.visitor.is_allowed(Action::ApproveEvents);
    event.filter(|_| may).map_or_else(String::new, |event| {
        let consequences = context.preview().describe_approval(event);
        let id = format!("approve-{}", one.machine_id);
        let (target, back) = (words::event_name(event.id), ActivityId::Operation(operation).href());
        Button::new("approve", "Approve", consequences, Action::ApproveEvents, ButtonStyle::Normal).render(
            context,
            (&id, ""),
            &target,
            &back,
        )
    })
}

pub fn name_scope(region: &Region, scope: ScopeId) -> words::ScopeName {
    match region.scope(scope) {
        Some(scope) => words::scope(region, scope),
        None => words::ScopeName { name: "deleted group".into(), href: String::new(), kind: String::new() },
    }
}
