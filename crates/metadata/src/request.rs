//! One request: the checks in their fixed order, and their outcome.
//!
//! ```text
//!  request ─▶ path ─▶ method ─▶ X-Forwarded-For ─▶ Metadata ─▶ query ─▶ version ─▶ caller ─▶ rate limit, faults
//!               └──────────── refused at any step ───────────────────────────────┐            │
//!                                                                                ▼            ▼
//!                                                        Visit { caller, outcome: Respond, Get, Approve, … }
//! ```
//!
//! A GET whose document can be sent at once is answered here. What must wait (turning an event group on, `wait=`, an
//! approval, a token, a signature) becomes a future in `respond`, `token` and `attested`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use forewarn_access::{Tls, TokenIssuer, is_known_audience};
use forewarn_core::{Machine, MachineId, Power, Region, Scope, ScopeId, Timestamp};
use forewarn_wire::attested;
use forewarn_wire::error::MetadataError;
use forewarn_wire::instance::{self, Format};
use forewarn_wire::query::{self, Query, QueryError};
use forewarn_wire::version::{Endpoint as EndpointKind, InstanceVersion, Version, VersionError};
use http::header::{HOST, HeaderName, IF_NONE_MATCH, ORIGIN};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::EndpointState;
use super::activation::Activation;
use super::caller::Client;
use super::documents::Documents;
use super::head::Head;
use super::limits::{Activity, SourceKey, Sources};
use super::response::{Response, Responses};
use super::route::{self, Route, Target};
use super::source::{Coverage, HOST_RETRY_AFTER_SECS, Source, TokenRequest};
use crate::faults::{Document, DocumentFault, FaultContext, FaultEffects, Method};
use crate::requests::{RequestEntry, shorten};

/// Everything that the connections of all listeners share.
pub struct Endpoint {
    pub source: Arc<dyn Source>,
    pub state: Arc<EndpointState>,
    pub sources: Arc<Sources>,
    pub documents: Documents,
    pub responses: Responses,
    pub activation: Activation,
    pub issuer: TokenIssuer,
    /// Signs attested documents. None: not available.
    pub tls: Option<Arc<Tls>>,
    /// Bounds the concurrent reads of identities and of properties.
    pub identity_reads: Semaphore,
    /// Bounds the memory of approvals that arrive.
    pub long_bodies: Arc<Semaphore>,
    pub stop: CancellationToken,
}

const METADATA: HeaderName = HeaderName::from_static("metadata");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

const NOT_ON_THIS_HOST: MetadataError = MetadataError::NotOnThisHost { retry_after_secs: HOST_RETRY_AFTER_SECS };

/// The result of checking a request.
pub struct Visit {
    /// The machine that sent the request, as far as it is known.
    pub caller: Option<Caller>,
    pub outcome: Outcome,
}

/// The record of an identified request.
pub struct Caller {
    pub entry: RequestEntry,
    /// The faults that the request met.
    pub hit: Option<Box<FaultEffects>>,
}

pub enum Outcome {
    Respond(Response),
    /// A GET that must wait.
    Get(DocumentRequest),
    /// An approval; its body is still to be read.
    Approve(ApprovalRequest),
    /// A token; the identity of the machine is still to be read.
    Token(TokenRequest),
    /// An attested document; the properties of the machine are still to be read.
    Attested(AttestedRequest),
    /// Instance metadata; the properties of the machine are still to be read.
    Instance(InstanceRequest),
}

pub struct DocumentRequest {
    pub machine: MachineId,
    pub scope: ScopeId,
    pub version: Version,
    /// The values of `If-None-Match`.
    pub known: Vec<Box<[u8]>>,
    pub wait_secs: u64,
    pub alter: DocumentFault,
    /// The source that a held request counts for.
    pub source: SourceKey,
}

pub struct ApprovalRequest {
    pub machine: Arc<Machine>,
    pub activity: Arc<Activity>,
    /// The source that a long body counts for.
    pub source: SourceKey,
}

