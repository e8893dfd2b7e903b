//! The stream that keeps an open page current. After each commit it renders what is on screen and sends the fragments that
//! have changed since they were last sent. It remembers hashes of fragments, not their text.
//!
//! ```text
//!   render ─▶ compare ─▶ send changes ─▶ wait for a commit, a metadata request or a heartbeat ─▶ render
//! ```

use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use forewarn_widgets::html::RenderMode;
use forewarn_widgets::panel::{NotFound, PageContent};
use http::{StatusCode, header};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::page::{self, Page};
use super::page_context::PageContext;
use super::visitor::Visitor;
use super::{Portal, cluster};
use forewarn_api::ChannelBody;
use forewarn_widgets::outage::count_down;

/// Shortest interval between two updates, however busy the fleet is: people do not read faster.
const UPDATE_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Rendering for one viewer may use at most this fraction of a core: 1 / `RENDER_SHARE`.
const RENDER_SHARE: u32 = 10;

/// Interval at which pages are rendered that show more than commits.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Lets pages notice soon that the server is gone.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Browsers that accept no data for this long are disconnected. They reconnect by themselves.
const STALLED_AFTER: Duration = Duration::from_secs(60);

pub async fn open_stream(
    State(portal): State<Portal>,
    visitor: Visitor,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let Some(page) = query.get("page").and_then(|page| page::find(page)) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let permit = match portal.acquire_stream() {
        Ok(permit) => permit,
        Err(refusal) => return refusal.into_response(),
    };
    let (messages, body) = mpsc::channel(1);
    let commits = portal.engine().subscribe();
    let leaders = portal.engine().cluster().map(|cluster| cluster.changes());
    let since = query.get("since").and_then(|since| since.parse().ok());
    let (number, end) = portal.shared.streams.open(&visitor.cookie);
    let feed =
        Feed { portal, visitor, page, messages, commits, leaders, end, number, since, sent: None, _permit: permit };
    tokio::spawn(feed.run());
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::new(ChannelBody(body))).into_response()
}

struct Feed {
    portal: Portal,
    visitor: Visitor,
    page: Page,
    messages: mpsc::Sender<Bytes>,
    commits: watch::Receiver<u64>,
    /// Changes of the leader; None: a single server.
    leaders: Option<watch::Receiver<u64>>,
    /// Canceled when the session ends.
    end: CancellationToken,
    number: u64,
    /// The revision that the page was rendered from.
    since: Option<u64>,
    /// `None` before the first message.
    sent: Option<Sent>,
    _permit: OwnedSemaphorePermit,
}

/// The state of the page in the browser.
#[derive(Default)]
struct Sent {
    /// The hash of each fragment.
    fragments: HashMap<String, u64>,
    /// The number of machines that are down, which the title of the tab shows.
    down: usize,
    /// The warning while no server leads.
    outage: &'static str,
}

impl Sent {
    /// The new state, and the fragments that are new or have changed.
    fn compare(&self, content: &PageContent, context: &PageContext) -> (Sent, Vec<Value>) {
        let down = count_down(context.region());
        let outage = cluster::describe_outage(context);
        let (mut now, mut put) = (Sent { down, outage, fragments: HashMap::new() }, Vec::new());
        for panel in content.all_panels() {
            for (list, fragment) in panel.rendered_fragments() {
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
        self.portal.shared.streams.close(self.number);
    }
}

impl Feed {
    async fn run(mut self) {
        let (stop, end) = (self.portal.stopping().clone(), self.end.clone());
        let _ = stop.run_until_cancelled(end.run_until_cancelled(self.feed())).await;
    }

    async fn feed(&mut self) -> Option<Infallible> {
        loop {
            self.commits.borrow_and_update();
            // A session can end without signing out: its token is rotated, or it expires.
            self.portal.find_session(&self.visitor.cookie).await?;
            let begun = Instant::now();
            let context = PageContext::now(&self.portal, &self.visitor, RenderMode::Update);
            match self.page.render(&context).await {
                Ok(content) => self.send_changes(&content, &context).await?,
                Err(NotFound(_)) => self.send(&json!({ "gone": true }).to_string()).await?,
            }
            self.pause(begun.elapsed() * RENDER_SHARE).await;
            self.wait().await?;
        }
    }

    async fn send_changes(&mut self, content: &PageContent, context: &PageContext) -> Option<()> {
        let before = self.sent.take();
        let is_first = before.is_none();
        let before = before.unwrap_or_default();
        let (now, put) = before.compare(content, context);
        let gone: Vec<&String> = before.fragments.keys().filter(|id| !now.fragments.contains_key(*id)).collect();
        // A page that was rendered from this revision is complete.
        let has_all = is_first && self.since == Some(context.snapshot.revision) && !self.page.changes_without_commits();
        let is_frame_changed = (before.down, before.outage) != (now.down, now.outage);
        let is_change = is_first || !put.is_empty() || !gone.is_empty() || is_frame_changed;
        // Otherwise the first message lists all fragments, so that the page removes those that are gone.
        let all: Option<Vec<&String>> = is_first.then(|| now.fragments.keys().collect());
        let message = if has_all {
            json!({ "now": context.now.0, "down": now.down, "outage": now.outage })
        } else {
            json!({ "now": context.now.0, "down": now.down, "outage": now.outage, "put": put, "drop": gone, "all": all })
        };
        self.sent = Some(now);
        if is_change { self.send(&message.to_string()).await } else { Some(()) }
    }

    /// Limits the share of a core that rendering takes, and the rate of updates.
    async fn pause(&mut self, share: Duration) {
        sleep(share.max(UPDATE_INTERVAL_MIN)).await;
    }

    async fn wait(&mut self) -> Option<()> {
        let mut quiet = Duration::ZERO;
        loop {
            tokio::select! {
                changed = self.commits.changed() => return changed.ok(),
                changed = wait_for_leader(&mut self.leaders) => return changed,
                () = self.messages.closed() => return None,
                () = sleep(POLL_INTERVAL) => quiet += POLL_INTERVAL,
            }
            if quiet >= HEARTBEAT {
                let now = self.portal.engine().now().0;
                self.send(&json!({ "now": now }).to_string()).await?;
                return Some(());
            }
            if self.page.changes_without_commits() {
                return Some(());
            }
        }
    }

    async fn send(&self, data: &str) -> Option<()> {
        let message = Bytes::from(format!("data: {data}\n\n"));
        timeout(STALLED_AFTER, self.messages.send(message)).await.ok()?.ok()
    }
}

/// Waits until the cluster has another leader or none; forever on a single server.
async fn wait_for_leader(leaders: &mut Option<watch::Receiver<u64>>) -> Option<()> {
    match leaders {
        Some(leaders) => leaders.changed().await.ok(),
        None => std::future::pending().await,
    }
}

fn hash_of(list: &str, html: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (list, html).hash(&mut hasher);
    hasher.finish()
}
