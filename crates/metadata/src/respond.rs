//! Responses that must wait: for the commit that turns an event group on, for a change of the document, for an approval to be
//! durable.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use forewarn_core::{EventId, Guid, Machine, MachineId, Region};
use forewarn_wire::approval::{self, ApprovalError, BODY_BYTES_MAX, RequestedId};
use forewarn_wire::error::MetadataError;
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::time::{Instant, sleep_until, timeout};

use super::limits::Activity;
use super::metrics::GaugeGuard;
use super::request::{ApprovalRequest, DocumentRequest, Endpoint, is_ahead, is_handler};
use super::response::Response;
use super::socket::count_empty_lines;
use super::source::{HOST_RETRY_AFTER_SECS, SourceError};

/// How long the body of an approval may take to arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The size up to which a body counts as part of its connection: an approval of some 60 events.
pub const SHORT_BODY_BYTES_MAX: usize = 4 * 1024;

/// Longer bodies that may arrive at the same time. They are rare, and arrive in milliseconds.
pub const LONG_BODIES_MAX: usize = 256;

/// The `Retry-After` of a request that cannot be served right now.
const RETRY_AFTER_SECS: u32 = 1;

/// How long a request waits for a document that its caller has seen at another server. A follower is a few milliseconds behind,
/// and a leader proves within 400 ms that it still leads; one that needs longer is cut off.
const CATCH_UP_MAX: Duration = Duration::from_secs(1);

/// The body of a request, which may still have to be read.
pub trait RequestBody: Body<Data = Bytes> + Send + Unpin + 'static {}

impl<B: Body<Data = Bytes> + Send + Unpin + 'static> RequestBody for B {}

/// A response, and the events that the request approved.
pub struct CompletedRequest {
    pub response: Response,
    pub approved: Vec<EventId>,
}

impl From<Response> for CompletedRequest {
    fn from(response: Response) -> CompletedRequest {
        CompletedRequest { response, approved: Vec::new() }
    }
}

impl CompletedRequest {
    pub fn map(self, change: impl FnOnce(Response) -> Response) -> CompletedRequest {
        CompletedRequest { response: change(self.response), approved: self.approved }
    }
}

pub async fn get(endpoint: Arc<Endpoint>, activity: Arc<Activity>, get: DocumentRequest) -> CompletedRequest {
    match try_get(&endpoint, &activity, &get).await {
        Ok(response) => response.into(),
        Err(refusal) => endpoint.responses.refusal(&endpoint.localize(refusal)).into(),
    }
}

async fn try_get(endpoint: &Endpoint, activity: &Activity, get: &DocumentRequest) -> Result<Response, MetadataError> {
    let snapshot = endpoint.source.snapshot();
    let region = &snapshot.region;
    if !region.is_on(get.scope) && region.machine(get.machine).is_some_and(|machine| is_handler(machine)) {
        let turned_on = endpoint.activation.turn_on(region, get.machine, get.scope).await;
        turned_on.map_err(|error| refusal(error, &machine_name(region, get.machine)))?;
    }
    if let Some(until) = endpoint.activation.held_until(region, get.scope) {
        tokio::select! {
            () = sleep_until(until) => {}
            () = endpoint.stop.cancelled() => {}
        }
    }
    drop(snapshot);
    catch_up(endpoint, get).await?;
    hold(endpoint, activity, get).await
}

/// A caller that has seen a later document, at another server, does not get an earlier one.
async fn catch_up(endpoint: &Endpoint, get: &DocumentRequest) -> Result<(), MetadataError> {
    let is_behind = || {
        let snapshot = endpoint.source.peek();
        let scope = snapshot.region.scope(get.scope);
        scope.is_some_and(|scope| is_ahead(get.known.iter().map(|tags| &**tags), scope.incarnation))
    };
    if !is_behind() {
        return Ok(());
    }
    let mut watch = endpoint.source.watch(get.scope);
    let Some(mut caught_up) = endpoint.source.catch_up(CATCH_UP_MAX) else { return Ok(()) };
    loop {
        tokio::select! {
            is_current = &mut caught_up => {
                let refusal = MetadataError::Overloaded { retry_after_secs: RETRY_AFTER_SECS };
                return if is_current { Ok(()) } else { Err(refusal) };
            }
            () = watch.changed() => if !is_behind() { return Ok(()) },
        }
    }
}

