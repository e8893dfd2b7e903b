//! State that a connection shares with its tasks: calls that wait for answers, and where events go.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::error::{Error, LibvirtError, Result};
use crate::event::Event;
use crate::packet::{self, Message, MessageKind};

/// Calls of one connection that wait for their answers. libvirtd reads five at a time and leaves the rest in the socket.
pub const CALLS_MAX: usize = 256;

/// Events that wait to be read. Further ones are dropped and reported as [`Event::Missed`].
pub const EVENTS_MAX: usize = 4096;

/// Messages that wait to be written: all calls, and keepalive messages.
pub const OUTGOING_MAX: usize = CALLS_MAX + 16;

/// The payload of a reply, or the error.
type Answer = oneshot::Sender<Result<Vec<u8>>>;

pub struct Shared {
    outgoing: mpsc::Sender<Vec<u8>>,
    state: Mutex<ConnectionState>,
    closed: watch::Sender<Option<String>>,
}

struct ConnectionState {
    waiting: HashMap<u32, Answer>,
    serial: u32,
    events: Option<mpsc::Sender<Event>>,
    /// Whether events were dropped since the last one that was delivered.
    has_missed: bool,
    heard: Instant,
}

impl Shared {
    pub fn new(outgoing: mpsc::Sender<Vec<u8>>, events: mpsc::Sender<Event>) -> Shared {
        let state = ConnectionState {
            waiting: HashMap::new(),
            serial: 0,
            events: Some(events),
            has_missed: false,
            heard: Instant::now(),
        };
        Shared { outgoing, state: Mutex::new(state), closed: watch::Sender::new(None) }
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Sends a call. The answer arrives through the receiver.
    pub async fn send(&self, procedure: i32, payload: &[u8]) -> Result<(u32, oneshot::Receiver<Result<Vec<u8>>>)> {
        let (answer, receiver) = oneshot::channel();
        let serial = self.enlist(answer)?;
        let Some(bytes) = packet::encode_call(procedure, serial, payload) else {
            self.forget(serial);
            return Err(Error::TooLarge { bytes: payload.len(), max: packet::MESSAGE_BYTES_MAX });
        };
        if self.outgoing.send(bytes).await.is_err() {
            self.forget(serial);
            return Err(self.disconnected());
        }
        Ok((serial, receiver))
    }

    fn enlist(&self, answer: Answer) -> Result<u32> {
        if self.closed.borrow().is_some() {
            return Err(self.disconnected());
        }
        let mut state = self.lock();
        if state.waiting.len() >= CALLS_MAX {
            return Err(Error::Busy(CALLS_MAX));
        }
        let mut serial = state.serial.wrapping_add(1);
        while state.waiting.contains_key(&serial) {
            serial = serial.wrapping_add(1);
        }
        state.serial = serial;
        state.waiting.insert(serial, answer);
        drop(state);
        // The connection can have ended in between, after its calls were failed.
        if self.closed.borrow().is_some() {
            self.forget(serial);
            return Err(self.disconnected());
        }
        Ok(serial)
    }

    /// The caller does not wait any more. An answer that still arrives is ignored.
    pub fn forget(&self, serial: u32) {
        self.lock().waiting.remove(&serial);
    }

    /// Sends a keepalive message, unless the socket is full: then libvirtd has other messages to read.
    pub fn send_keepalive(&self, procedure: i32) {
        let _ = self.outgoing.try_send(packet::encode_keepalive(procedure));
    }

    /// Handles a received message.
    pub fn receive(&self, message: Message) {
        self.lock().heard = Instant::now();
        match (message.header.program, message.header.kind) {
            (packet::REMOTE, MessageKind::Reply) => self.answer(message),
            (packet::REMOTE, MessageKind::Notice) => self.notify(&message),
            (packet::KEEPALIVE, MessageKind::Notice) if message.header.procedure == packet::PING => {
                self.send_keepalive(packet::PONG);
            }
            // Pongs have done their work by arriving. Other messages belong to programs that this client does not use.
            (_, MessageKind::Notice | MessageKind::Reply | MessageKind::Call | MessageKind::Other(_)) => {}
        }
    }

    fn answer(&self, message: Message) {
        let Some(answer) = self.lock().waiting.remove(&message.header.serial) else { return };
        let result = if message.header.is_error {
            Err(match LibvirtError::decode(message.payload()) {
                Ok(error) => error.into(),
                Err(source) => Error::Malformed { procedure: "a call, an error", source },
            })
        } else {
            Ok(message.into_payload())
        };
        // The caller may have given up.
        let _ = answer.send(result);
    }

    fn notify(&self, message: &Message) {
        let Some(event) = Event::decode(message.header.procedure, message.payload()) else { return };
        let mut state = self.lock();
        let Some(events) = state.events.clone() else { return };
        if state.has_missed && events.try_send(Event::Missed).is_ok() {
            state.has_missed = false;
        }
        match events.try_send(event) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => state.has_missed = true,
            Err(mpsc::error::TrySendError::Closed(_)) => state.events = None,
        }
    }

    /// When the last message arrived.
    pub fn last_heard(&self) -> Instant {
        self.lock().heard
    }

    /// Ends the connection: all calls fail, and the stream of events ends. The first reason counts.
    pub fn close(&self, reason: &str) {
        self.closed.send_if_modified(|closed| {
            let is_first = closed.is_none();
            if is_first {
                *closed = Some(reason.to_owned());
            }
            is_first
        });
        let mut state = self.lock();
        state.events = None;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for answer in waiting.into_values() {
            let _ = answer.send(Err(self.disconnected()));
        }
    }

    /// Waits for the end of the connection.
    pub async fn closed(&self) -> String {
        let mut closed = self.closed.subscribe();
        let reason = closed.wait_for(Option::is_some).await;
        reason.ok().and_then(|reason| reason.clone()).unwrap_or_default()
    }

    pub fn disconnected(&self) -> Error {
        Error::Disconnected(self.closed.borrow().clone().unwrap_or_else(|| "closed".into()))
    }
}
