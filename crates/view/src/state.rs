//! The state of the live view and how keys change it. Pure: updates and the time are passed in, and requests to the
//! server are returned.
//!
//! ```text
//!            ?        /          enter       a, c (an event)
//!  List ──▶ Help   Filter        Facts ─────────▶ Question ── y ──▶ UserAction
//!    ◀── any key    enter, esc    esc              n, esc
//! ```

use std::collections::BTreeMap;

use forewarn_api_types::{Event, EventId, EventStatus, Machine, Time};
use jiff::{SignedDuration, Timestamp};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use forewarn_api_client::{describe, status_word};

/// Limit of finished events shown: a screen or two.
const ENDED_MAX: usize = 50;

/// The server forgets finished events after this time.
const ENDED_AGE_MAX: SignedDuration = SignedDuration::from_hours(1);

/// Rows that a page key moves.
const PAGE: isize = 10;

/// Limit of the filter text.
const FILTER_CHARS_MAX: usize = 60;

pub struct State {
    pub server: String,
    pub link: LinkState,
    pub clock: ClockLabel,
    pub now: Timestamp,
    pub mode: Mode,
    pub filter: String,
    /// Result of the last action.
    pub message: Option<String>,
    events: Vec<Event>,
    scopes: BTreeMap<u64, EventGroup>,
    selected: Option<RowKey>,
    cursor: Cursor,
}