/// Waits until the document differs from the one that the caller has, or the time is over.
async fn hold(endpoint: &Endpoint, activity: &Activity, get: &DocumentRequest) -> Result<Response, MetadataError> {
    let until = Instant::now() + Duration::from_secs(get.wait_secs);
    let mut watch = endpoint.source.watch(get.scope);
    let mut slot = None;
    let mut is_over = get.wait_secs == 0;
    loop {
        // A 304 takes a kilobyte, so none is kept while the request waits.
        if let Some(response) = respond_or_wait(endpoint, activity, get, is_over)? {
            return Ok(response);
        }
        if slot.is_none() {
            slot = Some(begin_hold(endpoint, get)?);
        }
        is_over = tokio::select! {
            biased;
            () = endpoint.stop.cancelled() => true,
            () = watch.changed() => false,
            () = activity.input.notified() => false,
            () = sleep_until(endpoint.state.next_check(until)) => Instant::now() >= until,
        }
    }
}

/// The response to send now, if there is one.
fn respond_or_wait(
    endpoint: &Endpoint,
    activity: &Activity,
    get: &DocumentRequest,
    is_over: bool,
) -> Result<Option<Response>, MetadataError> {
    endpoint.check_staleness()?;
    let unchanged = match endpoint.try_respond(get)? {
        Ok(response) => return Ok(Some(response)),
        Err(unchanged) => unchanged,
    };
    if endpoint.source.is_leaving(get.machine) {
        return Ok(Some(unchanged.with_close()));
    }
    // A client that has sent more cannot be seen to disconnect, and waits for its other responses.
    Ok((is_over || activity.has_more_input()).then_some(unchanged))
}

/// Counts a held request for its source and in the metrics, for as long as the result lives. Its machine is not silent meanwhile.
fn begin_hold(endpoint: &Endpoint, get: &DocumentRequest) -> Result<impl Sized + use<>, MetadataError> {
    let metrics = &endpoint.state.metrics;
    let slot = endpoint.sources.hold(get.source.clone());
    let slot = slot.ok_or(MetadataError::TooManyRequests { retry_after_secs: RETRY_AFTER_SECS })?;
    if endpoint.source.peek().region.machine(get.machine).is_some_and(|machine| is_handler(machine)) {
        endpoint.state.requests.record_hold(get.machine, endpoint.source.now() + Duration::from_secs(get.wait_secs));
    }
    Ok((slot, GaugeGuard::new(&metrics.held)))
}

pub async fn approve(endpoint: Arc<Endpoint>, request: ApprovalRequest, body: impl RequestBody) -> CompletedRequest {
    // Where a chunked body ends cannot be told from the input, so such a connection is not used again.
    let is_chunked = body.size_hint().exact().is_none();
    let completed = try_approve(&endpoint, &request, body).await;
    if is_chunked { completed.map(Response::with_close) } else { completed }
}

async fn try_approve(endpoint: &Endpoint, request: &ApprovalRequest, body: impl RequestBody) -> CompletedRequest {
    let body = match timeout(BODY_TIMEOUT, read(endpoint, request, body)).await {
        Err(_) => return endpoint.responses.body_timeout().into(),
        Ok(Err(refusal)) => return endpoint.responses.refusal(&refusal).into(),
        Ok(Ok(body)) => body,
    };
    request.activity.skip_heads(count_empty_lines(&body));
    match submit(endpoint, &request.machine, &body).await {
        Ok(approved) => CompletedRequest { response: endpoint.responses.accepted(), approved },
        Err(refusal) => endpoint.responses.refusal(&endpoint.localize(refusal)).into(),
    }
}

