//! The requests of host agents. Every one is made by the host that its connection's certificate belongs to, and concerns that
//! host's machines only.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router, middleware};
use bytes::Bytes;
use forewarn_api::ChannelBody;
use forewarn_api_types::EmptyBody;
use forewarn_api_types::host_link::{
    CommitResponse, DomainReportAnswer, FoundProperties, GuestApproval, GuestProperties, GuestToken, HeartbeatResponse,
    HostHeartbeat, IssuedToken, LinkRefusal, OpenStream, OrderReport, RenewResponse, Renewal, SeenMachines, TurnOn,
    USER_AGENT_PREFIX, paths,
};
use forewarn_core::{ApprovalScope, Approver, Command, Guid, MachineId, Name, Rejection};
use forewarn_drivers::message::decode_outcome;
use forewarn_engine::{Bundle, SubmitError};
use forewarn_store::Attachment;
use forewarn_wire::guid;
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::heartbeats::Claim;
use super::links::{Links, new_claim};
use super::relay::{self, CLAIM, PEER_PREFIX, RELEASE};
use super::servers::{self, LISTENER};
use super::stream::{LINES_QUEUED_MAX, Stream};
use crate::machines::machine_report;

/// Bodies of agents are small; a report of all machines of a host is the largest.
pub const BODY_BYTES_MAX: usize = 256 * 1024;

/// Longer versions are not shown.
const VERSION_CHARS_MAX: usize = 64;

/// A thousand domains with labels and addresses.
pub const DOMAINS_BYTES_MAX: usize = 1024 * 1024;

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    pub address: SocketAddr,
    pub fingerprint: String,
}

/// The host that makes a request.
struct Caller(Name);

pub struct Refused(pub LinkRefusal);

type Answer<T> = Result<Json<T>, Refused>;

/// The routes of agents.
pub fn routes(links: Arc<Links>) -> Router {
    let relayed = middleware::from_fn_with_state(links.clone(), relay::relay);
    requests().route(paths::STREAM, get(open_stream)).layer(relayed).with_state(links)
}

/// The routes of other servers, whose agents' requests this server carries out as the leader.
pub fn peer_routes<S: Clone + Send + Sync + 'static>(links: Arc<Links>) -> Router<S> {
    let received = middleware::from_fn_with_state(links.clone(), relay::receive);
    let relayed = requests().route(CLAIM, post(take_claim)).route(RELEASE, post(take_release)).layer(received);
    let routes = relayed.route(LISTENER, post(servers::receive));
    Router::new().nest(PEER_PREFIX, routes.with_state(links))
}

fn requests() -> Router<Arc<Links>> {
    Router::new()
        .route(paths::HEARTBEAT, post(record_heartbeat))
        .route(paths::SEEN, post(record_seen))
        .route(paths::TURN_ON, post(turn_on))
        .route(paths::APPROVE, post(approve))
        .route(paths::REPORT, post(report))
        .route(paths::RENEW, post(renew))
        .route(paths::TOKEN, post(issue_token))
        .route(paths::PROPERTIES, post(find_properties))
        .route(paths::DOMAINS, post(report_domains).layer(DefaultBodyLimit::max(DOMAINS_BYTES_MAX)))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
}

async fn open_stream(
    State(links): State<Arc<Links>>,
    Caller(host): Caller,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Query(query): Query<OpenStream>,
) -> Result<Response, Refused> {
    if query.plain_names != links.plain_names {
        let message = format!(
            "the server has plain_names = {}, but the agent has {}: set both to the same value",
            links.plain_names, query.plain_names
        );
        return Err(Refused(LinkRefusal::Invalid { message }));
    }
    if let Some(cluster) = &links.cluster
        && links.engine.snapshot().revision < query.revision
    {
        // The agent was connected to a server that is ahead of this one.
        cluster.wait_for_copy(query.revision).await;
    }
    let claim = new_claim(query.instance);
    relay::claim(&links, &host, &claim, &peer).await?;
    let (session, sent) = links.open(&host, claim, peer.clone());
    links.contacts.note_connection(&host, peer.address.to_string(), agent_version(&headers), links.engine.now());
    tracing::info!(%host, from = %peer.address, "the agent of a host is connected");
    let (lines, receiver) = mpsc::channel(LINES_QUEUED_MAX);
    let sent = sent.filter(|sent| sent.revision == query.revision);
    tokio::spawn(Stream { session, fingerprint: peer.fingerprint, lines }.run(sent));
    Ok(Body::new(ChannelBody(receiver)).into_response())
}

