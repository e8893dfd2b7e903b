//! The form of the planner of rollouts: its fields, their errors, and the request to the API. The contents are in the address of
//! the page.

use std::time::Duration;

use forewarn_api::ApiError;
use forewarn_api_types::span::format_span;
use forewarn_api_types::{MaintenanceWindow, NewRollout, RolloutType, TEXT_CHARS_MAX, Text, join_ticket, split_ticket};
use forewarn_core::{EventKind, Region, Rollout, RolloutAction, RolloutStep, Settings, StepTarget, UNLIMITED};
use forewarn_widgets::field::{
    Control, Field, FieldCard, FieldErrors, parse_number, parse_optional, parse_seconds, parse_time,
};
use forewarn_widgets::query::PageQuery;

/// The address of the planner.
pub const HERE: &str = "/rollouts/plan";

/// The fields of a plan in the address.
pub const FIELDS: [&str; 13] = [
    "hosts",
    "groups",
    "machines",
    "type",
    "at",
    "parallel",
    "pause",
    "window",
    "unavailable",
    "failures",
    "notice",
    "ticket",
    "description",
];

/// The address of the planner with these steps of a rollout and its rules. `None` without machines.
pub fn plan_again(region: &Region, rollout: &Rollout, steps: &[&RolloutStep]) -> Option<String> {
    let (mut hosts, mut machines) = (Vec::new(), Vec::new());
    for step in steps {
        match &step.target {
            StepTarget::Host(host) => hosts.push(host.to_string()),
            StepTarget::Machine(id) => machines.extend(region.machine(*id).map(|machine| machine.name.to_string())),
            StepTarget::Machines { machines: ids, .. } => {
                machines
                    .extend(ids.iter().filter_map(|id| region.machine(*id)).map(|machine| machine.name.to_string()));
            }
            // A group can only be planned as a whole.
            StepTarget::Domain { group, domain } => {
                let members = region.group(*group).into_iter().flat_map(|group| region.group_members(group));
                let of_domain = members.filter(|machine| machine.update_domain == *domain);
                machines.extend(of_domain.map(|machine| machine.name.to_string()));
            }
        }
    }
    if hosts.is_empty() && machines.is_empty() {
        return None;
    }
    let plan = &rollout.plan;
    let kind = match plan.action {
        RolloutAction::Freeze => RolloutType::Freeze,
        RolloutAction::Reboot => RolloutType::Reboot,
        RolloutAction::Redeploy => RolloutType::Redeploy,
        RolloutAction::Drain { .. } => RolloutType::Drain,
    };
    let span = |span: Duration| if span.is_zero() { String::new() } else { format_span(span) };
    let limit = |max: u32| if max == UNLIMITED { String::new() } else { max.to_string() };
    let windows: Vec<String> = plan.windows.iter().map(describe_window).collect();
    let fields = [
        ("hosts", hosts.join(",")),
        ("machines", machines.join(",")),
        ("type", kind.as_str().to_owned()),
        ("parallel", plan.parallel.to_string()),
        ("pause", span(plan.pause)),
        ("window", windows.join("; ")),
        ("unavailable", plan.unavailable_max.map_or_else(String::new, limit)),
        ("failures", limit(plan.failures_max)),
        ("notice", plan.notice.map_or_else(String::new, span)),
        ("description", plan.description.as_deref().unwrap_or_default().to_owned()),
    ];
    let query = fields.iter().fold(PageQuery::default(), |query, (name, value)| query.with(name, value));
    Some(query.address(HERE))
}

/// A window as the planner reads it.
pub fn describe_window(window: &forewarn_core::Window) -> String {
    let clock = |minute: u32| format!("{:02}:{:02}", minute / 60, minute % 60);
    let names = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let days: Vec<&str> = names
        .into_iter()
        .enumerate()
        .filter(|(day, _)| window.days.contains(*day as u8))
        .map(|(_, name)| name)
        .collect();
    let days = if days.len() == 7 { String::new() } else { format!("{} ", days.join(",")) };
    let text = format!("{days}{}-{} {}", clock(window.start_minute), clock(window.end_minute), window.zone.name);
    MaintenanceWindow::parse(&text).map_or(text, |window| window.to_string())
}

