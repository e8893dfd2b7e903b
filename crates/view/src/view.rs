//! The terminal side of the live view: threads that read keys, updates and signals, and one loop that applies them to the
//! state and draws it. The terminal is restored however the loop ends.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use forewarn_api_types::Clock;
use jiff::Timestamp;
use ratatui::DefaultTerminal;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, KeyEvent, KeyEventKind};
use ratatui::style::Color;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::draw::draw;
use super::source::{self, Update};
use super::state::{ClockLabel, LinkState, State, UserAction};
use forewarn_api_client::failure::Failure;
use forewarn_api_client::terminal::use_color;
use forewarn_api_client::{Api, is_manual, now_since};

/// Interval at which the remaining time is redrawn.
const TICK: Duration = Duration::from_millis(500);

/// Capacity of the queue of inputs.
const QUEUE_MAX: usize = 256;

enum Input {
    Key(KeyEvent),
    Resized,
    Update(Update),
    Stop,
}

pub fn run(api: &Api) -> Result<(), Failure> {
    // Fetched before the screen is taken over, so that an unreachable server is reported as an ordinary error.
    let first = source::fetch_all(api)?;
    let paint = if use_color(&io::stdout()) { ColorMode::Colored } else { ColorMode::Plain };
    let mut view = View { state: State::new(api.server()), paint, clock: None, api: api.clone() };
    first.into_iter().for_each(|update| view.apply(update));
    let (to, inputs) = sync_channel(QUEUE_MAX);
    let unusable = |error: io::Error| Failure::Refused(format!("cannot use the terminal: {error}; try --lines"));
    let signals = ExitSignals::install().map_err(unusable)?;
    let mut terminal = ratatui::try_init().map_err(unusable)?;
    listen(&view.api, signals, &to);
    let result = view.run(&mut terminal, &inputs, &to);
    ratatui::restore();
    result
}

fn listen(api: &Api, signals: ExitSignals, to: &SyncSender<Input>) {
    let (keys, stop) = (to.clone(), to.clone());
    thread::spawn(move || read_keys(&keys));
    thread::spawn(move || signals.wait(&stop));
    let (news_to, update) = sync_channel(QUEUE_MAX);
    let api = api.clone();
    thread::spawn(move || source::listen(&api, &news_to));
    let to = to.clone();
    thread::spawn(move || update.into_iter().try_for_each(|update| to.send(Input::Update(update))));
}

fn read_keys(to: &SyncSender<Input>) {
    loop {
        let input = match event::read() {
            Ok(event::Event::Key(key)) if key.kind != KeyEventKind::Release => Input::Key(key),
            Ok(event::Event::Resize(..)) => Input::Resized,
            Ok(_) => continue,
            // The terminal is gone.
            Err(_) => Input::Stop,
        };
        let stop = matches!(input, Input::Stop);
        if to.send(input).is_err() || stop {
            return;
        }
    }
}

/// Signals that end the view.
struct ExitSignals {
    runtime: Runtime,
    signals: [Signal; 3],
}

impl ExitSignals {
    /// From here on these signals no longer kill the process, so the screen can be restored first.
    fn install() -> io::Result<ExitSignals> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let guard = runtime.enter();
        let signals =
            [signal(SignalKind::terminate())?, signal(SignalKind::hangup())?, signal(SignalKind::interrupt())?];
        drop(guard);
        Ok(ExitSignals { runtime, signals })
    }

    fn wait(self, to: &SyncSender<Input>) {
        let [mut terminate, mut hangup, mut interrupt] = self.signals;
        self.runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
                _ = interrupt.recv() => {}
            }
        });
        let _ = to.send(Input::Stop);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ColorMode {
    Colored,
    Plain,
}

/// Keeps bold and reversed text, which mark the selected row.
fn remove_colors(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        cell.set_fg(Color::Reset).set_bg(Color::Reset);
    }
}

struct View {
    state: State,
    paint: ColorMode,
    clock: Option<(Clock, Instant)>,
    api: Api,
}

enum Flow {
    Continue,
    Exit,
}

impl View {
    fn run(
        &mut self,
        terminal: &mut DefaultTerminal,
        inputs: &Receiver<Input>,
        to: &SyncSender<Input>,
    ) -> Result<(), Failure> {
        loop {
            self.state.set_time(self.now());
            let drawn = terminal.draw(|frame| {
                draw(frame, &self.state);
                if self.paint == ColorMode::Plain {
                    remove_colors(frame.buffer_mut());
                }
            });
            drawn.map_err(|error| Failure::Refused(format!("cannot write to the terminal: {error}")))?;
            let first = match inputs.recv_timeout(TICK) {
                Ok(input) => Some(input),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            // Inputs that arrived together are drawn together.
            for input in first.into_iter().chain(inputs.try_iter().take(QUEUE_MAX)) {
                if matches!(self.take(input, to), Flow::Exit) {
                    return Ok(());
                }
            }
        }
    }

    fn take(&mut self, input: Input, to: &SyncSender<Input>) -> Flow {
        match input {
            Input::Stop => return Flow::Exit,
            Input::Resized => {}
            Input::Update(update) => self.apply(update),
            Input::Key(key) => match self.state.on_key(key) {
                Some(UserAction::Quit) => return Flow::Exit,
                Some(action) => self.send_request(action, to.clone()),
                None => {}
            },
        }
        Flow::Continue
    }

    fn apply(&mut self, update: Update) {
        match update {
            Update::Everything { events, machines } => self.state.replace(events, machines),
            Update::Event(event) => self.state.put(*event),
            Update::Clock(clock, seen) => {
                let manual = is_manual(&clock);
                self.state.clock = if manual { ClockLabel::Manual } else { ClockLabel::Real };
                self.state.link = LinkState::Live;
                self.clock = Some((clock, seen));
                self.state.set_time(self.now());
            }
            Update::Unreachable(why) => self.state.link = LinkState::Unreachable(why),
            Update::Message(text) => self.state.message = Some(text),
        }
    }

    /// Sends the request on a thread; the answer arrives as an update, so that a slow server does not block the keys.
    fn send_request(&self, action: UserAction, to: SyncSender<Input>) {
        let api = self.api.clone();
        thread::spawn(move || {
            let update = match action {
                UserAction::Approve(id) => source::approve(&api, id),
                UserAction::Cancel(id) => source::cancel(&api, id),
                UserAction::Quit => return,
            };
            let _ = to.send(Input::Update(update));
        });
    }

    fn now(&self) -> Timestamp {
        self.clock.as_ref().and_then(|(clock, seen)| now_since(clock, *seen)).unwrap_or(self.state.now)
    }
}