/// The version in the user agent, `forewarn-host/VERSION`. Older agents send none.
fn agent_version(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::USER_AGENT)?.to_str().ok()?;
    text.strip_prefix(USER_AGENT_PREFIX).filter(|version| version.len() <= VERSION_CHARS_MAX).map(str::to_owned)
}

/// Admits an agent: as the leader, or as a single server.
pub async fn admit(links: &Links, host: &Name, claim: &Claim, peer: &Peer) -> Result<(), Refused> {
    let stored = links.access.instance_of(host);
    links.agents.admit(host, claim, peer.address, stored.as_deref()).map_err(Refused)?;
    if links.cluster.is_some()
        && let Some(attachment) = links.access.record_instance(host, &claim.instance)
    {
        store(links, attachment).await?;
        links.access.set_instance(host, &claim.instance);
    }
    Ok(())
}

async fn take_claim(
    State(links): State<Arc<Links>>,
    Caller(host): Caller,
    Extension(peer): Extension<Peer>,
    body: Bytes,
) -> Answer<EmptyBody> {
    admit(&links, &host, &parse(&body)?, &peer).await?;
    Ok(Json(EmptyBody {}))
}

async fn take_release(State(links): State<Arc<Links>>, Caller(host): Caller, body: Bytes) -> Answer<EmptyBody> {
    links.agents.release(&host, &parse(&body)?);
    Ok(Json(EmptyBody {}))
}

async fn record_heartbeat(
    State(links): State<Arc<Links>>,
    Caller(host): Caller,
    Extension(peer): Extension<Peer>,
    body: Bytes,
) -> Answer<HeartbeatResponse> {
    let HostHeartbeat { instance, revision } = parse(&body)?;
    let stored = links.access.instance_of(&host);
    links.agents.record_heartbeat(&host, &instance, peer.address, stored.as_deref()).map_err(Refused)?;
    links.contacts.note_heartbeat(&host, revision, links.engine.now());
    links.agents.confirm(&host, revision).await.map_err(refuse)?;
    Ok(Json(HeartbeatResponse { now_ms: links.engine.now().0, servers: links.servers.addresses() }))
}

/// Keeps event groups on. Machines that have moved meanwhile are left out: their new host reports them.
async fn record_seen(State(links): State<Arc<Links>>, Caller(host): Caller, body: Bytes) -> Answer<EmptyBody> {
    let SeenMachines { machines } = parse(&body)?;
    let machines = machines.into_iter().filter_map(|id| links.machine_of(&host, MachineId(id)).ok());
    for machine in machines.collect::<Vec<_>>() {
        let wants_seen = links.engine.snapshot().region.needs_request_report(machine.scope, links.engine.now());
        if wants_seen {
            links.engine.submit(Command::Seen { machine: machine.id }, None).await.map_err(refuse)?;
        }
    }
    Ok(Json(EmptyBody {}))
}

async fn turn_on(State(links): State<Arc<Links>>, Caller(host): Caller, body: Bytes) -> Answer<CommitResponse> {
    let TurnOn { machine } = parse(&body)?;
    let machine = links.machine_of(&host, MachineId(machine)).map_err(Refused)?;
    let done = links.engine.submit(Command::Seen { machine: machine.id }, None).await.map_err(refuse)?;
    Ok(Json(links.commit(&host, &done.snapshot)))
}

async fn approve(State(links): State<Arc<Links>>, Caller(host): Caller, body: Bytes) -> Answer<CommitResponse> {
    let GuestApproval { machine, events } = parse(&body)?;
    let machine = links.machine_of(&host, MachineId(machine)).map_err(Refused)?;
    let invalid = |id: &str| Refused(LinkRefusal::Invalid { message: format!("'{id}' is not an event ID") });
    let events = events.iter().map(|id| guid::parse(id).map(Guid).ok_or_else(|| invalid(id)));
    let events = events.collect::<Result<Vec<_>, _>>()?;
    let by = Approver::Guest { machine: machine.id, name: machine.name.clone() };
    let approve = Command::Approve { by, within: ApprovalScope::ScopeOf(machine.id), events };
    let done = links.engine.submit(approve, None).await.map_err(refuse)?;
    Ok(Json(links.commit(&host, &done.snapshot)))
}