pub struct InstanceRequest {
    pub machine: Arc<Machine>,
    pub version: InstanceVersion,
    /// The path below `/metadata/instance`.
    pub below: String,
    pub format: Format,
}

pub struct AttestedRequest {
    pub machine: Arc<Machine>,
    pub version: InstanceVersion,
    pub nonce: Option<String>,
}

/// The `Retry-After` of a request that was refused because the data is too old.
const STALE_RETRY_SECS: u32 = 1;

impl Endpoint {
    /// Refuses guests while the data is too old for them.
    pub fn check_staleness(&self) -> Result<(), MetadataError> {
        match self.state.is_stale() {
            true => Err(MetadataError::Overloaded { retry_after_secs: STALE_RETRY_SECS }),
            false => Ok(()),
        }
    }

    pub fn visit(&self, client: &Client, head: &Head<'_>) -> Visit {
        let mut caller = None;
        let outcome = self.check(client, head, &mut caller);
        let outcome = match outcome {
            Ok(outcome) => return Visit { caller, outcome },
            Err(refusal) if caller.is_some() => refusal,
            Err(refusal) => self.identify_refused(client, head, &mut caller).err().unwrap_or(refusal),
        };
        let refusal = self.responses.refusal(&self.localize(outcome));
        let refusal = if client.is_unmarked() { refusal.with_close() } else { refusal };
        Visit { caller, outcome: Outcome::Respond(refusal) }
    }

    /// On a host, a machine that is not in the copy may be about to arrive.
    pub fn localize(&self, refusal: MetadataError) -> MetadataError {
        let is_unknown = matches!(refusal, MetadataError::UnknownCaller { .. } | MetadataError::UnknownMachine { .. });
        match self.source.coverage() {
            Coverage::Host if is_unknown => NOT_ON_THIS_HOST,
            Coverage::Region | Coverage::Host | Coverage::Nothing => refusal,
        }
    }

    /// Counts a response, and records the request if its machine is known.
    pub fn record(&self, entry: Option<RequestEntry>, response: Option<&Response>) {
        let status = response.map(|response| response.status.as_u16());
        if let Some(status) = status {
            self.state.metrics.count_response(status);
        }
        if let Some(mut entry) = entry {
            entry.incarnation = response.and_then(|response| response.etag?.try_into().ok());
            self.state.requests.write(entry, status);
        }
    }

    /// The response to a GET of the document as it is now, or the 304 that says it has not changed.
    pub fn try_respond(&self, get: &DocumentRequest) -> Result<Result<Response, Response>, MetadataError> {
        let snapshot = self.source.peek();
        let region = &snapshot.region;
        let scope = region.scope(get.scope);
        let scope = scope.ok_or_else(|| MetadataError::UnknownMachine { name: get.machine.0.to_string() })?;
        if let Some(unchanged) = self.not_modified(get.known.iter().map(|tags| &**tags), scope.incarnation, get.alter) {
            return Ok(Err(unchanged));
        }
        Ok(Ok(self.document(region, scope, get.version, get.alter)))
    }

