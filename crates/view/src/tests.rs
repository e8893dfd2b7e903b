//! Tests of the live view without a terminal or a server: keys go in, a screen comes out.

use forewarn_api_types::{Event, EventId, Machine};
use jiff::Timestamp;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

use super::draw::draw;
use super::state::{ClockLabel, LinkState, Mode, Row, State, UserAction};
use forewarn_api_client::sample;

fn machine(name: &str, scope: u64, set: Option<&str>) -> Machine {
    sample::machine(json!({"name": name, "resourceGroup": "rg", "eventGroup": scope, "scaleSet": set,
        "handlerConnected": set.is_some()}))
}

/// The ID of the event with this number.
fn id(number: u128) -> EventId {
    EventId(number)
}

fn event(number: u128, kind: &str, scope: u64, machine: &str, more: Value) -> Event {
    let mut facts = json!({"id": id(number), "type": kind, "resources": [machine], "eventGroup": scope,
        "description": "Virtual machine is going to be restarted as requested by authorized user."});
    facts.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    sample::event(facts)
}

fn at(text: &str) -> Timestamp {
    format!("2026-07-28T{text}Z").parse().unwrap()
}

/// A scale set with two events, a machine with an event in progress, one with a finished event, and an idle machine.
fn fleet() -> State {
    let mut state = State::new("http://127.0.0.1:8170");
    state.clock = ClockLabel::Manual;
    state.set_time(at("10:05:00"));
    let started = json!({"status": "Started", "started": "2026-07-28T10:04:30Z",
        "approval": {"approvedBy": "guest:db", "approvedAt": "2026-07-28T10:04:30Z"}});
    let ended = json!({"status": "Ended", "outcome": "Completed", "ended": "2026-07-28T10:03:00Z"});
    state.replace(
        vec![
            event(1, "Reboot", 1, "web_0", json!({})),
            event(2, "Terminate", 1, "web_1", json!({"notBefore": "2026-07-28T10:10:00Z"})),
            event(3, "Freeze", 2, "db", started),
            event(4, "Redeploy", 3, "mail", ended),
        ],
        vec![
            machine("web_0", 1, Some("web")),
            machine("web_1", 1, Some("web")),
            machine("db", 2, None),
            machine("mail", 3, None),
        ],
    );
    state
}

fn press(state: &mut State, keys: &str) -> Vec<UserAction> {
    let code = |key: char| match key {
        '\n' => KeyCode::Enter,
        '\x1b' => KeyCode::Esc,
        '\x08' => KeyCode::Backspace,
        key => KeyCode::Char(key),
    };
    keys.chars().filter_map(|key| state.on_key(KeyEvent::new(code(key), KeyModifiers::NONE))).collect()
}

