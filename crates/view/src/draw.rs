//! Draws the state of the live view: header, list, footer, and a box for details, help or a question. Designed for 80
//! columns and 24 lines; narrower terminals get no bars.

use forewarn_api_types::{Event, EventStatus, Machine};
use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Padding, Paragraph, Wrap};

use super::state::{ClockLabel, EventGroup, LinkState, Mode, Nesting, Row, State};
use forewarn_api_client::terminal::escape;
use forewarn_api_client::{actor_name, describe, event_facts, format_time, format_time_left, status_word};

const MUTED: Style = Style::new().fg(Color::DarkGray);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

/// Column widths: indentation and type, bar, time.
const KIND: usize = 14;
const BAR: usize = 12;
const TIME: usize = 9;

/// Minimum width for bars and approvals.
const WIDE: usize = 72;

/// Minimum width for the status column.
const SLIM: usize = 44;

/// Column widths of an event row. Names have priority over the rest.
struct Columns {
    status: usize,
    names: usize,
    bar: usize,
    approval: usize,
}

impl Columns {
    fn of(width: usize) -> Columns {
        let (status, bar, gaps) = match width {
            WIDE.. => (13, BAR, 2),
            SLIM.. => (10, 0, 1),
            _ => (0, 0, 1),
        };
        let rest = width.saturating_sub(KIND + status + bar + TIME + gaps);
        let names = if width >= WIDE { rest * 11 / 20 } else { rest.saturating_sub(MARK) };
        Columns { status, names, bar, approval: rest.saturating_sub(names) }
    }
}

/// A space and a check mark.
const MARK: usize = 2;

const KEYS: &str = " ↑↓ move · enter details · a approve · c cancel · / filter · ? help · q quit";
const KEYS_SHORT: &str = " enter details · a approve · c cancel · ? help · q";

const HELP: &[&str] = &[
    "↑ ↓ or k j       move; PgUp PgDn Home End",
    "enter            show the details of the selected row",
    "a                approve the event (asks first)",
    "c                cancel the event (asks first)",
    "/                filter rows by text; esc clears the filter",
    "q or Ctrl-C      quit",
    "",
    "The bar shows the time left until the event starts even",
    "without approval (NotBefore). Times are in UTC.",
];

pub fn draw(frame: &mut Frame<'_>, state: &State) {
    let [head, rule, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(head_line(state, head.width.into()), head);
    frame.render_widget(Line::styled("─".repeat(rule.width.into()), MUTED), rule);
    draw_list(frame, body, state);
    frame.render_widget(foot_line(state, foot.width.into()), foot);
    match &state.mode {
        Mode::List | Mode::Filter => {}
        Mode::Facts => draw_facts(frame, state),
        Mode::Help => draw_box(frame, "Help", HELP.iter().map(|line| Line::raw(*line)).collect()),
        Mode::Question(action) => {
            let text = escape(&state.confirmation(action));
            draw_box(frame, "Confirm", vec![Line::styled(text, BOLD), Line::raw(""), Line::raw("y yes    n no")]);
        }
    }
}

fn head_line(state: &State, width: usize) -> Line<'static> {
    let (mark, words, color) = match &state.link {
        LinkState::Live => ("●", state.server.clone(), Color::Green),
        LinkState::Unreachable(_) => ("○", format!("{} unreachable", state.server), Color::Red),
    };
    let manual = if state.clock == ClockLabel::Manual { " manual" } else { "" };
    let machines = match state.machine_count() {
        1 => "1 machine".to_owned(),
        many => format!("{many} machines"),
    };
    let (name, right) = if width >= WIDE {
        (" forewarn ", format!("{} open · {machines} · {}{manual} ", state.open_count(), format_time(state.now.into())))
    } else {
        (" ", format!("{} open · {}{manual} ", state.open_count(), state.now.strftime("%H:%M:%S")))
    };
    let left_width = width.saturating_sub(right.chars().count() + name.len() + 3);
    Line::from(vec![
        Span::styled(name, BOLD),
        Span::styled(format!("{mark} "), Style::new().fg(color)),
        Span::styled(format!("{} ", pad(&words, left_width)), Style::new().fg(color)),
        Span::styled(right, MUTED),
    ])
}