    /// The 304, if the caller has this incarnation already. The only place that decides it.
    fn not_modified<'a>(
        &self,
        known: impl Iterator<Item = &'a [u8]>,
        incarnation: u64,
        alter: DocumentFault,
    ) -> Option<Response> {
        let shown = alter.incarnation(incarnation);
        let is_known = !alter.unconditional && matches_any(known, shown);
        is_known.then(|| self.with_age(self.responses.not_modified(shown)))
    }

    fn with_age(&self, mut response: Response) -> Response {
        response.age_secs = self.source.age_secs();
        response
    }

    fn document(&self, region: &Region, scope: &Scope, version: Version, alter: DocumentFault) -> Response {
        if alter == DocumentFault::default() {
            return self.with_age(self.responses.document(self.documents.get(region, scope, version)));
        }
        let altered = self.documents.render_altered(region, scope, version, alter);
        match alter.events_vanish {
            // Without an ETag, no client can match the events that come back.
            true => self.responses.without_etag(altered.body),
            false => self.responses.document(altered),
        }
    }

    /// `caller` is set on the way, also for requests that are refused after that.
    fn check(&self, client: &Client, head: &Head<'_>, caller: &mut Option<Caller>) -> Result<Outcome, MetadataError> {
        if self.source.coverage() == Coverage::Nothing {
            return Err(NOT_ON_THIS_HOST);
        }
        let path = head.path;
        let target = route::parse(path, client.policy.prefix_allowed)
            .ok_or_else(|| MetadataError::UnknownPath { path: path.to_owned() })?;
        let method = check_method(&target.route, head.method)?;
        check_browser(client, head)?;
        let query = check_head(head, method)?;
        self.check_staleness()?;
        let given = query.api_version.as_deref();
        match (&target.route, method) {
            (Route::ScheduledEvents, Method::Get) => self.get_document(client, &target, head, &query, caller),
            (Route::ScheduledEvents, Method::Post) => {
                let version = self.check_version(given)?;
                self.take_approval(client, &target, version, caller)
            }
            (Route::IdentityToken, _) => {
                check_instance_query(&query)?;
                let resource = check_resource(&query, &self.issuer)?;
                let machine = self.identify(client, &target, "/metadata/identity/oauth2/token", given, caller)?;
                let client_id = query.client_id.map(|id| id.into_owned());
                Ok(Outcome::Token(TokenRequest { machine, resource, client_id }))
            }
            (Route::Attested, _) => {
                let (version, nonce) = check_attested_query(&query)?;
                let machine = self.identify(client, &target, "/metadata/attested/document", given, caller)?;
                Ok(Outcome::Attested(AttestedRequest { machine, version, nonce }))
            }
            (Route::Versions, _) => {
                self.identify(client, &target, "/metadata/versions", None, caller)?;
                Ok(Outcome::Respond(self.responses.json(instance::versions_body())))
            }
            (Route::Root, _) => {
                let format = check_instance_query(&query)?.1;
                self.identify(client, &target, "/metadata", given, caller)?;
                Ok(Outcome::Respond(self.responses.instance(instance::root_listing(format)?)))
            }
            (Route::Instance(below), _) => {
                let (version, format) = check_instance_query(&query)?;
                let path = format!("/metadata/instance{below}");
                let machine = self.identify(client, &target, &path, given, caller)?;
                let below = (*below).to_owned();
                Ok(Outcome::Instance(InstanceRequest { machine, version, below, format }))
            }
        }
    }

    fn check_version(&self, given: Option<&str>) -> Result<Version, MetadataError> {
        let parse = if self.state.serves_preview { Version::parse_with_preview } else { Version::parse };
        parse(given).map_err(|error| MetadataError::api_version(EndpointKind::ScheduledEvents, given, error))
    }

    fn get_document(
        &self,
        client: &Client,
        target: &Target<'_>,
        head: &Head<'_>,
        query: &Query<'_>,
        caller: &mut Option<Caller>,
    ) -> Result<Outcome, MetadataError> {
        let version = self.check_version(query.api_version.as_deref())?;
        let wait_secs = check_wait(query)?;
        let snapshot = self.source.peek();
        let region = &snapshot.region;
        let machine = client.find(region, target.machine.as_ref())?;
        let scope = region.scope(machine.scope).ok_or(MetadataError::Internal)?;
        let mut entry = self.entry(machine.id, Method::Get);
        entry.version = Some(version);
        if !is_handler(machine) {
            entry.details_mut().is_off = true;
        }
        let now = entry.at;
        let document = Document { scope: scope.id, incarnation: scope.incarnation };
        let alter = self.admit(entry, Some(document), caller)?;
        if alter.is_none() && self.is_current(region, machine, scope, now) {
            match self.not_modified(head.values(&IF_NONE_MATCH), scope.incarnation, DocumentFault::default()) {
                None if is_ahead(head.values(&IF_NONE_MATCH), scope.incarnation) => {}
                None => return Ok(Outcome::Respond(self.document(region, scope, version, DocumentFault::default()))),
                Some(unchanged) if wait_secs == 0 => return Ok(Outcome::Respond(unchanged)),
                Some(_) => {}
            }
        }
        Ok(Outcome::Get(DocumentRequest {
            machine: machine.id,
            scope: scope.id,
            version,
            known: head.values(&IF_NONE_MATCH).map(Box::from).collect(),
            wait_secs,
            alter: alter.unwrap_or_default(),
            source: client.source_for(machine.id),
        }))
    }

    /// Whether the document can be sent at once. Keeps an event group on that is on.
    fn is_current(&self, region: &Region, machine: &Machine, scope: &Scope, now: Timestamp) -> bool {
        if region.needs_request_report(scope.id, now) && is_handler(machine) {
            if !region.is_on(scope.id) {
                return false;
            }
            self.activation.refresh(region, machine.id, scope.id);
        }
        self.activation.held_until(region, scope.id).is_none()
    }

    fn take_approval(
        &self,
        client: &Client,
        target: &Target<'_>,
        version: Version,
        caller: &mut Option<Caller>,
    ) -> Result<Outcome, MetadataError> {
        let snapshot = self.source.peek();
        let region = &snapshot.region;
        let machine = client.find(region, target.machine.as_ref())?;
        let mut entry = self.entry(machine.id, Method::Post);
        entry.version = Some(version);
        if !is_handler(machine) {
            entry.details_mut().is_off = true;
        }
        let incarnation = region.scope(machine.scope).map_or(0, |scope| scope.incarnation);
        self.admit(entry, Some(Document { scope: machine.scope, incarnation }), caller)?;
        let (activity, source) = (client.activity.clone(), client.source_for(machine.id));
        Ok(Outcome::Approve(ApprovalRequest { machine: machine.clone(), activity, source }))
    }

    /// Identifies the caller of a GET of anything but the document.
    fn identify(
        &self,
        client: &Client,
        target: &Target<'_>,
        path: &str,
        version: Option<&str>,
        caller: &mut Option<Caller>,
    ) -> Result<Arc<Machine>, MetadataError> {
        let snapshot = self.source.peek();
        let machine = client.find(&snapshot.region, target.machine.as_ref())?;
        self.admit(self.entry(machine.id, Method::Get).at_path(path, version), None, caller)?;
        Ok(machine.clone())
    }

    fn entry(&self, machine: MachineId, method: Method) -> RequestEntry {
        RequestEntry::new(machine, self.source.now(), method)
    }

    /// Counts the request and applies the rate limit. Returns how faults alter the document, if the request met any.
    fn admit(
        &self,
        mut entry: RequestEntry,
        document: Option<Document>,
        caller: &mut Option<Caller>,
    ) -> Result<Option<DocumentFault>, MetadataError> {
        let RequestEntry { machine, method, at, .. } = entry;
        let counted = self.state.requests.count(machine, method, at);
        let hit = match counted {
            Ok(()) => self.meet_faults(machine, method, document, at),
            Err(_) => None,
        };
        if let Some(hit) = &hit {
            entry.set_faults(&hit.met);
        }
        let alter = hit.as_ref().map(|hit| hit.alter);
        *caller = Some(Caller { entry, hit });
        counted.map(|()| alter).map_err(|limited| MetadataError::TooManyRequests { retry_after_secs: limited.0 })
    }

    fn meet_faults(
        &self,
        machine: MachineId,
        method: Method,
        document: Option<Document>,
        now: Timestamp,
    ) -> Option<Box<FaultEffects>> {
        let faults = &self.state.faults;
        if !faults.has_any() {
            return None;
        }
        faults.apply_to(FaultContext { machine, method, document, now, real: faults.elapsed() }).map(Box::new)
    }

    /// Identifies the caller of a request that was refused before that, for the record. It counts for the rate limit too.
    fn identify_refused(
        &self,
        client: &Client,
        head: &Head<'_>,
        caller: &mut Option<Caller>,
    ) -> Result<(), MetadataError> {
        let path = head.path;
        let target = route::parse(path, client.policy.prefix_allowed);
        let snapshot = self.source.peek();
        let named = target.as_ref().and_then(|target| target.machine.as_ref());
        let Ok(machine) = client.find(&snapshot.region, named) else { return Ok(()) };
        let method = if head.method == http::Method::POST { Method::Post } else { Method::Get };
        let mut entry = self.entry(machine.id, method);
        let is_events = target.is_some_and(|target| target.route == Route::ScheduledEvents);
        let extra = entry.details_mut();
        if *head.method != method.as_str() {
            extra.method = Some(shorten(head.method.as_str()));
        }
        if !is_events {
            extra.path = Some(shorten(path));
        }
        let query = Query::parse(head.query);
        extra.version = query.ok().and_then(|query| query.api_version.as_deref().map(shorten));
        *caller = Some(Caller { entry, hit: None });
        let limited = self.state.requests.count_refused(machine.id);
        limited.map_err(|limited| MetadataError::TooManyRequests { retry_after_secs: limited.0 })
    }
}

