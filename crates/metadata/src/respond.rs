//! Answers that must wait: for the commit that turns a scope on, for a change of the document, for an
//! approval to be durable.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use forewarn_core::{EventId, Guid, Machine, MachineId, Region, Scope};
use forewarn_wire::approval::{self, ApprovalError, BODY_BYTES_MAX, RequestedId};
use forewarn_wire::error::Refusal;
use http::HeaderValue;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::{Instant, sleep_until, timeout};

use super::answer::Answer;
use super::metrics::GaugeGuard;
use super::service::{Get, Post, Shared};
use super::source::SourceError;
use crate::faults::Alter;

/// How long the body of an approval may take to arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// What to advise those whom we cannot serve right now.
const RETRY_AFTER_SECS: u32 = 1;

pub async fn get(shared: Arc<Shared>, get: Get) -> Answer {
    match get_or_refuse(&shared, &get).await {
        Ok(answer) => answer,
        Err(refusal) => shared.answers.refusal(&refusal),
    }
}

async fn get_or_refuse(shared: &Shared, get: &Get) -> Result<Answer, Refusal> {
    let snapshot = shared.source.snapshot();
    if !snapshot.region.is_on(get.scope) {
        shared
            .seen
            .turn_on(&snapshot.region, get.machine, get.scope)
            .await
            .map_err(|error| refusal(error, &machine_name(&snapshot.region, get.machine)))?;
    }
    if let Some(until) = shared.seen.held_until(&snapshot.region, get.scope) {
        tokio::select! {
            () = sleep_until(until) => {}
            () = shared.stop.cancelled() => {}
        }
    }
    drop(snapshot);
    hold(shared, get).await
}

/// Waits until the document is another one than the caller has, or the time is over.
async fn hold(shared: &Shared, get: &Get) -> Result<Answer, Refusal> {
    let until = Instant::now() + Duration::from_secs(get.wait_secs);
    let mut watch = shared.source.watch(get.scope);
    let _held = GaugeGuard::new(&shared.state.metrics.held);
    loop {
        let snapshot = shared.source.snapshot();
        let scope = snapshot.region.scope(get.scope);
        let scope = scope.ok_or_else(|| Refusal::UnknownMachine { name: "that this was".to_owned() })?;
        let shown = get.alter.incarnation(scope.incarnation);
        if get.alter.unconditional || !get.condition.matches(shown) {
            return Ok(document(shared, &snapshot.region, scope, get));
        }
        let unchanged = HeaderValue::from(shown);
        drop(snapshot);
        tokio::select! {
            biased;
            () = shared.stop.cancelled() => return Ok(shared.answers.unchanged(unchanged)),
            () = watch.changed() => {}
            () = sleep_until(until) => return Ok(shared.answers.unchanged(unchanged)),
        }
    }
}

fn document(shared: &Shared, region: &Region, scope: &Scope, get: &Get) -> Answer {
    if get.alter == Alter::default() {
        return shared.answers.document(&shared.documents.get(region, scope, get.version));
    }
    let altered = shared.documents.altered(region, scope, get.version, get.alter);
    match get.alter.events_vanish {
        // Nobody shall take what is there again for what he has already.
        true => shared.answers.untagged(altered.body),
        false => shared.answers.document(&altered),
    }
}

pub async fn post(shared: Arc<Shared>, post: Post, body: Incoming) -> Answer {
    let body = match timeout(BODY_TIMEOUT, read(body)).await {
        Err(_) => return shared.answers.too_slow(),
        Ok(Err(refusal)) => return shared.answers.refusal(&refusal),
        Ok(Ok(body)) => body,
    };
    match approve(&shared, &post.machine, &body).await {
        Ok(events) => {
            let mut answer = shared.answers.taken();
            answer.extensions_mut().insert(Approved(events));
            answer
        }
        Err(refusal) => shared.answers.refusal(&refusal),
    }
}

/// What an answer to an approval has approved, for the record of requests.
#[derive(Clone, Debug)]
pub struct Approved(pub Vec<EventId>);

async fn read(mut body: Incoming) -> Result<Bytes, Refusal> {
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(Refusal::BodyTooLarge);
    }
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // A body that breaks off in the middle is malformed, wherever it does.
        let frame = frame.map_err(|_| Refusal::MalformedApproval(ApprovalError::Empty))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > BODY_BYTES_MAX {
            return Err(Refusal::BodyTooLarge);
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

async fn approve(shared: &Shared, machine: &Machine, body: &[u8]) -> Result<Vec<EventId>, Refusal> {
    let events = ids(approval::parse(body)?)?;
    if !events.is_empty() {
        let approved = shared.source.approve(machine, events.clone()).await;
        approved.map_err(|error| refusal(error, &machine.name))?;
        shared.state.metrics.approvals.inc();
    }
    let snapshot = shared.source.snapshot();
    let region = &snapshot.region;
    if region.is_on(machine.scope) && region.wants_seen(machine.scope, shared.source.now()) {
        shared.seen.refresh(region, machine.id, machine.scope);
    }
    Ok(events)
}

/// The events that are named, each once; a refusal if anything else is.
fn ids(requested: Vec<RequestedId>) -> Result<Vec<EventId>, Refusal> {
    let mut events = Vec::with_capacity(requested.len());
    let mut others = Vec::new();
    for id in requested {
        match id {
            RequestedId::Guid(id) => events.push(Guid(id)),
            RequestedId::Other(_) => others.push(id),
        }
    }
    if !others.is_empty() {
        return Err(Refusal::UnknownEvents(others));
    }
    let mut known = std::collections::HashSet::with_capacity(events.len());
    events.retain(|id| known.insert(*id));
    Ok(events)
}

fn refusal(error: SourceError, machine: &str) -> Refusal {
    match error {
        SourceError::UnknownEvents(ids) => {
            Refusal::UnknownEvents(ids.into_iter().map(|id| RequestedId::Guid(id.0)).collect())
        }
        SourceError::UnknownMachine => Refusal::UnknownMachine { name: machine.to_owned() },
        SourceError::Overloaded => Refusal::Overloaded { retry_after_secs: RETRY_AFTER_SECS },
        SourceError::OutcomeUnknown => Refusal::OutcomeUnknown { retry_after_secs: RETRY_AFTER_SECS },
        SourceError::Internal => Refusal::Internal,
    }
}

fn machine_name(region: &Region, machine: MachineId) -> String {
    region.machine(machine).map(|machine| machine.name.to_string()).unwrap_or_default()
}
