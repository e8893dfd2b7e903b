//! Open streams. Signing out ends all streams of a session at once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

#[derive(Debug, Default)]
pub struct Streams(Mutex<OpenStreams>);

#[derive(Debug, Default)]
struct OpenStreams {
    next: u64,
    /// The session of each stream, and its end.
    open: HashMap<u64, (String, CancellationToken)>,
}

impl Streams {
    /// Registers a stream of a session. Returns its number, and a token that is canceled when the session ends.
    pub fn open(&self, cookie: &str) -> (u64, CancellationToken) {
        let mut streams = self.lock();
        let (number, end) = (streams.next, CancellationToken::new());
        streams.next += 1;
        streams.open.insert(number, (cookie.to_owned(), end.clone()));
        (number, end)
    }

    pub fn close(&self, number: u64) {
        self.lock().open.remove(&number);
    }

    pub fn close_session(&self, cookie: &str) {
        self.lock().open.retain(|_, (owner, end)| {
            let is_other = owner != cookie;
            if !is_other {
                end.cancel();
            }
            is_other
        });
    }

    fn lock(&self) -> MutexGuard<'_, OpenStreams> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