/// Whether requests of a machine count as those of a handler. A machine that is off has none; requests in its name come
/// from elsewhere, such as a test on the host.
pub fn is_handler(machine: &Machine) -> bool {
    machine.power == Power::Running
}

fn check_method(route: &Route<'_>, method: &http::Method) -> Result<Method, MetadataError> {
    let refuse = |allow| Err(MetadataError::MethodNotAllowed { method: method.to_string(), allow });
    match (route, method) {
        (_, &http::Method::GET) => Ok(Method::Get),
        (Route::ScheduledEvents, &http::Method::POST) => Ok(Method::Post),
        (Route::ScheduledEvents, _) => refuse("GET, POST"),
        (Route::Instance(_) | Route::Attested | Route::Versions | Route::IdentityToken | Route::Root, _) => {
            refuse("GET")
        }
    }
}

/// Refuses web pages on loopback listeners: a page can reach them through a name that resolves to 127.0.0.1, and could fetch
/// the token of a machine's identity.
fn check_browser(client: &Client, head: &Head<'_>) -> Result<(), MetadataError> {
    if !client.could_be_browser() {
        return Ok(());
    }
    if head.has(&ORIGIN) {
        return Err(MetadataError::Browser);
    }
    let foreign = head.values(&HOST).find(|host| !is_local_host(host, &client.policy.hosts));
    match foreign {
        Some(host) => Err(MetadataError::ForeignHost { host: String::from_utf8_lossy(host).into_owned() }),
        None => Ok(()),
    }
}