/// Reads a body. A long one takes one of the slots for long bodies as soon as it outgrows what each connection may have.
async fn read(
    endpoint: &Endpoint,
    request: &ApprovalRequest,
    mut body: impl RequestBody,
) -> Result<Bytes, MetadataError> {
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(MetadataError::BodyTooLarge);
    }
    let mut slot = None;
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // A body that breaks off is malformed, wherever it does.
        let frame = frame.map_err(|_| MetadataError::MalformedApproval(ApprovalError::Empty))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > BODY_BYTES_MAX {
            return Err(MetadataError::BodyTooLarge);
        }
        if slot.is_none() && whole.len() + data.len() > SHORT_BODY_BYTES_MAX {
            slot = Some(begin_long_body(endpoint, request)?);
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// Counts a long body for its source, like a held request, and in total, for as long as the result lives.
fn begin_long_body(endpoint: &Endpoint, request: &ApprovalRequest) -> Result<impl Sized + use<>, MetadataError> {
    let slot = endpoint.sources.hold(request.source.clone());
    let slot = slot.ok_or(MetadataError::TooManyRequests { retry_after_secs: RETRY_AFTER_SECS })?;
    let permit = endpoint.long_bodies.clone().try_acquire_owned();
    let permit = permit.map_err(|_| MetadataError::Overloaded { retry_after_secs: RETRY_AFTER_SECS })?;
    Ok((slot, permit))
}

async fn submit(endpoint: &Endpoint, machine: &Machine, body: &[u8]) -> Result<Vec<EventId>, MetadataError> {
    let events = event_ids(approval::parse(body)?)?;
    if !events.is_empty() {
        let approved = endpoint.source.approve(machine, events.clone()).await;
        approved.map_err(|error| refusal(error, &machine.name))?;
        endpoint.state.metrics.approvals.inc();
    }
    let snapshot = endpoint.source.snapshot();
    let region = &snapshot.region;
    if region.is_on(machine.scope) && region.needs_request_report(machine.scope, endpoint.source.now()) {
        endpoint.activation.refresh(region, machine.id, machine.scope);
    }
    Ok(events)
}

/// The IDs of the events, each once; an error if one is not an event ID.
fn event_ids(requested: Vec<RequestedId>) -> Result<Vec<EventId>, MetadataError> {
    let mut events = Vec::with_capacity(requested.len());
    let mut others = Vec::new();
    for id in requested {
        match id {
            RequestedId::Guid(id) => events.push(Guid(id)),
            RequestedId::Other(_) => others.push(id),
        }
    }
    if !others.is_empty() {
        return Err(MetadataError::UnknownEvents(others));
    }
    let mut known = HashSet::with_capacity(events.len());
    events.retain(|id| known.insert(*id));
    Ok(events)
}

fn refusal(error: SourceError, machine: &str) -> MetadataError {
    match error {
        SourceError::UnknownEvents(ids) => {
            MetadataError::UnknownEvents(ids.into_iter().map(|id| RequestedId::Guid(id.0)).collect())
        }
        SourceError::UnknownMachine => MetadataError::UnknownMachine { name: machine.to_owned() },
        SourceError::Overloaded => MetadataError::Overloaded { retry_after_secs: RETRY_AFTER_SECS },
        SourceError::Unreachable => MetadataError::ServerUnreachable { retry_after_secs: HOST_RETRY_AFTER_SECS },
        SourceError::OutcomeUnknown => MetadataError::OutcomeUnknown { retry_after_secs: RETRY_AFTER_SECS },
        SourceError::Internal => MetadataError::Internal,
    }
}

fn machine_name(region: &Region, machine: MachineId) -> String {
    region.machine(machine).map(|machine| machine.name.to_string()).unwrap_or_default()
}
