//! The list of activities that need attention: without notice, not ready in time, without a handler, over time, failed or blocked. Each row
//! says why it is listed.

use std::time::Duration;

use askama::Template;

use super::activity::{Activity, ActivityId, Readiness};
use super::fragment::Fragment;
use super::operation_lanes::clock_span;
use super::panel::Panel;
use super::scene::Scene;
use super::timeline::Stage;
use super::{table, waits, words};

/// More rows are not read within seconds. The others are on the page of operations.
const ROWS_MAX: usize = 7;

/// Events that start within this time should be approved.
pub const SOON: Duration = Duration::from_secs(600);

#[derive(Template)]
#[template(path = "attention_row.html")]
struct AttentionRow<'a> {
    id: String,
    sort: &'a str,
    activity: &'a Activity,
    severity: &'static str,
    concern: Concern,
    /// HTML.
    when: String,
    readiness: Readiness,
    href: String,
    groups: String,
    machines: usize,
    button: String,
}

/// Why an activity is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concern {
    NoNotice,
    /// Longer than announced, by this number of seconds.
    OverTime(u64),
    Failed(String),
    /// Machines that are not ready shortly before the start.
    NotReady(usize),
    NoHandler(usize),
    /// It cannot go on.
    Blocked(String),
}

impl Concern {
    /// The most urgent concern about an activity, if there is one.
    pub fn of(scene: &Scene, activity: &Activity) -> Option<Concern> {
        let stage = activity.stage();
        if stage == Stage::Finished {
            return None;
        }
        if let Some(end) = activity.expected_end().filter(|end| *end < scene.now) {
            return Some(Concern::OverTime(scene.now.since(end).as_secs()));
        }
        if activity.is_failure && stage == Stage::InProgress {
            return Some(Concern::NoNotice);
        }
        if !activity.failures.is_empty() {
            return Some(Concern::Failed(words::join_names(&activity.failures)));
        }
        let ready = activity.readiness();
        let is_soon = activity.due().is_some_and(|due| due <= scene.now + SOON);
        if is_soon && ready.missing() > 0 {
            return Some(Concern::NotReady(ready.missing()));
        }
        if is_soon && ready.unnotified > 0 {
            return Some(Concern::NoHandler(ready.unnotified));
        }
        let unnotified = activity.events_in(Stage::InProgress).filter(|event| !event.is_shown);
        let unnotified: usize = unnotified.map(|event| event.names.len()).sum();
        if unnotified > 0 {
            return Some(Concern::NoHandler(unnotified));
        }
        let wait = activity.waits_for.as_ref().filter(|wait| activity.is_running && waits::is_unplanned(wait.reason));
        wait.map(|wait| Concern::Blocked(waits::shorten(wait)))
    }

    /// Red for harm, amber for what can still be prevented.
    fn class(&self) -> &'static str {
        match self {
            Concern::NoNotice | Concern::OverTime(_) | Concern::Failed(_) => "red",
            Concern::NotReady(_) | Concern::NoHandler(_) | Concern::Blocked(_) => "amber",
        }
    }

    fn describe(&self) -> String {
        match self {
            Concern::NoNotice => "no notice was possible".into(),
            Concern::OverTime(secs) => format!("{} longer than planned", clock_span(*secs)),
            Concern::Failed(names) => format!("failed: {names}"),
            Concern::NotReady(1) => "1 machine is not ready".into(),
            Concern::NotReady(count) => format!("{count} machines are not ready"),
            Concern::NoHandler(1) => "1 machine has no handler and was not notified".into(),
            Concern::NoHandler(count) => format!("{count} machines have no handler and were not notified"),
            Concern::Blocked(why) => why.clone(),
        }
    }
}

impl AttentionRow<'_> {
    fn note(&self) -> String {
        let by = &self.activity.requested_by;
        // The title of a rollout is its description.
        let note = if self.activity.title.contains(&self.activity.note) { "" } else { &self.activity.note };
        let parts = [note.to_owned(), format!("requested by {by}")];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty() && !part.ends_with("by ")).collect();
        parts.join(" · ")
    }

    fn width(&self) -> usize {
        (52 * self.readiness.ready).checked_div(self.readiness.notified).unwrap_or(0)
    }
}

/// Activities that need attention, and the number of all others that run.
pub fn render_panel(scene: &Scene, activities: &[Activity]) -> Panel {
    let mut found: Vec<(&Activity, Concern)> =
        activities.iter().filter_map(|activity| Some((activity, Concern::of(scene, activity)?))).collect();
    found.sort_by_key(|(activity, _)| {
        let due = activity.due().map_or(0, |due| due.0);
        (activity.severity, activity.stage() != Stage::InProgress, due, activity.title.clone())
    });
    let running = activities.iter().filter(|activity| activity.stage() != Stage::Finished).count();
    let calm = running - found.len();
    let all = found.len();
    let rows = found.into_iter().take(ROWS_MAX).enumerate();
    let mut fragments: Vec<Fragment> =
        rows.map(|(number, (activity, concern))| render_row(activity, concern, number)).collect();
    let note = match (all.saturating_sub(ROWS_MAX), calm) {
        (0, 0) => String::new(),
        (0, 1) => "1 other operation needs nothing".into(),
        (0, calm) => format!("{calm} other operations need nothing"),
        (1, _) => "1 more needs attention".into(),
        (more, _) => format!("{more} more need attention"),
    };
    if !note.is_empty() {
        let html =
            format!(r#"<li id="attention-note" class="note" data-sort="~"><a href="/operations">{note}</a></li>"#);
        fragments.push(Fragment { id: "attention-note".into(), sort: "~".into(), html });
    }
    Panel::new("attention", "Needs attention", fragments).with_list_items().or_empty_text("Nothing needs attention.")
}

fn render_row(activity: &Activity, concern: Concern, number: usize) -> Fragment {
    let readiness = activity.readiness();
    let when = match (activity.stage(), activity.due(), activity.started()) {
        (Stage::InProgress, _, Some(started)) => {
            format!(r#"<b>in progress</b><small>since {}</small>"#, words::time(started))
        }
        (_, Some(due), _) => {
            format!(
                r#"<b><span class="count" data-until="{}">scheduled</span></b><small>at {}</small>"#,
                due.0,
                words::time(due)
            )
        }
        (_, None, _) => "<b>waiting</b>".to_owned(),
    };
    let names: Vec<String> =
        activity.scopes().into_iter().filter_map(|(_, events)| Some(events.first()?.scope.clone())).collect();
    let groups = match names.len() {
        0..=2 => words::join_names(&names),
        count => format!("{count} groups"),
    };
    let button = match (&concern, activity.id) {
        (Concern::NotReady(count), ActivityId::Operation(_)) => format!("Approve {count}…"),
        (_, ActivityId::Operation(_)) => "Open operation".into(),
        (_, ActivityId::Rollout(_)) => "Open rollout".into(),
    };
    let (id, sort) = (format!("attention-{}", activity.id.key()), table::row_key(number));
    let row = AttentionRow {
        id: id.clone(),
        sort: &sort,
        activity,
        severity: activity.severity.class(),
        concern,
        when,
        readiness,
        href: activity.href(),
        groups,
        machines: activity.machine_count(),
        button,
    };
    Fragment::render(id, sort.as_str(), &row)
}
