//! The requests of host agents. Every one is made by the host that its connection's certificate belongs to, and concerns that
//! host's machines only.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use bytes::Bytes;
use forewarn_api::ChannelBody;
use forewarn_api_types::host_link::{
    Beat, BeatAnswer, Committed, GuestApproval, LinkRefusal, OpenStream, OrderReport, Renewal, Renewed, SeenMachines,
    TurnOn, paths,
};
use forewarn_core::{Approver, Command, Guid, MachineId, Name, Rejection, Within};
use forewarn_drivers::message::decode_outcome;
use forewarn_engine::{Bundle, SubmitError};
use forewarn_wire::guid;
use http::StatusCode;
use http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::links::Links;
use super::stream::{LINES_QUEUED_MAX, Stream};
use crate::libvirt::machine_report;

/// Bodies of agents are small; a report of all machines of a host is the largest.
const BODY_BYTES_MAX: usize = 256 * 1024;

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    pub address: SocketAddr,
    pub fingerprint: String,
}

/// The host that makes a request.
struct Caller(Name);

struct Refused(LinkRefusal);

type Answer<T> = Result<Json<T>, Refused>;

pub fn routes(links: Arc<Links>) -> Router {
    Router::new()
        .route(paths::STREAM, get(open_stream))
        .route(paths::BEAT, post(beat))
        .route(paths::SEEN, post(record_seen))
        .route(paths::TURN_ON, post(turn_on))
        .route(paths::APPROVE, post(approve))
        .route(paths::REPORT, post(report))
        .route(paths::RENEW, post(renew))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(links)
}

async fn open_stream(
    State(links): State<Arc<Links>>,
    Caller(host): Caller,
    Extension(peer): Extension<Peer>,
    Query(query): Query<OpenStream>,
) -> Result<Response, Refused> {
    if query.plain_names != links.plain_names {
        let message = format!(
            "the server has plain_names = {}, but the agent has {}: set both to the same value",
            links.plain_names, query.plain_names
        );
        return Err(Refused(LinkRefusal::Invalid { message }));
    }
    let (session, sent) = links.open(&host, &query.instance, peer.address).map_err(Refused)?;
    tracing::info!(%host, from = %peer.address, "the agent of a host is connected");
    let (lines, receiver) = mpsc::channel(LINES_QUEUED_MAX);
    let sent = sent.filter(|sent| sent.revision == query.revision);
    tokio::spawn(Stream { session, fingerprint: peer.fingerprint, lines }.run(sent));
    Ok(Body::new(ChannelBody(receiver)).into_response())
}

async fn beat(State(links): State<Arc<Links>>, Caller(host): Caller, body: Bytes) -> Answer<BeatAnswer> {
    let Beat { instance, revision } = parse(&body)?;
    links.check_instance(&host, &instance).map_err(Refused)?;
    links.beats.beat(&host, revision).await.map_err(refuse)?;
    Ok(Json(BeatAnswer { now_ms: links.engine.now().0 }))
}

/// Keeps event groups on. Machines that have moved meanwhile are left out: their new host reports them.
async fn record_seen(State(links): State<Arc<Links>>, Caller(host): Caller, body: Bytes) -> Answer<Value> {
    let SeenMachines { machines } = parse(&body)?;
    let machines = machines.into_iter().filter_map(|id| links.machine_of(&host, MachineId(id)).ok());
    for machine in machines.collect::<Vec<_>>() {
        let wants_seen = links.engine.snapshot().region.wants_seen(machine.scope, links.engine.now());
        if wants_seen {
            links.engine.submit(Command::Seen { machine: machine.id }, None).await.map_err(refuse)?;
        }
    }
    Ok(Json(json!({})))
}

async fn turn_on(State(links): State<Arc<Links>>, Caller(host): Caller, body: Bytes) -> Answer<Committed> {
    let TurnOn { machine } = parse(&body)?;
    let machine = links.machine_of(&host, MachineId(machine)).map_err(Refused)?;
    let done = links.engine.submit(Command::Seen { machine: machine.id }, None).await.map_err(refuse)?;
    Ok(Json(links.commit(&host, &done.snapshot)))
}

