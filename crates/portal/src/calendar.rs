//! The calendar of the coming week: scheduled operations by day, and the windows of rollouts.

use std::time::Duration;

use askama::Template;
use forewarn_api_types::Time;
use forewarn_core::{Rollout, Span, StepState, Timestamp, current_or_next};
use forewarn_render::{count_machines, name_rollout};
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::panel::{PageContent, Panel};
use forewarn_widgets::{table, words};

use super::page_context::PageContext;
use super::timeline::Stage;
use forewarn_widgets::activity;

const DAYS: i64 = 7;

const DAY_MS: i64 = 86_400_000;

/// Entries per day; more are on the page of operations.
const ENTRIES_MAX: usize = 30;

#[derive(Template)]
#[template(path = "calendar_day.html")]
struct CalendarDay<'a> {
    id: &'a str,
    sort: &'a str,
    date: String,
    weekday: &'static str,
    is_today: bool,
    entries: Vec<Entry>,
    more: usize,
}

struct Entry {
    at: i64,
    time: String,
    title: String,
    href: String,
    kind: &'static str,
    severity: &'static str,
    machines: usize,
}

pub async fn render(context: &PageContext) -> PageContent {
    let today = context.now.0.div_euclid(DAY_MS) * DAY_MS;
    let entries = list_entries(context).await;
    let days = (0..DAYS).map(|day| {
        let (begin, end) = (today + day * DAY_MS, today + (day + 1) * DAY_MS);
        render_day(context, begin, entries.iter().filter(|entry| (begin..end).contains(&entry.at)).collect())
    });
    let panel = Panel::new("calendar", "The next 7 days", days.collect());
    let lead = "<p class=\"q\">Days begin at midnight UTC. Entries show the time in your time zone.</p>";
    PageContent::new("Calendar", vec![panel]).with_lead(lead)
}

async fn list_entries(context: &PageContext) -> Vec<Entry> {
    let region = context.region();
    let mut entries = Vec::new();
    for activity in activity::collect_running(region) {
        let mut times: Vec<Timestamp> = activity.events_in(Stage::Scheduled).map(|event| event.not_before).collect();
        times.sort_unstable();
        times.dedup();
        for at in times {
            let machines = activity.events_in(Stage::Scheduled).filter(|event| event.not_before == at);
            entries.push(Entry {
                at: at.0,
                time: words::time(at),
                title: activity.title.clone(),
                href: activity.href(),
                kind: activity.kind.as_str(),
                severity: activity.severity.class(),
                machines: machines.map(|event| event.names.len()).sum(),
            });
        }
    }
    for rollout in region.live_rollouts() {
        let (kind, severity) = activity::kind_of_rollout(rollout);
        let kind = kind.as_str();
        entries.extend(find_next_step(context, rollout).await.map(|(at, number)| Entry {
            at: at.0,
            time: words::about(at),
            title: match number {
                0 => format!("Start of {}", name_rollout(region, rollout)),
                number => format!("Step {} of {}", number + 1, name_rollout(region, rollout)),
            },
            href: activity::ActivityId::Rollout(rollout.id).href(),
            kind,
            severity: severity.class(),
            machines: rollout.steps.get(number).map_or(0, |step| count_machines(region, &step.target)),
        }));
        for window in &rollout.plan.windows {
            let mut after = context.now;
            let is_near = |span: &Span| span.start.0 < context.now.0 + DAYS * DAY_MS;
            while let Some(span) = current_or_next(std::slice::from_ref(window), after).filter(is_near) {
                entries.push(Entry {
                    at: span.start.0,
                    time: format!("{} to {}", words::time(span.start), words::time(span.end)),
                    title: format!("Window of {}", name_rollout(region, rollout)),
                    href: activity::ActivityId::Rollout(rollout.id).href(),
                    kind,
                    severity: severity.class(),
                    machines: 0,
                });
                after = span.end + Duration::from_secs(1);
            }
        }
    }
    entries.sort_by_key(|entry| entry.at);
    entries
}

/// The expected time and the number of a rollout's next unannounced step, computed by the rules.
async fn find_next_step(context: &PageContext, rollout: &Rollout) -> Option<(Timestamp, usize)> {
    let number = rollout.steps.iter().position(|step| step.state == StepState::Pending)?;
    if let (0, Some(at)) = (number, rollout.plan.at) {
        return Some((at, number));
    }
    let forecast = context.portal.shared.forecasts.find(context, rollout).await?;
    Some((forecast.rollout.steps.get(number)?.started?, number))
}

fn render_day(context: &PageContext, begin: i64, entries: Vec<&Entry>) -> Fragment {
    let weekdays = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
    let number = begin.div_euclid(DAY_MS);
    let date = Time(begin).to_string().get(..10).unwrap_or_default().to_owned();
    let (id, sort) = (format!("day-{date}"), table::row_key(number as usize));
    let more = entries.len().saturating_sub(ENTRIES_MAX);
    let copy = |entry: &&Entry| Entry {
        at: entry.at,
        time: entry.time.clone(),
        title: entry.title.clone(),
        href: entry.href.clone(),
        kind: entry.kind,
        severity: entry.severity,
        machines: entry.machines,
    };
    let day = CalendarDay {
        id: &id,
        sort: &sort,
        weekday: weekdays[number.rem_euclid(7) as usize],
        is_today: context.now.0.div_euclid(DAY_MS) == number,
        date,
        entries: entries.iter().take(ENTRIES_MAX).map(copy).collect(),
        more,
    };
    Fragment::render(id.as_str(), sort.as_str(), &day)
}