fn foot_line(state: &State, width: usize) -> Line<'static> {
    match (&state.mode, &state.message, &state.link) {
        (Mode::Filter, _, _) => Line::from(vec![
            Span::styled(" Filter: ", BOLD),
            Span::raw(format!("{}▏", escape(&state.filter))),
            Span::styled("  enter apply · esc clear", MUTED),
        ]),
        (_, Some(message), _) => Line::styled(format!(" {}", escape(message)), Style::new().fg(Color::Yellow)),
        (_, None, LinkState::Unreachable(why)) => {
            Line::styled(format!(" Reconnecting: {}", escape(why)), Style::new().fg(Color::Red))
        }
        (_, None, LinkState::Live) if state.filter.is_empty() => {
            Line::styled(if width >= WIDE { KEYS } else { KEYS_SHORT }, MUTED)
        }
        (_, None, LinkState::Live) => Line::from(vec![
            Span::styled(format!(" Filter: {}", escape(&state.filter)), BOLD),
            Span::styled("  esc clear · / edit", MUTED),
        ]),
    }
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let rows = state.rows();
    if rows.is_empty() {
        let text = if state.filter.is_empty() { " There are no machines." } else { " No matches." };
        return frame.render_widget(Line::styled(text, MUTED), area);
    }
    let selected = state.selected_index(&rows);
    let height = usize::from(area.height);
    // Center the selected row where possible.
    let first = selected.unwrap_or(0).saturating_sub(height / 2).min(rows.len().saturating_sub(height));
    let width = usize::from(area.width);
    let shown = rows.iter().enumerate().skip(first).take(height).map(|(index, row)| {
        let line = row_line(row, state, width);
        if Some(index) == selected { line.patch_style(Modifier::REVERSED) } else { line }
    });
    frame.render_widget(Paragraph::new(shown.collect::<Vec<_>>()), area);
}

fn row_line(row: &Row<'_>, state: &State, width: usize) -> Line<'static> {
    match row {
        Row::Heading(title) => Line::styled(format!(" {}", title.to_uppercase()), MUTED.add_modifier(Modifier::BOLD)),
        Row::EventGroup(_, scope) => group_line(scope, width),
        Row::Event(event, place) => event_line(event, *place, state.now, width),
    }
}

fn group_line(scope: &EventGroup, width: usize) -> Line<'static> {
    let count = match (scope.kind, scope.machines.len()) {
        ("machine", _) => "standalone VM".to_owned(),
        (kind, 1) => format!("{kind}, 1 machine"),
        (kind, many) => format!("{kind}, {many} machines"),
    };
    let facts = match (width >= WIDE, scope.listening) {
        (true, true) => format!("{count} · handler connected"),
        (true, false) => format!("{count} · no handler"),
        (false, true) => format!("handler · {count}"),
        (false, false) => format!("no handler · {count}"),
    };
    let label = pad(&scope.label, (width / 3).max(12));
    Line::from(vec![
        Span::styled(format!("  {label} "), BOLD),
        Span::styled(pad(&facts, width.saturating_sub(label.chars().count() + 3)), MUTED),
    ])
}

fn event_line(event: &Event, place: Nesting, now: Timestamp, width: usize) -> Line<'static> {
    let status = status_word(event);
    let columns = Columns::of(width);
    let (bar, time) = progress(event, now);
    let indent = if place == Nesting::Grouped { "    " } else { "  " };
    let mut spans = vec![
        Span::raw(pad(&format!("{indent}{}", event.kind), KIND)),
        Span::styled(pad(status, columns.status), status_style(status)),
        Span::raw(format!("{} ", pad(&event.resources.join(", "), columns.names))),
    ];
    if columns.bar == 0 {
        spans.push(Span::styled(format!("{time:>TIME$}"), status_style(status)));
        spans.push(Span::styled(if event.approval.is_some() { " ✓" } else { "" }, MUTED));
        return Line::from(spans);
    }
    spans.extend(bar);
    spans.push(Span::raw(format!("{time:>TIME$}  ")));
    spans.push(Span::styled(pad(&approval(event), columns.approval), MUTED));
    Line::from(spans)
}

/// A bar of the remaining time, and the time.
fn progress(event: &Event, now: Timestamp) -> (Vec<Span<'static>>, String) {
    let words = |text: &str, style: Style| vec![Span::styled(pad(text, BAR), style)];
    if let Some(ended) = event.ended {
        return (words("at", MUTED), ended.timestamp().strftime("%H:%M:%S").to_string());
    }
    if let Some(started) = event.started {
        return (words("in progress", Style::new().fg(Color::Red)), format_time_left(now, started.timestamp()));
    }
    let not_before = event.not_before.timestamp();
    let all = not_before.duration_since(event.appeared.timestamp()).as_secs().max(1);
    let left = not_before.duration_since(now).as_secs().clamp(0, all);
    let full = usize::try_from((left * BAR as i64 + all - 1) / all).unwrap_or(0).min(BAR);
    let color = if left * 2 > all {
        Color::Green
    } else if left * 5 > all {
        Color::Yellow
    } else {
        Color::Red
    };
    let bar = vec![Span::styled("━".repeat(full), Style::new().fg(color)), Span::styled("╌".repeat(BAR - full), MUTED)];
    (bar, format_time_left(not_before, now))
}