/// Takes the report about an order. The rules decide whether the host may report on the machine.
async fn report(State(links): State<Arc<Links>>, Caller(host): Caller, body: Bytes) -> Answer<CommitResponse> {
    let OrderReport { event, machine, outcome, epoch } = parse(&body)?;
    let invalid = |what: &str| Refused(LinkRefusal::Invalid { message: format!("the report has no valid {what}") });
    let event = guid::parse(&event).map(Guid).ok_or_else(|| invalid("event"))?;
    let vm_id = guid::parse(&machine).map(Guid).ok_or_else(|| invalid("machine"))?;
    let outcome = decode_outcome(&outcome).ok_or_else(|| invalid("outcome"))?;
    let machine = links.engine.snapshot().region.machine_by_vm_id(vm_id);
    let machine = machine.ok_or(Refused(LinkRefusal::UnknownMachine))?;
    let report = machine_report(outcome);
    let command = Command::ReportMachine { event, machine, host: host.clone(), epoch, report };
    let done = links.engine.submit(command, None).await.map_err(refuse)?;
    Ok(Json(links.commit(&host, &done.snapshot)))
}

async fn issue_token(State(links): State<Arc<Links>>, Caller(host): Caller, body: Bytes) -> Answer<IssuedToken> {
    let request: GuestToken = parse(&body)?;
    let machine = links.machine_of(&host, MachineId(request.machine)).map_err(Refused)?;
    links.guests.issue(machine, request).await.map(Json).map_err(Refused)
}

async fn find_properties(
    State(links): State<Arc<Links>>,
    Caller(host): Caller,
    body: Bytes,
) -> Answer<FoundProperties> {
    let GuestProperties { machine } = parse(&body)?;
    let machine = links.machine_of(&host, MachineId(machine)).map_err(Refused)?;
    links.guests.find_properties(machine).await.map(Json).map_err(Refused)
}

async fn report_domains(
    State(links): State<Arc<Links>>,
    Caller(host): Caller,
    body: Bytes,
) -> Answer<DomainReportAnswer> {
    links.guests.compare(&host, parse(&body)?).await.map(Json).map_err(Refused)
}

/// Issues the next certificate of a host. The current one stays valid until the next is used.
async fn renew(State(links): State<Arc<Links>>, Caller(host): Caller, body: Bytes) -> Answer<RenewResponse> {
    let Renewal { request } = parse(&body)?;
    let signed = links.access.sign_renewal(&request, &host);
    let signed = signed.map_err(|error| Refused(LinkRefusal::Invalid { message: error.to_string() }))?;
    store(&links, signed.attachment.clone()).await?;
    Ok(Json(RenewResponse { certificate: links.access.accept(signed) }))
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
        // A follower leaves this to the leader, which sees the certificate in the next request.
        if links.engine.accepts_commands()
            && let Some(attachment) = links.access.promote(&host, &peer.fingerprint)
        {
            store(links, attachment).await?;
        }
        Ok(Caller(host.into()))
    }
}

async fn store(links: &Links, attachment: Attachment) -> Result<(), Refused> {
    let bundle = Bundle { commands: Vec::new(), audit: None, attach: Box::new(move |_| vec![attachment]) };
    links.engine.submit_all(bundle).await.map(drop).map_err(refuse)
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
        error @ (SubmitError::Rejected(_) | SubmitError::ServersOutdated) => {
            LinkRefusal::Invalid { message: error.to_string() }
        }
        SubmitError::Busy | SubmitError::Stopping => LinkRefusal::Overloaded,
        SubmitError::NoLeader => LinkRefusal::NoLeader,
        SubmitError::Unavailable => LinkRefusal::OutcomeUnknown,
    })
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(self.0)).into_response()
    }
}