fn screen(state: &State, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state)).unwrap();
    let buffer = terminal.backend().buffer();
    let line =
        |row: u16| (0..width).map(|column| buffer[(column, row)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

#[track_caller]
fn check_screen(state: &State, expected: &str) {
    let shown: Vec<String> = screen(state, 80, 24).into_iter().filter(|line| !line.is_empty()).collect();
    assert_eq!(shown.join("\n"), expected.trim_matches('\n'), "\n{}\n", shown.join("\n"));
}

#[track_caller]
fn check_selected(state: &State, event: Option<u128>) {
    assert_eq!(state.selected_event().map(|event| event.id), event.map(id));
}

#[test]
fn open_and_finished_events_fit_80_columns() {
    check_screen(
        &fleet(),
        "
 forewarn ● 127.0.0.1:8170     3 open · 4 machines · 2026-07-28 10:05:00 manual
────────────────────────────────────────────────────────────────────────────────
 SCHEDULED AND IN PROGRESS
  web                        scale set, 2 machines · handler connected
    Terminate Scheduled    web_1            ━━━━━━╌╌╌╌╌╌     5:00
    Reboot    Scheduled    web_0            ━━━━━━━━╌╌╌╌    10:00
  Freeze      Started      db               in progress      0:30  ✓ db
 RECENTLY FINISHED
  Redeploy    Completed    mail             at           10:03:00
 NO OPEN EVENTS
  mail                       standalone VM · no handler
 ↑↓ move · enter details · a approve · c cancel · / filter · ? help · q quit",
    );
}

#[test]
fn details_are_shown_above_the_list() {
    let mut state = fleet();
    press(&mut state, "jj\n");
    let shown = screen(&state, 80, 24).join("\n");
    for part in [
        "╭ Reboot of web_0 ─",
        "│  event        00000000-0000-0000-0000-000000000001 ",
        "│  timeline     Scheduled 10:00:00 ",
        "│  description  Virtual machine is going to be restarted as requested by",
        "│               authorized user. ",
        "│  group        web (scale set) ",
        "│  a approve · c cancel · esc back ",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    press(&mut state, "\x1b");
    assert_eq!(state.mode, Mode::List);
}

#[test]
fn approving_and_canceling_ask_for_confirmation() {
    let mut state = fleet();
    assert_eq!(press(&mut state, "ja"), []);
    assert!(screen(&state, 80, 24).join("\n").contains("Approve Terminate of web_1?"));
    assert_eq!(press(&mut state, "n"), []);
    assert_eq!(press(&mut state, "ay"), [UserAction::Approve(id(2))]);
    assert_eq!(press(&mut state, "jcxy"), [UserAction::Cancel(id(1))]);
    assert_eq!(press(&mut state, "q"), [UserAction::Quit]);
}

#[test]
fn only_scheduled_events_can_be_approved() {
    let mut state = fleet();
    press(&mut state, "jjja");
    check_selected(&state, Some(3));
    assert_eq!(state.mode, Mode::List);
    assert_eq!(screen(&state, 80, 24)[23], " Select a Scheduled event first.");
    press(&mut state, "ka");
    assert_eq!(state.mode, Mode::Question(UserAction::Approve(id(1))));
}

#[test]
fn the_selection_stays_with_its_event() {
    let mut state = fleet();
    press(&mut state, "jj");
    check_selected(&state, Some(1));
    state.put(event(0, "Reboot", 9, "early", json!({"notBefore": "2026-07-28T10:06:00Z"})));
    check_selected(&state, Some(1));
    press(&mut state, "g");
    check_selected(&state, Some(0));
    press(&mut state, "kkG");
    assert_eq!(state.selected_group().map(|scope| scope.label.as_str()), Some("mail"));
}

#[test]
fn names_fit_50_columns_and_fewer() {
    let shown = format!("\n{}", screen(&fleet(), 50, 24).join("\n"));
    let expected = "
 ● 127.0.0.1:8170        3 open · 10:05:00 manual
──────────────────────────────────────────────────
 SCHEDULED AND IN PROGRESS
  web              handler · scale set, 2 machines
    Terminate Scheduled web_1               5:00
    Reboot    Scheduled web_0              10:00
  Freeze      Started   db                  0:30 ✓";
    assert!(shown.starts_with(expected), "{shown}");
    assert!(shown.contains("enter details · a approve · c cancel · ? help · q"), "{shown}");
    for width in 32..200 {
        let shown = screen(&fleet(), width, 24);
        let of = |kind: &str| shown.iter().find(|line| line.contains(kind)).unwrap().clone();
        assert!(of("Terminate").contains("web_1") && of("Freeze").contains("db"), "{width}: {shown:?}");
        assert!(of("Terminate").contains("5:00"), "{width}: {shown:?}");
    }
}

#[test]
fn the_cursor_moves_on_when_its_event_finishes() {
    let ended = json!({"status": "Ended", "outcome": "Completed", "ended": "2026-07-28T10:05:00Z"});
    let mut state = fleet();
    press(&mut state, "j");
    check_selected(&state, Some(2));
    state.put(event(2, "Terminate", 1, "web_1", ended.clone()));
    check_selected(&state, Some(1));
    press(&mut state, "\n");
    state.put(event(1, "Reboot", 1, "web_0", ended.clone()));
    check_selected(&state, Some(1));
    assert_eq!(state.mode, Mode::Facts, "open details stay");
    press(&mut state, "\x1bg");
    check_selected(&state, Some(3));
    state.put(event(3, "Freeze", 2, "db", ended));
    assert_ne!(state.selected_event().map(|event| event.id), Some(id(3)));
}

#[test]
fn a_cursor_that_was_not_moved_stays_on_the_first_row() {
    let mut state = fleet();
    state.replace(Vec::new(), vec![machine("a", 1, None), machine("b", 2, None)]);
    check_selected(&state, None);
    state.put(event(1, "Reboot", 2, "b", json!({})));
    check_selected(&state, Some(1));
    press(&mut state, "g");
    state.put(event(0, "Reboot", 1, "a", json!({"notBefore": "2026-07-28T10:06:00Z"})));
    check_selected(&state, Some(1));
}

#[test]
fn details_close_when_their_event_is_forgotten() {
    let mut state = fleet();
    press(&mut state, "jjjj\n");
    check_selected(&state, Some(4));
    state.set_time(at("11:02:00"));
    assert_eq!(state.mode, Mode::Facts);
    state.set_time(at("11:03:01"));
    assert_eq!(state.mode, Mode::List);
    check_selected(&state, None);
}

#[test]
fn the_newest_finished_events_are_kept() {
    let mut state = fleet();
    for n in 0..200_u32 {
        let ended = json!({"status": "Ended", "outcome": "Completed", "ended": format!("2026-07-28T10:04:{:02}.{n:03}Z", n / 10)});
        state.put(event(0x1000 + u128::from(n), "Reboot", 9, "x", ended));
    }
    let shown = state.rows().iter().filter(|row| matches!(row, Row::Event(event, _) if event.ended.is_some())).count();
    assert_eq!((shown, state.open_count()), (50, 3));
    press(&mut state, "/0000000010C7");
    assert_eq!(state.rows().len(), 2);
    press(&mut state, "\x1b/000000000004");
    assert_eq!(state.rows().len(), 0);
}

#[test]
fn a_filter_shows_matching_rows() {
    let mut state = fleet();
    press(&mut state, "/WEB_0");
    let count = |state: &State| state.rows().len();
    assert_eq!(count(&state), 3, "a heading, the set, the event");
    assert!(screen(&state, 80, 24)[23].starts_with(" Filter: WEB_0▏"));
    press(&mut state, "x");
    assert_eq!(screen(&state, 80, 24)[2], " No matches.");
    press(&mut state, "\x08\n");
    assert!(screen(&state, 80, 24)[23].starts_with(" Filter: WEB_0  esc clear"));
    press(&mut state, "\x1b");
    assert_eq!(count(&state), 9);
    press(&mut state, "/q\x1b");
    assert_eq!((count(&state), state.mode.clone()), (9, Mode::List));
}

#[test]
fn an_unreachable_server_is_shown_and_the_last_state_stays() {
    let mut state = fleet();
    state.link = LinkState::Unreachable("connection refused".into());
    let shown = screen(&state, 100, 24);
    assert!(shown[0].starts_with(" forewarn ○ 127.0.0.1:8170 unreachable"), "{}", shown[0]);
    assert_eq!(shown[23], " Reconnecting: connection refused");
    assert!(shown.join("\n").contains("Terminate Scheduled"));
    state.replace(Vec::new(), Vec::new());
    assert_eq!(state.link, LinkState::Live);
    assert_eq!(screen(&state, 80, 24)[2], " There are no machines.");
}

#[test]
fn the_selected_row_is_visible_in_any_size() {
    let mut state = fleet();
    let many: Vec<Machine> = (0..200).map(|n| machine(&format!("m{n:03}"), 100 + n, None)).collect();
    state.replace(Vec::new(), many);
    press(&mut state, "G");
    assert!(screen(&state, 80, 24).join("\n").contains("m199"));
    for (width, height) in [(1, 1), (3, 2), (20, 5), (40, 10), (300, 80)] {
        for keys in ["", "?", "x\n", "\x1b/"] {
            press(&mut state, keys);
            screen(&state, width, height);
        }
        press(&mut state, "\x1b");
    }
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let mut state = fleet();
    state.put(event(9, "Reboot", 9, "a\x1b[2J", json!({"description": "x\x1by"})));
    press(&mut state, "g");
    for keys in ["", "\n", "a"] {
        press(&mut state, keys);
        assert!(!screen(&state, 80, 24).join("\n").contains('\x1b'));
    }
}

#[test]
fn ctrl_c_quits_everywhere() {
    for keys in ["", "/", "?", "j\n", "ja"] {
        let mut state = fleet();
        press(&mut state, keys);
        let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(state.on_key(ctrl_c), Some(UserAction::Quit), "{keys}");
    }
}
