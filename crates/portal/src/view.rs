//! The part of a page that is on screen: which chunks of long lists are near the viewport, and which event groups of the
//! timeline are expanded. A stream starts with the view of its page and is updated when that changes. Everything else is
//! not rendered.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use forewarn_access::random_token;

/// Chunks per view: more than fit on any screen.
const CHUNKS_MAX: usize = 64;

/// Event groups that one viewer has expanded or collapsed by hand.
const FOLDS_MAX: usize = 1000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Element IDs, such as `scopes-3`.
    chunks: BTreeSet<String>,
    opened: BTreeSet<u64>,
    closed: BTreeSet<u64>,
}

/// Whether an event group of the timeline is expanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    Open,
    Closed,
}

impl View {
    pub fn of_chunks(chunks: impl IntoIterator<Item = String>) -> View {
        View { chunks: chunks.into_iter().collect(), ..View::default() }
    }

    /// Parses the lists that the script sends, separated by spaces.
    pub fn parse(chunks: &str, opened: &str, closed: &str) -> View {
        let numbers =
            |text: &str| text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).take(FOLDS_MAX).collect();
        View {
            chunks: chunks.split_ascii_whitespace().take(CHUNKS_MAX).map(str::to_owned).collect(),
            opened: numbers(opened),
            closed: numbers(closed),
        }
    }

    pub fn has_chunk(&self, list: &str, number: usize) -> bool {
        self.chunks.contains(&format!("{list}-{number}"))
    }

    /// The viewer's choice for an event group, or the default.
    pub fn fold(&self, group: u64, default: Fold) -> Fold {
        if self.opened.contains(&group) {
            Fold::Open
        } else if self.closed.contains(&group) {
            Fold::Closed
        } else {
            default
        }
    }
}

/// Open streams, by a random name that only their page knows.
#[derive(Debug, Default)]
pub struct Streams(Mutex<HashMap<String, OpenStream>>);

#[derive(Debug)]
struct OpenStream {
    /// The session that opened the stream.
    cookie: String,
    /// `None` until the page reports its view.
    view: watch::Sender<Option<View>>,
}

impl Streams {
    /// Registers a stream. Returns its name and its view, which changes over time.
    pub fn open(&self, cookie: &str, view: Option<View>) -> (String, watch::Receiver<Option<View>>) {
        let name = random_token();
        let (sender, receiver) = watch::channel(view);
        self.lock().insert(name.clone(), OpenStream { cookie: cookie.to_owned(), view: sender });
        (name, receiver)
    }

    pub fn close(&self, name: &str) {
        self.lock().remove(name);
    }

    /// Closes all streams of a session. They end when they notice that the sender of their view is gone.
    pub fn close_session(&self, cookie: &str) {
        self.lock().retain(|_, stream| stream.cookie != cookie);
    }

    /// Returns whether the session has such a stream.
    pub fn set_view(&self, cookie: &str, name: &str, view: View) -> bool {
        let view = Some(view);
        let streams = self.lock();
        let found = streams.get(name).filter(|stream| stream.cookie == cookie);
        found.is_some_and(|stream| {
            stream.view.send_if_modified(|old| std::mem::replace(old, view.clone()) != view);
            true
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, OpenStream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