/// Whether a `Host` header is an address, `localhost` or one of these names, with or without a port.
fn is_local_host(host: &[u8], names: &[String]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let has_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if host.parse::<SocketAddr>().is_ok() || host.parse::<IpAddr>().is_ok() {
        return true;
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if bare.is_some_and(|bare| bare.parse::<IpAddr>().is_ok()) {
        return true;
    }
    let name = host.rsplit_once(':').filter(|(_, port)| has_port(port)).map_or(host, |(name, _)| name);
    name.eq_ignore_ascii_case("localhost") || names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// X-Forwarded-For, then Metadata, then repeated parameters.
fn check_head<'r>(head: &Head<'r>, method: Method) -> Result<Query<'r>, MetadataError> {
    if head.has(&FORWARDED_FOR) {
        return Err(MetadataError::Forwarded);
    }
    let query = Query::parse(head.query);
    if !has_metadata_header(head) && !can_omit_metadata_header(head, method, &query) {
        return Err(MetadataError::MetadataHeaderMissing);
    }
    Ok(query?)
}

fn has_metadata_header(head: &Head<'_>) -> bool {
    head.value(&METADATA).is_some_and(|value| value.trim_ascii().eq_ignore_ascii_case(b"true"))
}

/// The oldest version accepts approvals without the header, but not from a page in a browser.
fn can_omit_metadata_header(head: &Head<'_>, method: Method, query: &Result<Query<'_>, QueryError>) -> bool {
    let is_oldest = |query: &Query<'_>| query.api_version.as_deref() == Some(Version::V2017_03_01.as_str());
    matches!(method, Method::Post)
        && query.as_ref().is_ok_and(is_oldest)
        && !head.has(&ORIGIN)
        && !head.has(&FETCH_SITE)
        && !head.has(&METADATA)
}

