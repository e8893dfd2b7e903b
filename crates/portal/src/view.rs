//! What a viewer looks at: which stretches of long lists are near the window, which groups of the time line are open.
//! A stream begins with what the page came with, and is told when that changes; what nobody looks at is not drawn.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::extract::State;
use http::StatusCode;
use tokio::sync::watch;

use super::Portal;
use super::visitor::Form;
use forewarn_access::random_token;

/// Stretches that one viewer looks at: a window that is higher than any screen.
const SHELVES_MAX: usize = 64;

/// Groups that one viewer has opened or closed by hand.
const TURNED_MAX: usize = 1000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// By the ids of their elements: `scopes-3`.
    shelves: BTreeSet<String>,
    opened: BTreeSet<u64>,
    closed: BTreeSet<u64>,
}

/// How a group of the time line is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    Open,
    Closed,
}

impl View {
    pub fn of(shelves: impl IntoIterator<Item = String>) -> View {
        View { shelves: shelves.into_iter().collect(), ..View::default() }
    }

    /// As script writes it: words with spaces between.
    pub fn parse(shelves: &str, opened: &str, closed: &str) -> View {
        let numbers =
            |text: &str| text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).take(TURNED_MAX).collect();
        View {
            shelves: shelves.split_ascii_whitespace().take(SHELVES_MAX).map(str::to_owned).collect(),
            opened: numbers(opened),
            closed: numbers(closed),
        }
    }

    pub fn has(&self, list: &str, shelf: usize) -> bool {
        self.shelves.contains(&format!("{list}-{shelf}"))
    }

    /// As the viewer has turned it, or as it is by itself.
    pub fn fold(&self, group: u64, otherwise: Fold) -> Fold {
        if self.opened.contains(&group) {
            Fold::Open
        } else if self.closed.contains(&group) {
            Fold::Closed
        } else {
            otherwise
        }
    }
}

/// The streams that are open, by a name that only their page knows.
#[derive(Debug, Default)]
pub struct Streams(Mutex<HashMap<String, Looking>>);

#[derive(Debug)]
struct Looking {
    /// Whose it is.
    cookie: String,
    /// None: as the page comes.
    view: watch::Sender<Option<View>>,
}

impl Streams {
    /// A name for a stream, and the view as it changes.
    pub fn open(&self, cookie: &str, view: Option<View>) -> (String, watch::Receiver<Option<View>>) {
        let name = random_token();
        let (sender, receiver) = watch::channel(view);
        self.all().insert(name.clone(), Looking { cookie: cookie.to_owned(), view: sender });
        (name, receiver)
    }

    pub fn close(&self, name: &str) {
        self.all().remove(name);
    }

    /// All of this session end: they notice that nobody can tell them what to look at any more.
    pub fn end(&self, cookie: &str) {
        self.all().retain(|_, looking| looking.cookie != cookie);
    }

    /// Whether there is such a stream of this visitor.
    fn look(&self, cookie: &str, name: &str, view: View) -> bool {
        let view = Some(view);
        let all = self.all();
        let found = all.get(name).filter(|looking| looking.cookie == cookie);
        found.is_some_and(|looking| {
            looking.view.send_if_modified(|old| std::mem::replace(old, view.clone()) != view);
            true
        })
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Looking>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A page says what its viewer looks at now.
pub async fn look(State(service): State<Portal>, form: Form) -> StatusCode {
    let view = View::parse(form.text("shelves"), form.text("opened"), form.text("closed"));
    let is_open = service.shared.streams.look(&form.visitor.cookie, form.text("stream"), view);
    if is_open { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }
}