/// Whether the user has moved the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cursor {
    /// Not moved yet: stays on the first row.
    First,
    Chosen,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    Live,
    /// The reason for the lost connection; reconnecting continues.
    Unreachable(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockLabel {
    Real,
    Manual,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    List,
    Filter,
    Facts,
    Help,
    Question(UserAction),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserAction {
    Quit,
    Approve(EventId),
    Cancel(EventId),
}

/// Machines that share one document.
#[derive(Clone, Debug)]
pub struct EventGroup {
    pub label: String,
    pub kind: &'static str,
    pub listening: bool,
    pub machines: Vec<Machine>,
}

/// Identifies the selected row while others come and go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowKey {
    Event(EventId),
    EventGroup(u64),
}

impl RowKey {
    fn into_event(self) -> Option<EventId> {
        match self {
            RowKey::Event(id) => Some(id),
            RowKey::EventGroup(_) => None,
        }
    }
}

pub enum Row<'a> {
    Heading(&'static str),
    EventGroup(u64, &'a EventGroup),
    Event(&'a Event, Nesting),
}

/// Whether an event is listed below its event group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nesting {
    Grouped,
    Standalone,
}

impl Row<'_> {
    fn key(&self) -> Option<RowKey> {
        match self {
            Row::Heading(_) => None,
            Row::EventGroup(id, _) => Some(RowKey::EventGroup(*id)),
            Row::Event(event, _) => Some(RowKey::Event(event.id)),
        }
    }
}

impl State {
    pub fn new(server: &str) -> State {
        State {
            server: server.trim_start_matches("http://").to_owned(),
            link: LinkState::Live,
            clock: ClockLabel::Real,
            now: Timestamp::UNIX_EPOCH,
            mode: Mode::List,
            filter: String::new(),
            message: None,
            events: Vec::new(),
            scopes: BTreeMap::new(),
            selected: None,
            cursor: Cursor::First,
        }
    }

    /// Replaces all events and machines.
    pub fn replace(&mut self, events: Vec<Event>, machines: Vec<Machine>) {
        let open = self.open_ids();
        self.events = events;
        self.drop_old_events();
        self.scopes.clear();
        for machine in machines {
            let scope = self.scopes.entry(machine.event_group).or_insert_with(|| EventGroup::of(&machine));
            scope.listening |= machine.handler_connected;
            scope.machines.push(machine);
        }
        self.link = LinkState::Live;
        self.move_off_ended(&open);
        self.repair_selection();
    }

    /// Adds or replaces one event.
    pub fn put(&mut self, event: Event) {
        let open = self.open_ids();
        match self.events.iter_mut().find(|known| known.id == event.id) {
            Some(known) => *known = event,
            None => self.events.push(event),
        }
        self.drop_old_events();
        self.move_off_ended(&open);
        self.repair_selection();
    }

    /// IDs of open events, in display order.
    fn open_ids(&self) -> Vec<EventId> {
        let rows = self.open_rows();
        rows.iter().filter_map(Row::key).filter_map(RowKey::into_event).collect()
    }

    /// Moves the selection from an event that just finished to the next open one. Keeps the selection while its details
    /// are open.
    fn move_off_ended(&mut self, open_before: &[EventId]) {
        let Some(RowKey::Event(id)) = &self.selected else { return };
        let Some(place) = open_before.iter().position(|known| known == id).filter(|_| self.mode != Mode::Facts) else {
            return;
        };
        let is_open = |id: &&EventId| self.events.iter().any(|event| event.id == **id && event.ended.is_none());
        if !is_open(&id) {
            let after = open_before[place..].iter().find(is_open);
            let next = after.or_else(|| open_before[..place].iter().rev().find(is_open));
            self.selected = next.map(|id| RowKey::Event(*id));
        }
    }

    pub fn set_time(&mut self, now: Timestamp) {
        self.now = now;
        self.drop_old_events();
        self.repair_selection();
    }

    fn drop_old_events(&mut self) {
        let mut ended: Vec<Timestamp> =
            self.events.iter().filter_map(|event| event.ended).map(Time::timestamp).collect();
        ended.sort_unstable_by(|a, b| b.cmp(a));
        let oldest = ended.get(ENDED_MAX - 1).copied().unwrap_or(Timestamp::MIN);
        let young = |ended: Time| {
            let ended = ended.timestamp();
            ended >= oldest && self.now.duration_since(ended) <= ENDED_AGE_MAX
        };
        self.events.retain(|event| event.ended.is_none_or(young));
    }

    pub fn rows(&self) -> Vec<Row<'_>> {
        let mut rows = Vec::new();
        push_section(&mut rows, "Scheduled and in progress", self.open_rows());
        push_section(&mut rows, "Recently finished", self.ended_rows());
        push_section(&mut rows, "No open events", self.idle_rows());
        rows
    }

    pub fn selected_index(&self, rows: &[Row<'_>]) -> Option<usize> {
        rows.iter().position(|row| row.key().is_some() && row.key() == self.selected)
    }

    pub fn selected_event(&self) -> Option<&Event> {
        let Some(RowKey::Event(id)) = &self.selected else { return None };
        self.events.iter().find(|event| event.id == *id)
    }

    pub fn selected_group(&self) -> Option<&EventGroup> {
        let Some(RowKey::EventGroup(id)) = &self.selected else { return None };
        self.scopes.get(id)
    }

    pub fn group_of(&self, event: &Event) -> Option<&EventGroup> {
        self.scopes.get(&event.event_group)
    }

    pub fn open_count(&self) -> usize {
        self.events.iter().filter(|event| event.ended.is_none()).count()
    }

    pub fn machine_count(&self) -> usize {
        self.scopes.values().map(|scope| scope.machines.len()).sum()
    }

    pub fn confirmation(&self, action: &UserAction) -> String {
        let named = |id: &EventId| {
            let event = self.events.iter().find(|event| event.id == *id);
            event.map_or(id.to_string(), |event| describe(event.kind.as_str(), &event.resources))
        };
        match action {
            UserAction::Approve(id) => format!("Approve {}?", named(id)),
            UserAction::Cancel(id) => format!("Cancel {}?", named(id)),
            UserAction::Quit => "Quit?".into(),
        }
    }

    pub fn on_key(&mut self, key: KeyEvent) -> Option<UserAction> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(UserAction::Quit);
        }
        self.message = None;
        match &self.mode {
            Mode::List => self.on_list_key(key.code),
            Mode::Facts => self.on_facts_key(key.code),
            Mode::Filter => {
                self.on_filter_key(key.code);
                None
            }
            Mode::Help => {
                self.mode = Mode::List;
                None
            }
            Mode::Question(action) => {
                let action = action.clone();
                match key.code {
                    KeyCode::Char('y' | 'Y') => self.mode = Mode::List,
                    KeyCode::Char('n' | 'N') | KeyCode::Esc => {
                        self.mode = Mode::List;
                        return None;
                    }
                    _ => return None,
                }
                Some(action)
            }
        }
    }

    fn on_list_key(&mut self, code: KeyCode) -> Option<UserAction> {
        match code {
            KeyCode::Char('q') => return Some(UserAction::Quit),
            KeyCode::Char('j') | KeyCode::Down => self.move_by(1),
            KeyCode::Char('k') | KeyCode::Up => self.move_by(-1),
            KeyCode::PageDown => self.move_by(PAGE),
            KeyCode::PageUp => self.move_by(-PAGE),
            KeyCode::Char('g') | KeyCode::Home => self.move_by(isize::MIN),
            KeyCode::Char('G') | KeyCode::End => self.move_by(isize::MAX),
            KeyCode::Enter if self.selected.is_some() => self.mode = Mode::Facts,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('?') => self.mode = Mode::Help,
            KeyCode::Esc => {
                self.filter.clear();
                self.repair_selection();
            }
            _ => self.on_event_key(code),
        }
        None
    }

    fn on_facts_key(&mut self, code: KeyCode) -> Option<UserAction> {
        match code {
            KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q') => self.mode = Mode::List,
            KeyCode::Char('j') | KeyCode::Down => self.move_by(1),
            KeyCode::Char('k') | KeyCode::Up => self.move_by(-1),
            _ => self.on_event_key(code),
        }
        None
    }

    fn on_filter_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.mode = Mode::List,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::List;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) if self.filter.chars().count() < FILTER_CHARS_MAX => self.filter.push(c),
            _ => {}
        }
        self.repair_selection();
    }

    /// Only Scheduled events can be approved or canceled.
    fn on_event_key(&mut self, code: KeyCode) {
        let action: fn(EventId) -> UserAction = match code {
            KeyCode::Char('a') => UserAction::Approve,
            KeyCode::Char('c') => UserAction::Cancel,
            _ => return,
        };
        let scheduled =
            self.selected_event().filter(|event| event.status == EventStatus::Scheduled).map(|event| event.id);
        match scheduled {
            Some(id) => self.mode = Mode::Question(action(id)),
            None => self.message = Some("Select a Scheduled event first.".into()),
        }
    }

    fn move_by(&mut self, steps: isize) {
        let rows = self.rows();
        let keys: Vec<RowKey> = rows.iter().filter_map(Row::key).collect();
        let at = keys.iter().position(|key| Some(key) == self.selected.as_ref()).unwrap_or(0);
        let last = keys.len().saturating_sub(1);
        let to = at.saturating_add_signed(steps).min(last);
        self.selected = keys.get(to).cloned();
        self.cursor = Cursor::Chosen;
    }

    /// Selects the first row if the selected one is gone.
    fn repair_selection(&mut self) {
        let rows = self.rows();
        let is_gone = self.selected_index(&rows).is_none();
        let follows = self.cursor == Cursor::First && self.mode == Mode::List;
        if is_gone || follows {
            let first = rows.iter().find_map(Row::key);
            // Do not show the details of another row.
            if self.mode == Mode::Facts {
                self.mode = Mode::List;
            }
            self.selected = first;
            self.cursor = Cursor::First;
        }
    }

    /// Event groups are sorted by their earliest event.
    fn open_rows(&self) -> Vec<Row<'_>> {
        let mut by_scope: BTreeMap<u64, Vec<&Event>> = BTreeMap::new();
        for event in self.events.iter().filter(|event| event.ended.is_none() && self.matches(event)) {
            by_scope.entry(event.event_group).or_default().push(event);
        }
        let mut groups: Vec<(u64, Vec<&Event>)> = by_scope.into_iter().collect();
        groups
            .iter_mut()
            .for_each(|(_, events)| events.sort_by_key(|event| (event.started.is_none(), event.not_before)));
        groups.sort_by_key(|(_, events)| events.iter().map(|event| event.not_before).min());
        groups.into_iter().flat_map(|(id, events)| self.group_rows(id, events)).collect()
    }

    /// A standalone machine has no group row.
    fn group_rows<'a>(&'a self, id: u64, events: Vec<&'a Event>) -> Vec<Row<'a>> {
        let scope = self.scopes.get(&id).filter(|scope| scope.machines.len() > 1);
        let head = scope.map(|scope| Row::EventGroup(id, scope));
        let place = if head.is_some() { Nesting::Grouped } else { Nesting::Standalone };
        head.into_iter().chain(events.into_iter().map(|event| Row::Event(event, place))).collect()
    }

    fn ended_rows(&self) -> Vec<Row<'_>> {
        let mut ended: Vec<&Event> =
            self.events.iter().filter(|event| event.ended.is_some() && self.matches(event)).collect();
        ended.sort_by_key(|event| std::cmp::Reverse(event.ended));
        ended.into_iter().take(ENDED_MAX).map(|event| Row::Event(event, Nesting::Standalone)).collect()
    }

    fn idle_rows(&self) -> Vec<Row<'_>> {
        let busy = |id: u64| self.events.iter().any(|event| event.ended.is_none() && event.event_group == id);
        let mut quiet: Vec<(u64, &EventGroup)> = self
            .scopes
            .iter()
            .map(|(id, scope)| (*id, scope))
            .filter(|(id, scope)| !busy(*id) && self.matches_group(scope))
            .collect();
        quiet.sort_by(|(_, a), (_, b)| a.label.cmp(&b.label));
        quiet.into_iter().map(|(id, scope)| Row::EventGroup(id, scope)).collect()
    }

    fn matches(&self, event: &Event) -> bool {
        let words = [event.kind.as_str(), event.status.as_str(), status_word(event)];
        words.into_iter().chain(event.resources.iter().map(String::as_str)).any(|word| self.contains_filter(word))
            || self.contains_filter(&event.id.to_string())
            || self.group_of(event).is_some_and(|scope| self.contains_filter(&scope.label))
    }

    fn matches_group(&self, scope: &EventGroup) -> bool {
        self.contains_filter(&scope.label) || scope.machines.iter().any(|machine| self.contains_filter(&machine.name))
    }

    fn contains_filter(&self, word: &str) -> bool {
        word.to_lowercase().contains(&self.filter.to_lowercase())
    }
}

fn push_section<'a>(rows: &mut Vec<Row<'a>>, title: &'static str, inside: Vec<Row<'a>>) {
    if !inside.is_empty() {
        rows.push(Row::Heading(title));
        rows.extend(inside);
    }
}

impl EventGroup {
    fn of(machine: &Machine) -> EventGroup {
        let kinds = [
            (&machine.scale_set, "scale set"),
            (&machine.availability_set, "availability set"),
            (&machine.cloud_service, "cloud service"),
        ];
        let group = kinds.into_iter().find_map(|(name, kind)| Some((name.clone()?, kind)));
        let (label, kind) = group.unwrap_or_else(|| (machine.name.clone(), "machine"));
        EventGroup { label, kind, listening: false, machines: Vec::new() }
    }
}
