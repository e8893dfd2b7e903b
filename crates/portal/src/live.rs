//! The stream that keeps a page current. It draws what the viewer looks at again when something was committed, and sends
//! the fragments that differ from what it sent before; what is sent is remembered as a hash, not as text.
//!
//! ```text
//!   draw ─▶ compare ─▶ send what changed ─▶ a commit, another view, a request of a machine, or a heartbeat ─▶ draw
//! ```

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use super::Portal;
use super::page::{Look, Missing, Page, Panel, Scene, page_at};
use super::view::View;
use super::visitor::Visitor;
use forewarn_api::ChannelBody;

/// A page is drawn at most so often, however busy the fleet is: people do not read faster.
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// Drawing a large fleet takes its time; a viewer takes one part of this many of a core.
const DRAW_SHARE: u32 = 10;

/// What machines ask is no commit; a page that shows it is drawn so often anyway.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// So that a page notices soon that the server is gone.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// A browser that takes nothing for so long is let go; it comes back by itself.
const STALLED_AFTER: Duration = Duration::from_secs(60);

pub async fn stream(
    State(service): State<Portal>,
    visitor: Visitor,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let Some(page) = query.get("page").and_then(|page| page_at(page)) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let permit = match service.acquire_stream() {
        Ok(permit) => permit,
        Err(refusal) => return refusal.into_response(),
    };
    let (messages, body) = mpsc::channel(1);
    let commits = service.engine().subscribe();
    let since = query.get("since").and_then(|since| since.parse().ok());
    let field = |name: &str| query.get(name).map_or("", String::as_str);
    let view = query.get("shelves").map(|shelves| View::parse(shelves, field("opened"), field("closed")));
    let (name, views) = service.shared.streams.open(&visitor.cookie, view);
    let feed = Feed { service, visitor, page, messages, commits, views, name, since, sent: None, _permit: permit };
    tokio::spawn(feed.run());
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::new(ChannelBody(body))).into_response()
}

struct Feed {
    service: Portal,
    visitor: Visitor,
    page: Page,
    messages: mpsc::Sender<Bytes>,
    commits: watch::Receiver<u64>,
    views: watch::Receiver<Option<View>>,
    /// By this the page says what it looks at.
    name: String,
    /// The revision that the page was drawn from.
    since: Option<u64>,
    /// Nothing before the first message.
    sent: Option<Sent>,
    _permit: OwnedSemaphorePermit,
}

/// What the browser has.
#[derive(Default)]
struct Sent {
    /// The hash of each fragment.
    fragments: HashMap<String, u64>,
    /// How many stretches each long list has.
    shelves: BTreeMap<&'static str, usize>,
}

impl Sent {
    /// What there is now, and what of it is new or other than before.
    fn compare(&self, panels: &[Panel]) -> (Sent, Vec<Value>) {
        let (mut now, mut put) = (Sent::default(), Vec::new());
        for panel in panels {
            if !panel.shelves.is_empty() || self.shelves.contains_key(panel.id) {
                now.shelves.insert(panel.id, panel.shelves.len());
            }
            for (list, fragment) in panel.drawn() {
                let hash = hash_of(list, &fragment.html);
                if self.fragments.get(&fragment.id) != Some(&hash) {
                    put.push(json!({ "list": list, "id": fragment.id, "sort": fragment.sort, "html": fragment.html }));
                }
                now.fragments.insert(fragment.id.clone(), hash);
            }
        }
        (now, put)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.service.shared.streams.close(&self.name);
    }
}

impl Feed {
    async fn run(mut self) {
        let stop = self.service.stopping().clone();
        let _ = stop.run_until_cancelled(self.feed()).await;
    }

    async fn feed(&mut self) -> Option<Infallible> {
        self.send(&json!({ "stream": self.name }).to_string()).await?;
        loop {
            self.commits.borrow_and_update();
            // A session may end while nobody signs out: its token is rotated, or its time is over.
            self.service.access().session(&self.visitor.cookie)?;
            let begun = Instant::now();
            let mut scene = Scene::now(&self.service, &self.visitor, Look::Later);
            scene.view = self.views.borrow_and_update().clone();
            match self.page.draw(&scene).await {
                Ok(drawn) => self.send_changes(&drawn.panels, &scene).await?,
                Err(Missing(_)) => self.send(&json!({ "gone": true }).to_string()).await?,
            }
            self.pause(begun.elapsed() * DRAW_SHARE).await?;
            self.wait().await?;
        }
    }

    async fn send_changes(&mut self, panels: &[Panel], scene: &Scene) -> Option<()> {
        let before = self.sent.take();
        let is_first = before.is_none();
        let before = before.unwrap_or_default();
        let (now, put) = before.compare(panels);
        let gone: Vec<&String> = before.fragments.keys().filter(|id| !now.fragments.contains_key(*id)).collect();
        let shelves = (before.shelves != now.shelves).then_some(&now.shelves);
        // A page that was drawn from this very revision has it all.
        let has_all = is_first && self.since == Some(scene.snapshot.revision) && !self.page.shows_requests();
        let is_news = is_first || !put.is_empty() || !gone.is_empty() || shelves.is_some();
        // Else the first message says what there is at all, so that what has gone since goes.
        let all: Option<Vec<&String>> = is_first.then(|| now.fragments.keys().collect());
        let message = if has_all {
            json!({ "now": scene.now.0 })
        } else {
            json!({ "now": scene.now.0, "put": put, "drop": gone, "all": all, "shelves": shelves })
        };
        self.sent = Some(now);
        if is_news { self.send(&message.to_string()).await } else { Some(()) }
    }

    /// So that drawing stays a small share of a core, and then, unless the viewer looks elsewhere, for as long as people
    /// take to read.
    async fn pause(&mut self, share: Duration) -> Option<()> {
        sleep(share).await;
        tokio::select! {
            changed = self.views.changed() => {
                self.views.mark_changed();
                changed.ok()
            }
            () = sleep(DRAW_EVERY.saturating_sub(share)) => Some(()),
        }
    }

    async fn wait(&mut self) -> Option<()> {
        let mut quiet = Duration::ZERO;
        loop {
            tokio::select! {
                changed = self.commits.changed() => return changed.ok(),
                changed = self.views.changed() => return changed.ok(),
                () = self.messages.closed() => return None,
                () = sleep(LOOK_EVERY) => quiet += LOOK_EVERY,
            }
            if quiet >= HEARTBEAT {
                let now = self.service.engine().now().0;
                self.send(&json!({ "now": now }).to_string()).await?;
                return Some(());
            }
            if self.page.shows_requests() {
                return Some(());
            }
        }
    }

    async fn send(&self, data: &str) -> Option<()> {
        let message = Bytes::from(format!("data: {data}\n\n"));
        timeout(STALLED_AFTER, self.messages.send(message)).await.ok()?.ok()
    }
}

fn hash_of(list: &str, html: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (list, html).hash(&mut hasher);
    hasher.finish()
}
