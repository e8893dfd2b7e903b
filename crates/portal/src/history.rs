//! The history of a machine, event, group or host, newest first. History rows name machines and events but not groups, so
//! that the history of a group is filtered from the most recent rows.

use askama::Template;
use forewarn_api_types::join_names;
use forewarn_core::{GroupId, Machine, MachineId, OperationResult, Outcome, Region};
use forewarn_render::name_operation;
use forewarn_store::{HistoryFact, HistoryQuery, HistoryRow, RolloutFact};
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::panel::Panel;
use forewarn_widgets::words;

use super::activity::ActivityId;
use super::page_context::PageContext;
use super::timeline::approver_name;

/// Rows per page.
const ROWS_SHOWN: usize = 50;

/// Rows on the page of the whole history.
const ROWS_FOUND: usize = 200;

/// Rows that are read to find those of a group, host or machine.
const ROWS_READ: u32 = 1000;

#[derive(Template)]
#[template(path = "history.html")]
struct HistoryLine {
    id: String,
    sort: String,
    at: String,
    kind: String,
    what: String,
    /// The page of the event, operation or rollout; empty if there is none.
    href: String,
}

pub async fn render_panel(context: &PageContext, query: HistoryQuery) -> Panel {
    render_rows(context, read(context, HistoryQuery { limit: Some(ROWS_SHOWN as u32), ..query }).await.iter().rev())
}

/// The history of one machine, without rows of other machines with the same name.
pub async fn render_machine_panel(context: &PageContext, machine: &Machine) -> Panel {
    let query = HistoryQuery {
        machine: Some(machine.name.to_string()),
        machine_id: Some(machine.id),
        ..HistoryQuery::default()
    };
    render_panel(context, query).await
}

/// The rows of a query that are wanted, in a table of their own.
pub async fn render_search_panel(
    context: &PageContext,
    query: HistoryQuery,
    wanted: impl Fn(&HistoryRow) -> bool,
) -> Panel {
    let rows = read(context, HistoryQuery { limit: Some(ROWS_READ), ..query }).await;
    let rows = rows.iter().rev().filter(|row| wanted(row)).take(ROWS_FOUND);
    Panel::new("history", "History", rows.map(|row| render_row(context.region(), row)).collect())
        .or_empty_text("No matching history.")
}

/// The wanted rows among the most recent ones.
pub async fn render_filtered_panel(context: &PageContext, wanted: impl Fn(&HistoryRow) -> bool) -> Panel {
    let rows = read(context, HistoryQuery { limit: Some(ROWS_READ), ..HistoryQuery::default() }).await;
    render_rows(context, rows.iter().rev().filter(|row| wanted(row)).take(ROWS_SHOWN))
}

/// The newest rows of a query, oldest first.
pub async fn read(context: &PageContext, query: HistoryQuery) -> Vec<HistoryRow> {
    context.portal.engine().history(HistoryQuery { newest: true, ..query }).await.unwrap_or_else(|error| {
        tracing::error!(%error, "cannot read history");
        Vec::new()
    })
}

fn render_rows<'r>(context: &PageContext, rows: impl Iterator<Item = &'r HistoryRow>) -> Panel {
    Panel::new("history", "History", rows.map(|row| render_row(context.region(), row)).collect())
        .or_empty_text("No history yet.")
}

fn render_row(region: &Region, row: &HistoryRow) -> Fragment {
    let fact = row.fact();
    let sort = format!("{:016}", u64::MAX - row.number);
    let id = format!("row-{}", row.number);
    let line = HistoryLine {
        id: id.clone(),
        sort: sort.clone(),
        at: words::time(row.at),
        kind: match fact {
            Some(HistoryFact::ScopeOn | HistoryFact::ScopeOff) => "handler".into(),
            _ => row.kind.replace('-', " "),
        },
        what: fact.as_ref().map_or_else(|| join_names(&row.machines), |fact| describe_fact(region, row, fact)),
        href: match (row.event, row.operation, fact) {
            (Some(event), _, _) => format!("/events/{}", words::event_name(event)),
            (None, _, Some(HistoryFact::RolloutChanged(RolloutFact { rollout: Some(id), .. }))) => {
                ActivityId::Rollout(id).href()
            }
            (None, Some(operation), _) => ActivityId::Operation(operation).href(),
            (None, None, _) => String::new(),
        },
    };
    Fragment::render(id, sort, &line)
}

