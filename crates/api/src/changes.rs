//! The stream of changes: rows of history as Server-Sent Events. The number of a row is the ID of its message, so a client
//! that reconnects continues where it left off.
//!
//! ```text
//!   subscribe ─▶ read a page after `last` ─▶ send it ─▶ was it full? ─yes─▶ read on
//!                       ▲                                   │ no
//!                       └─ a commit · heartbeat · stop ◀────┘
//! ```
//!
//! A slow client occupies one page of memory; the rest stays in history.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::response::{IntoResponse, Response};
use forewarn_store::{HistoryQuery, HistoryRow as StoredRow};
use http::{HeaderMap, header};
use hyper::body::Frame;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::timeout;
use utoipa::IntoParams;

use super::Actions;
use super::error::{ApiError, ErrorCode};
use super::extract::Params;
use super::history;
use forewarn_api_types::Number;

/// Keeps proxies and clients from closing an idle connection.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// Rows that are read and sent at once.
pub const ROWS_PER_PAGE: u32 = 100;

/// A client that reads nothing for this long is disconnected. It can reconnect and continue.
pub const STALLED_AFTER: Duration = Duration::from_secs(60);

/// Pages that are queued for the connection.
const PAGES_QUEUED_MAX: usize = 1;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ChangesQuery {
    /// Number of the last row received. The header `Last-Event-ID` takes precedence.
    #[param(inline)]
    pub after: Option<Number>,
}

pub async fn stream(
    actions: Actions,
    headers: HeaderMap,
    Params(query): Params<ChangesQuery>,
) -> Result<Response, ApiError> {
    let permit = actions.service().acquire_stream()?;
    // Subscribe before reading history, so that no commit is missed.
    let commits = actions.engine().subscribe();
    let last = match last_event_id(&headers)?.or(query.after.map(|after| after.0)) {
        Some(last) => last,
        None => newest_row(&actions).await?,
    };
    let (pages, body) = mpsc::channel(PAGES_QUEUED_MAX);
    tokio::spawn(Feed { actions, pages, commits, last, _permit: permit }.run());
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::new(ChannelBody(body))).into_response())
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    match value.to_str().ok().and_then(|text| text.trim().parse().ok()) {
        Some(number) => Ok(Some(number)),
        None => {
            let message = "The header Last-Event-ID must be a number: the ID of a message of this stream.";
            Err(ApiError::new(ErrorCode::InvalidQuery, message).with_target("Last-Event-ID"))
        }
    }
}

async fn newest_row(actions: &Actions) -> Result<u64, ApiError> {
    let query = HistoryQuery { newest: true, limit: Some(1), ..HistoryQuery::default() };
    Ok(history::read_rows(actions, query).await?.last().map_or(0, |row| row.number))
}

struct Feed {
    actions: Actions,
    pages: mpsc::Sender<Bytes>,
    commits: watch::Receiver<u64>,
    last: u64,
    _permit: OwnedSemaphorePermit,
}

impl Feed {
    /// Runs until the client disconnects or stalls, or the server stops.
    async fn run(mut self) {
        let stop = self.actions.service().stopping().clone();
        let _ = stop.run_until_cancelled(self.feed()).await;
    }

    async fn feed(&mut self) -> Option<Infallible> {
        self.send(Bytes::from_static(b": stream of changes\n\n")).await?;
        loop {
            self.commits.borrow_and_update();
            let query = HistoryQuery { after: Some(self.last), limit: Some(ROWS_PER_PAGE), ..HistoryQuery::default() };
            let rows = history::read_rows(&self.actions, query).await.ok()?;
            let full = rows.len() == ROWS_PER_PAGE as usize;
            if let Some(newest) = rows.last() {
                self.last = newest.number;
                self.send(rows.into_iter().map(build_message).collect::<String>().into()).await?;
            }
            if !full {
                self.wait().await?;
            }
        }
    }

    /// Waits for the next commit and sends heartbeats meanwhile.
    async fn wait(&mut self) -> Option<()> {
        loop {
            tokio::select! {
                changed = self.commits.changed() => return changed.ok(),
                () = self.pages.closed() => return None,
                () = tokio::time::sleep(HEARTBEAT) => self.send(Bytes::from_static(b": heartbeat\n\n")).await?,
            }
        }
    }

    async fn send(&self, page: Bytes) -> Option<()> {
        timeout(STALLED_AFTER, self.pages.send(page)).await.ok()?.ok()
    }
}

fn build_message(row: StoredRow) -> String {
    let row = history::render_row(row);
    let data = serde_json::to_string(&row).unwrap_or_else(|_| "{}".into());
    format!("id: {}\nevent: {}\ndata: {data}\n\n", row.number, row.kind)
}

/// A response body that is read from a channel.
pub struct ChannelBody(pub mpsc::Receiver<Bytes>);

impl HttpBody for ChannelBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|page| page.map(|page| Ok(Frame::data(page))))
    }
}