fn check_instance_query(query: &Query<'_>) -> Result<(InstanceVersion, Format), MetadataError> {
    let given = query.api_version.as_deref();
    let version = InstanceVersion::parse(given)
        .map_err(|error| MetadataError::api_version(EndpointKind::Instance, given, error))?;
    Ok((version, Format::parse(query.format.as_deref())?))
}

fn check_attested_query(query: &Query<'_>) -> Result<(InstanceVersion, Option<String>), MetadataError> {
    let (version, _) = check_instance_query(query)?;
    if version.as_str() < attested::FIRST_VERSION {
        let given = Some(version.as_str());
        return Err(MetadataError::api_version(EndpointKind::Instance, given, VersionError::NotServed));
    }
    match query.nonce.as_deref().filter(|nonce| !nonce.is_empty()) {
        Some(given) if !attested::is_nonce(given) => Err(MetadataError::BadNonce { given: given.to_owned() }),
        nonce => Ok((version, nonce.map(str::to_owned))),
    }
}

fn check_resource(query: &Query<'_>, issuer: &TokenIssuer) -> Result<String, MetadataError> {
    let given =
        query.resource.as_deref().filter(|resource| !resource.is_empty()).ok_or(MetadataError::ResourceMissing)?;
    let is_known = is_known_audience(given) || (issuer.is_audience)(given);
    if is_known { Ok(given.to_owned()) } else { Err(MetadataError::ResourceUnknown { given: given.to_owned() }) }
}

fn check_wait(query: &Query<'_>) -> Result<u64, MetadataError> {
    let Some(given) = query.wait.as_deref() else { return Ok(0) };
    query::wait_secs(given).ok_or_else(|| MetadataError::BadWait { given: given.to_owned() })
}

/// Whether one of the values of `If-None-Match` is this incarnation.
fn matches_any<'a>(values: impl Iterator<Item = &'a [u8]>, incarnation: u64) -> bool {
    let mut tags = values.flat_map(|value| value.split(|byte| *byte == b','));
    tags.any(|tag| is_tag_of(tag.trim_ascii(), incarnation))
}

/// Whether the caller has seen a later incarnation, at another server.
pub fn is_ahead<'a>(values: impl Iterator<Item = &'a [u8]>, incarnation: u64) -> bool {
    let mut tags = values.flat_map(|value| value.split(|byte| *byte == b','));
    tags.any(|tag| incarnation_of(tag.trim_ascii()).is_some_and(|known| known > incarnation))
}

fn is_tag_of(tag: &[u8], incarnation: u64) -> bool {
    tag == b"*" || incarnation_of(tag) == Some(incarnation)
}

fn incarnation_of(tag: &[u8]) -> Option<u64> {
    let strong = tag.strip_prefix(b"W/").unwrap_or(tag);
    let bare = strong.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(strong);
    let is_canonical = bare == b"0" || !bare.starts_with(b"0");
    let digits = is_canonical && !bare.is_empty() && bare.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(bare).ok().filter(|_| digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_known_names_are_local_hosts() {
        let names = ["imds".to_owned()];
        for host in
            ["127.0.0.1", "127.0.0.1:8169", "[::1]", "[::1]:80", "10.0.0.1", "localhost", "LocalHost:1", "imds:80"]
        {
            assert!(is_local_host(host.as_bytes(), &names), "{host}");
        }
        for host in
            ["", "evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "x@localhost"]
        {
            assert!(!is_local_host(host.as_bytes(), &names), "{host}");
        }
    }

    #[test]
    fn a_tag_matches_quoted_weak_or_bare() {
        for tag in ["7", "\"7\"", "W/\"7\"", "W/7", "*"] {
            assert!(is_tag_of(tag.as_bytes(), 7), "{tag}");
        }
        for tag in ["8", "", "\"\"", "07", "+7", "7x", "\"7", "w/7", "99999999999999999999"] {
            assert!(!is_tag_of(tag.as_bytes(), 7), "{tag}");
        }
    }
}