fn approval(event: &Event) -> String {
    match &event.approval {
        Some(approval) => format!("✓ {}", actor_name(&approval.approved_by)),
        None if event.visible => String::new(),
        None => "unseen".into(),
    }
}

fn status_style(status: &str) -> Style {
    match status {
        "Scheduled" => Style::new().fg(Color::Yellow),
        "Started" => Style::new().fg(Color::Red),
        "Completed" => Style::new().fg(Color::Green),
        _ => Style::new(),
    }
}

fn draw_facts(frame: &mut Frame<'_>, state: &State) {
    if let Some(event) = state.selected_event() {
        let mut facts = event_facts(event);
        let group = state.group_of(event).filter(|scope| scope.kind != "machine");
        facts.extend(group.map(|scope| ("group", format!("{} ({})", scope.label, scope.kind))));
        let mut lines = fact_lines(&facts, usize::from(frame.area().width).saturating_sub(6));
        let keys =
            if event.status == EventStatus::Scheduled { "a approve · c cancel · esc back" } else { "esc back" };
        lines.extend([Line::raw(""), Line::styled(keys, MUTED)]);
        draw_box(frame, &describe(event.kind.as_str(), &event.resources), lines);
    } else if let Some(scope) = state.selected_group() {
        draw_box(frame, &escape(&scope.label), scope.machines.iter().map(machine_line).collect());
    }
}

fn machine_line(machine: &Machine) -> Line<'static> {
    let host = machine.host.as_ref().map_or(String::new(), |host| format!(", host {host}"));
    Line::raw(escape(&format!("{}  {}, update domain {}{host}", machine.name, machine.power, machine.update_domain)))
}

/// Labels on the left; long values wrap.
fn fact_lines(facts: &[(&str, String)], width: usize) -> Vec<Line<'static>> {
    let names = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let room = width.saturating_sub(names + 2).max(10);
    let lines_of = |(name, text): &(&str, String)| {
        let name = format!("{name:<names$}  ");
        let parts = wrap_words(&escape(text), room);
        let begin = |index: usize| if index == 0 { name.clone() } else { " ".repeat(names + 2) };
        let line =
            |(index, part): (usize, String)| Line::from(vec![Span::styled(begin(index), MUTED), Span::raw(part)]);
        parts.into_iter().enumerate().map(line).collect::<Vec<_>>()
    };
    facts.iter().flat_map(lines_of).collect()
}

/// Wraps text between words.
fn wrap_words(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().map_or(0, |line| line.chars().count());
        match lines.last_mut() {
            Some(last) if line == 0 => last.push_str(word),
            Some(last) if line + 1 + word.chars().count() <= width => *last += &format!(" {word}"),
            Some(_) | None => lines.push(word.into()),
        }
    }
    lines
}

/// Draws a box in the middle, sized to its text.
fn draw_box(frame: &mut Frame<'_>, title: &str, lines: Vec<Line<'_>>) {
    let area = frame.area();
    let widest = lines.iter().map(Line::width).max().unwrap_or(0).max(title.chars().count());
    let width = u16::try_from(widest + 6).unwrap_or(u16::MAX).min(area.width);
    let inside = usize::from(width.saturating_sub(6)).max(1);
    let wrap_words: usize = lines.iter().map(|line| line.width().div_ceil(inside).max(1)).sum();
    let height = u16::try_from(wrap_words + 2).unwrap_or(u16::MAX).min(area.height);
    let [_, row, _] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(height), Constraint::Fill(1)]).areas(area);
    let [_, place, _] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(width), Constraint::Fill(1)]).areas(row);
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .padding(Padding::horizontal(2))
        .title(format!(" {title} "))
        .title_style(BOLD);
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), place);
}

/// Pads or truncates text to a width.
fn pad(text: &str, width: usize) -> String {
    let text = escape(text);
    let length = text.chars().count();
    if length <= width {
        return text + &" ".repeat(width - length);
    }
    let cut: String = text.chars().take(width.saturating_sub(1)).collect();
    if width == 0 { cut } else { cut + "…" }
}