/// The HTML of the fields, by section.
pub fn render_fields(
    settings: &Settings,
    query: &PageQuery,
    problems: &FieldErrors,
) -> Vec<(&'static str, Vec<String>)> {
    let of = |name, label| Field::new(name, label, query.text(name), problems);
    let kind = if query.text("type").is_empty() { "Reboot" } else { query.text("type") };
    let (ticket, description) = match query.text("ticket") {
        "" => split_ticket(query.text("description")),
        ticket => (Some(ticket), query.text("description")),
    };
    let targets = [
        of("hosts", "Hosts").with_hint("Names in order, separated by commas."),
        of("groups", "Or groups").with_hint("By update domain."),
        of("machines", "Or machines").with_hint("In order."),
    ];
    let what = [
        Field::new("type", "Type", kind, problems).with_control(Control::Cards(list_types(settings))),
        Field::new("ticket", "Ticket", ticket.unwrap_or_default(), problems),
        of("notice", "Notice").with_hint("Such as 30m. Default: the minimum."),
        Field::new("description", "Description", description, problems)
            .with_hint("Shown to machines, with the ticket."),
    ];
    let when = [
        of("at", "Not before")
            .with_control(Control::Time)
            .with_hint("Start of the first step. Default: after the notice."),
        of("window", "Window").with_hint("Such as Sat,Sun 22:00-04:00 Europe/Berlin (default: UTC, any time)."),
    ];
    let waves = [
        of("parallel", "In parallel").with_control(Control::Number).with_hint("Default: 1."),
        of("pause", "Pause between").with_hint("Such as 20m. Default: none."),
        of("failures", "Failures to tolerate").with_control(Control::Number).with_hint("Default: 0."),
        of("unavailable", "Unavailable per group")
            .with_control(Control::Number)
            .with_hint("At most. Default: one update domain."),
    ];
    let render = |fields: &[Field<'_>]| fields.iter().map(Field::render).collect();
    vec![("Targets", render(&targets)), ("What", render(&what)), ("When", render(&when)), ("Waves", render(&waves))]
}

fn list_types(settings: &Settings) -> Vec<FieldCard<'static>> {
    let notice = |kind| format!("{} notice", format_span(settings.notice_min(kind)));
    let card = |kind: RolloutType, aside, text| FieldCard { value: kind.as_str(), aside, text };
    vec![
        card(
            RolloutType::Freeze,
            notice(EventKind::Freeze),
            "Machines pause for seconds. Memory and connections stay.",
        ),
        card(
            RolloutType::Reboot,
            notice(EventKind::Reboot),
            "Machines restart with the host. Memory is lost, disks stay.",
        ),
        card(
            RolloutType::Redeploy,
            notice(EventKind::Redeploy),
            "Machines move to other hardware. Memory and temporary disks are lost.",
        ),
        card(
            RolloutType::Drain,
            notice(EventKind::Freeze),
            "Machines move live where they can. The others are redeployed.",
        ),
    ]
}

/// The plan in the address. `None` if it has no targets, or an error.
pub fn parse(query: &PageQuery, problems: &mut FieldErrors) -> Option<NewRollout> {
    let [hosts, groups, machines] = ["hosts", "groups", "machines"].map(|field| names(query.text(field)));
    if hosts.is_empty() && groups.is_empty() && machines.is_empty() {
        return None;
    }
    let kind = match query.text("type") {
        "" => RolloutType::Reboot,
        word => {
            let all = [RolloutType::Freeze, RolloutType::Reboot, RolloutType::Redeploy, RolloutType::Drain];
            let found = all.into_iter().find(|kind| kind.as_str() == word);
            problems.take("type", found.ok_or_else(|| format!("Unknown type '{word}'.")))?
        }
    };
    let number = |name: &str, label: &'static str| parse_optional(query.text(name), |text| parse_number(text, label));
    let seconds = |name: &str, label: &'static str| parse_optional(query.text(name), |text| parse_seconds(label, text));
    let at = problems.take("at", parse_optional(query.text("at"), parse_time));
    let parallel = problems.take("parallel", number("parallel", "In parallel"));
    let pause = problems.take("pause", seconds("pause", "The pause"));
    let unavailable = problems.take("unavailable", number("unavailable", "Unavailable per group"));
    let failures = problems.take("failures", number("failures", "Failures"));
    let notice = problems.take("notice", seconds("notice", "The notice"));
    let windows = query.text("window").split(';').map(str::trim).filter(|text| !text.is_empty());
    let windows: Result<Vec<_>, String> = windows.map(MaintenanceWindow::parse).collect();
    let windows = problems.take("window", windows.map_err(|problem| format!("{problem}.")));
    let description = join_ticket(query.text("ticket"), query.text("description"));
    if description.chars().count() > TEXT_CHARS_MAX {
        problems.add("description", format!("The description is longer than {TEXT_CHARS_MAX} characters."));
    }
    if !problems.is_empty() {
        return None;
    }
    Some(NewRollout {
        hosts,
        groups,
        machines,
        at: at?,
        parallel: parallel?,
        pause_seconds: pause?,
        windows: windows?,
        max_unavailable: unavailable?,
        max_failures: failures?,
        notice_seconds: notice?,
        description: (!description.is_empty()).then_some(Text(description)),
        ..NewRollout::of(kind)
    })
}

/// The field that an error is about.
pub fn field_of(error: &ApiError, plan: &NewRollout) -> &'static str {
    let text = format!("{} {}", error.code, error.target.as_deref().unwrap_or_default()).to_lowercase();
    let words = [
        ("window", "window"),
        ("timezone", "window"),
        ("unavailable", "unavailable"),
        ("parallel", "parallel"),
        ("notice", "notice"),
        ("plantoofar", "at"),
        ("planinthepast", "at"),
        ("pause", "pause"),
        ("description", "description"),
    ];
    let found = words.iter().find(|(word, _)| text.contains(word)).map(|(_, field)| *field);
    let targets = [("hosts", &plan.hosts), ("groups", &plan.groups)];
    let named = targets.iter().find(|(_, names)| !names.is_empty()).map(|(field, _)| *field);
    found.or(named).unwrap_or("machines")
}

/// The names in a field.
pub fn names(text: &str) -> Vec<String> {
    text.split([',', ' ', '\n']).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
