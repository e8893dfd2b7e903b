//! The stream that keeps a page current. It draws the page again when something was committed, and sends the fragments
//! that differ from what it sent before; what is sent is remembered as a hash, not as text.
//!
//! ```text
//!   draw ─▶ compare ─▶ send what changed ─▶ a commit, a request of a machine, or a heartbeat ─▶ draw
//! ```

use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, Uri, header};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use super::page::{Look, Missing, Page, Panel, Scene};
use super::visitor::Visitor;
use crate::api::{Pages, Service};

/// A page is drawn at most so often, however busy the fleet is: people do not read faster.
const DRAW_EVERY: Duration = Duration::from_millis(250);

/// Drawing a large fleet takes its time; a viewer takes one part of this many of a core.
const DRAW_SHARE: u32 = 10;

/// What machines ask is no commit; a page that shows it is drawn so often anyway.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// So that a page notices soon that the server is gone.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// A browser that takes nothing for so long is let go; it comes back by itself.
const STALLED_AFTER: Duration = Duration::from_secs(60);

pub async fn stream(
    State(service): State<Service>,
    visitor: Visitor,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let page = query.get("page").and_then(|page| page.parse::<Uri>().ok()).and_then(|uri| Page::at(&uri));
    let Some(page) = page else { return StatusCode::NOT_FOUND.into_response() };
    let permit = match service.stream(visitor.principal()) {
        Ok(permit) => permit,
        Err(refusal) => return refusal.into_response(),
    };
    let (messages, body) = mpsc::channel(1);
    let commits = service.engine().subscribe();
    tokio::spawn(Feed { service, visitor, page, messages, commits, sent: HashMap::new(), _permit: permit }.run());
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::new(Pages(body))).into_response()
}

struct Feed {
    service: Service,
    visitor: Visitor,
    page: Page,
    messages: mpsc::Sender<Bytes>,
    commits: watch::Receiver<u64>,
    /// The hash of each fragment that the browser has.
    sent: HashMap<String, u64>,
    _permit: OwnedSemaphorePermit,
}

impl Feed {
    async fn run(mut self) {
        let stop = self.service.stopping().clone();
        let _ = stop.run_until_cancelled(self.feed()).await;
    }

    async fn feed(&mut self) -> Option<Infallible> {
        // Sends everything once: the page may be older than this stream.
        loop {
            self.commits.borrow_and_update();
            // Signing out ends the stream of every tab.
            self.service.access().session(&self.visitor.cookie)?;
            let begun = Instant::now();
            let scene = Scene::now(&self.service, &self.visitor, Look::Later);
            match self.page.draw(&scene).await {
                Ok(drawn) => self.send_changes(&drawn.panels, scene.now.0).await?,
                Err(Missing(_)) => self.send(&json!({ "gone": true }).to_string()).await?,
            }
            sleep(DRAW_EVERY.max(begun.elapsed() * DRAW_SHARE)).await;
            self.wait().await?;
        }
    }

    async fn send_changes(&mut self, panels: &[Panel], now: i64) -> Option<()> {
        let mut kept = HashMap::new();
        let mut put = Vec::new();
        for panel in panels {
            for fragment in &panel.fragments {
                let hash = hash_of(&fragment.html);
                if self.sent.get(&fragment.id) != Some(&hash) {
                    put.push(
                        json!({ "list": panel.id, "id": fragment.id, "sort": fragment.sort, "html": fragment.html }),
                    );
                }
                kept.insert(fragment.id.clone(), hash);
            }
        }
        let gone: Vec<&String> = self.sent.keys().filter(|id| !kept.contains_key(*id)).collect();
        // The first message says what there is at all, so that what has gone since the page was made goes.
        let all: Option<Vec<&String>> = self.sent.is_empty().then(|| kept.keys().collect());
        let message = json!({ "now": now, "put": put, "drop": gone, "all": all }).to_string();
        let is_news = !put.is_empty() || !gone.is_empty() || all.is_some();
        self.sent = kept;
        if is_news { self.send(&message).await } else { Some(()) }
    }

    async fn wait(&mut self) -> Option<()> {
        let mut quiet = Duration::ZERO;
        loop {
            tokio::select! {
                changed = self.commits.changed() => return changed.ok(),
                () = self.messages.closed() => return None,
                () = sleep(LOOK_EVERY) => quiet += LOOK_EVERY,
            }
            if quiet >= HEARTBEAT {
                let now = self.service.engine().now().0;
                self.send(&json!({ "now": now }).to_string()).await?;
                return Some(());
            }
            if matches!(self.page, Page::Machine { .. } | Page::Kit(_)) {
                return Some(());
            }
        }
    }

    async fn send(&self, data: &str) -> Option<()> {
        let message = Bytes::from(format!("data: {data}\n\n"));
        timeout(STALLED_AFTER, self.messages.send(message)).await.ok()?.ok()
    }
}

fn hash_of(html: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    html.hash(&mut hasher);
    hasher.finish()
}