async fn approve(State(links): State<Arc<Links>>, Caller(host): Caller, body: Bytes) -> Answer<Committed> {
    let GuestApproval { machine, events } = parse(&body)?;
    let machine = links.machine_of(&host, MachineId(machine)).map_err(Refused)?;
    let invalid = |id: &str| Refused(LinkRefusal::Invalid { message: format!("'{id}' is not an event ID") });
    let events = events.iter().map(|id| guid::parse(id).map(Guid).ok_or_else(|| invalid(id)));
    let events = events.collect::<Result<Vec<_>, _>>()?;
    let by = Approver::Guest { machine: machine.id, name: machine.name.clone() };
    let approve = Command::Approve { by, within: Within::ScopeOf(machine.id), events };
    let done = links.engine.submit(approve, None).await.map_err(refuse)?;
    Ok(Json(links.commit(&host, &done.snapshot)))
}

/// Takes the report about an order. The rules decide whether the host may report on the machine.
async fn report(State(links): State<Arc<Links>>, Caller(host): Caller, body: Bytes) -> Answer<Committed> {
    let OrderReport { event, machine, outcome } = parse(&body)?;
    let invalid = |what: &str| Refused(LinkRefusal::Invalid { message: format!("the report has no valid {what}") });
    let event = guid::parse(&event).map(Guid).ok_or_else(|| invalid("event"))?;
    let vm_id = guid::parse(&machine).map(Guid).ok_or_else(|| invalid("machine"))?;
    let outcome = decode_outcome(&outcome).ok_or_else(|| invalid("outcome"))?;
    let machine = links.engine.snapshot().region.machine_by_vm_id(vm_id);
    let machine = machine.ok_or(Refused(LinkRefusal::UnknownMachine))?;
    let command = Command::ReportMachine { event, machine, host: host.clone(), report: machine_report(outcome) };
    let done = links.engine.submit(command, None).await.map_err(refuse)?;
    Ok(Json(links.commit(&host, &done.snapshot)))
}

/// Issues the next certificate of a host. The current one stays valid until the next is used.
async fn renew(State(links): State<Arc<Links>>, Caller(host): Caller, body: Bytes) -> Answer<Renewed> {
    let Renewal { request } = parse(&body)?;
    let signed = links.access.sign_renewal(&request, &host);
    let signed = signed.map_err(|error| Refused(LinkRefusal::Invalid { message: error.to_string() }))?;
    let attachment = signed.attachment.clone();
    let bundle = Bundle { commands: Vec::new(), asked: None, attach: Box::new(move |_| vec![attachment]) };
    links.engine.submit_all(bundle).await.map_err(refuse)?;
    Ok(Json(Renewed { certificate: links.access.accept(signed) }))
}

impl FromRequestParts<Arc<Links>> for Caller {
    type Rejection = Refused;

    /// Checked for every request: a certificate can be revoked while its connection is open.
    async fn from_request_parts(parts: &mut Parts, links: &Arc<Links>) -> Result<Caller, Refused> {
        let peer = parts.extensions.get::<Peer>().ok_or(Refused(LinkRefusal::Internal))?;
        let Some(host) = links.access.host_of(&peer.fingerprint) else {
            let message = "the certificate of this host was revoked, because the host has joined again or was removed: \
                           join with a new token";
            return Err(Refused(LinkRefusal::Revoked { message: message.into() }));
        };
        if let Some(attachment) = links.access.promote(&host, &peer.fingerprint) {
            let bundle = Bundle { commands: Vec::new(), asked: None, attach: Box::new(move |_| vec![attachment]) };
            links.engine.submit_all(bundle).await.map_err(refuse)?;
        }
        Ok(Caller(host.into()))
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(body).map_err(|error| Refused(LinkRefusal::Invalid { message: error.to_string() }))
}

fn refuse(error: SubmitError) -> Refused {
    Refused(match error {
        SubmitError::Rejected(Rejection::UnknownEvents(ids)) => {
            LinkRefusal::UnknownEvents { events: ids.iter().map(Guid::to_string).collect() }
        }
        SubmitError::Rejected(Rejection::UnknownMachine(_)) => LinkRefusal::UnknownMachine,
        SubmitError::Rejected(rejection) => LinkRefusal::Invalid { message: rejection.to_string() },
        SubmitError::Busy | SubmitError::Stopping | SubmitError::NoLeader => LinkRefusal::Overloaded,
        SubmitError::Unavailable => LinkRefusal::OutcomeUnknown,
    })
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(self.0)).into_response()
    }
}