/// A row as a phrase: `Reboot of web_1 approved by machine web_1`.
fn describe_fact(region: &Region, row: &HistoryRow, fact: &HistoryFact) -> String {
    let machines = join_names(&row.machines);
    let kind = row.event_kind().map_or("event", words::event_kind);
    let event = if machines.is_empty() { kind.to_owned() } else { format!("{kind} of {machines}") };
    match fact {
        HistoryFact::Appeared(_) => format!("{kind} appeared for {machines}"),
        HistoryFact::Approved { by } => format!("{event} approved by {}", approver_name(by)),
        HistoryFact::Started => format!("{kind} started on {machines}"),
        HistoryFact::Ended(outcome) => format!("{event} ended: {}", describe_end(outcome)),
        HistoryFact::OperationEnded(ended) => {
            let operation = row.operation.and_then(|id| region.operation(id));
            // The region knows an operation until an hour after its end.
            let title = operation.map_or_else(|| "operation".into(), |operation| name_operation(region, operation));
            match &ended.result {
                OperationResult::Succeeded => format!("{title}: succeeded"),
                OperationResult::Failed(outcome) => format!("{title}: {}", describe_end(outcome)),
                OperationResult::Canceled { by } => format!("{title}: canceled by {by}"),
            }
        }
        HistoryFact::MachineAdded(_) => format!("machine added {machines}"),
        HistoryFact::MachineRemoved(_) => format!("machine removed {machines}"),
        HistoryFact::ScopeOn => "handler connected".into(),
        HistoryFact::ScopeOff => "handler disconnected".into(),
        HistoryFact::RolloutChanged(rollout) => describe_rollout(region, rollout),
        HistoryFact::HostChanged(host) => match (host.reachable, host.state) {
            (false, _) => format!("host {} is unreachable", host.host),
            (true, Some(state)) => format!("host {} is {}", host.host, state.as_str().to_lowercase()),
            (true, None) => format!("host {} changed", host.host),
        },
        HistoryFact::Audit { actor, action, target, .. } => format!("{action} of {target} by {actor}"),
    }
}

/// `completed`, `failed: no power`, `canceled by owner`.
fn describe_end(outcome: &Outcome) -> String {
    let word = words::outcome_word(outcome).to_lowercase();
    match outcome {
        Outcome::Failed(why) if !why.is_empty() => format!("{word}: {why}"),
        Outcome::Canceled { by } => format!("{word} by {by}"),
        Outcome::Completed
        | Outcome::Failed(_)
        | Outcome::TimedOut
        | Outcome::Superseded
        | Outcome::NoEffect
        | Outcome::ResourceGone => word,
    }
}

/// `rollout: step ended, host r05-n01: failed`
fn describe_rollout(region: &Region, fact: &RolloutFact) -> String {
    let group = fact.group.and_then(|id| region.group(GroupId(id))).map(|group| words::group_name(region, group));
    let machine = fact.machine.and_then(|id| region.machine(MachineId(id)));
    let machine = machine.map(|machine| words::machine_name(region, machine));
    // Update domains of several groups have the same numbers.
    let step = match (&fact.host, group, machine, fact.domain) {
        (Some(host), _, _, _) => format!(", host {host}"),
        (None, Some(group), _, Some(domain)) => format!(", {group}, update domain {domain}"),
        (None, _, Some(machine), _) => format!(", machine {machine}"),
        (None, None, None, Some(domain)) => format!(", update domain {domain}"),
        (None, _, None, _) => String::new(),
    };
    let result = fact.step_state.filter(|_| fact.change == "step-ended");
    let result = result.map_or_else(String::new, |state| match &fact.failure {
        Some(failure) => format!(": {}", describe_end(failure)),
        None => format!(": {}", state.as_str().to_lowercase()),
    });
    let wait = fact.waits_for.as_ref().map_or_else(String::new, |reason| format!(" for {reason}"));
    format!("rollout: {}{step}{result}{wait}", fact.change.replace('-', " "))
}
