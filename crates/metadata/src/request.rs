//! One request at the metadata endpoint: the checks, in their fixed order, and the answer.
//!
//! A GET of a document that nobody has to be told of is answered here and now; what must wait (turning
//! a scope on, `wait=`, an approval) becomes a future in `later`.

use std::sync::Arc;

use forewarn_core::{Machine, MachineId, Region, ScopeId, Timestamp};
use forewarn_wire::error::Refusal;
use forewarn_wire::instance::{self, Format};
use forewarn_wire::query::{self, Query, QueryError};
use forewarn_wire::version::{Endpoint, InstanceVersion, Version};
use http::header::{HeaderName, IF_NONE_MATCH, ORIGIN};
use http::{HeaderMap, HeaderValue, Request};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::answer::{Answer, Answers};
use super::caller::{Door, Peer};
use super::documents::Documents;
use super::memo::Memo;
use super::route::{self, Route, Target};
use super::seen::Seen;
use super::{EndpointState, Source};
use crate::faults::{Alter, Document, Facts, Hit, Method};
use crate::requests::{Passed, kept};
use forewarn_access::{Desk, is_known_audience};

/// What all listeners share.
pub struct Shared {
    pub source: Arc<dyn Source>,
    pub state: Arc<EndpointState>,
    pub documents: Documents,
    pub memo: Memo,
    pub answers: Answers,
    pub seen: Seen,
    pub desk: Desk,
    /// Identities that are being read.
    pub identity_reads: Semaphore,
    pub stop: CancellationToken,
}

const METADATA: HeaderName = HeaderName::from_static("metadata");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What comes of a look at a request.
pub enum Look {
    Answer(Answer),
    /// A GET that must wait for something.
    Get(Get),
    /// An approval: its body is still to be read.
    Post(Post),
    /// A token: whether the machine has an identity is still to be read.
    Token(TokenRequest),
}

pub struct Get {
    pub machine: MachineId,
    pub scope: ScopeId,
    pub version: Version,
    pub condition: Condition,
    pub wait_secs: u64,
    pub alter: Alter,
}

pub struct Post {
    pub machine: Arc<Machine>,
}

pub struct TokenRequest {
    pub machine: Arc<Machine>,
    pub resource: String,
    pub client_id: Option<String>,
}

/// A request whose machine is known.
pub struct Visit {
    pub passed: Passed,
    /// What goes wrong with its answer.
    pub hit: Option<Box<Hit>>,
}

impl Shared {
    /// `visit` becomes known on the way, also when the request is refused after that.
    pub fn look<B>(
        &self,
        door: &Door,
        peer: &Peer,
        request: &Request<B>,
        visit: &mut Option<Visit>,
    ) -> Result<Look, Refusal> {
        let path = request.uri().path();
        let target =
            route::parse(path, door.prefix_allowed).ok_or_else(|| Refusal::UnknownPath { path: path.to_owned() })?;
        let method = check_method(&target.route, request.method())?;
        let query = check_head(request, method)?;
        match target.route {
            Route::ScheduledEvents => {
                let given = query.api_version.as_deref();
                let version = Version::parse(given)
                    .map_err(|error| Refusal::api_version(Endpoint::ScheduledEvents, given, error))?;
                match method {
                    Method::Get => self.look_at_document(door, peer, &target, request, version, &query, visit),
                    Method::Post => self.look_at_approval(door, peer, &target, version, visit),
                }
            }
            Route::IdentityToken => {
                check_instance_query(&query)?;
                let resource = check_resource(&query, &self.desk)?;
                let machine = self.source.peek();
                let machine = door.who(&machine.region, peer, target.machine.as_ref())?.clone();
                let given = query.api_version.as_deref();
                let passed = self.passed(machine.id, Method::Get).elsewhere("/metadata/identity/oauth2/token", given);
                self.note(passed, None, visit)?;
                let client_id = query.client_id.map(|id| id.into_owned());
                Ok(Look::Token(TokenRequest { machine, resource, client_id }))
            }
            Route::Versions => {
                let snapshot = self.source.peek();
                let machine = door.who(&snapshot.region, peer, target.machine.as_ref())?;
                self.note(self.passed(machine.id, Method::Get).elsewhere("/metadata/versions", None), None, visit)?;
                Ok(Look::Answer(self.answers.json(instance::versions_body())))
            }
            Route::Root => {
                let format = check_instance_query(&query)?.1;
                let snapshot = self.source.peek();
                let machine = door.who(&snapshot.region, peer, target.machine.as_ref())?;
                let given = query.api_version.as_deref();
                self.note(self.passed(machine.id, Method::Get).elsewhere("/metadata", given), None, visit)?;
                Ok(Look::Answer(self.answers.of(instance::root_listing(format)?)))
            }
            Route::Instance(below) => {
                let (version, format) = check_instance_query(&query)?;
                let snapshot = self.source.peek();
                let machine = door.who(&snapshot.region, peer, target.machine.as_ref())?;
                let path = format!("/metadata/instance{below}");
                let given = query.api_version.as_deref();
                self.note(self.passed(machine.id, Method::Get).elsewhere(&path, given), None, visit)?;
                let answer = super::instance::answer(&snapshot.region, machine, version, below, format)?;
                Ok(Look::Answer(self.answers.of(answer)))
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what the checks before it have found out")]
    fn look_at_document<B>(
        &self,
        door: &Door,
        peer: &Peer,
        target: &Target<'_>,
        request: &Request<B>,
        version: Version,
        query: &Query<'_>,
        visit: &mut Option<Visit>,
    ) -> Result<Look, Refusal> {
        let wait_secs = check_wait(query)?;
        let snapshot = self.source.peek();
        let region = &snapshot.region;
        let (machine, scope) = door.who_polls(&snapshot, peer, target.machine.as_ref(), &self.memo)?;
        let scope = region.scope(scope).ok_or(Refusal::Internal)?;
        let mut passed = self.passed(machine, Method::Get);
        passed.version = Some(version);
        let now = passed.at;
        let document = Document { scope: scope.id, incarnation: scope.incarnation };
        let alter = self.note(passed, Some(document), visit)?;
        let later = || {
            Ok(Look::Get(Get {
                machine,
                scope: scope.id,
                version,
                condition: Condition::of(request.headers()),
                wait_secs,
                alter: alter.unwrap_or_default(),
            }))
        };
        if alter.is_some() {
            return later();
        }
        if region.wants_seen(scope.id, now) {
            if !region.is_on(scope.id) {
                return later();
            }
            self.seen.refresh(region, machine, scope.id);
        }
        if self.seen.held_until(region, scope.id).is_some() {
            return later();
        }
        if request.headers().contains_key(IF_NONE_MATCH)
            && Condition::matches_any(request.headers().get_all(IF_NONE_MATCH).iter(), scope.incarnation)
        {
            if wait_secs > 0 {
                return later();
            }
            return Ok(Look::Answer(self.answers.unchanged(HeaderValue::from(scope.incarnation))));
        }
        let document = self.documents.get(region, scope, version);
        Ok(Look::Answer(self.answers.document(&document)))
    }

    fn look_at_approval(
        &self,
        door: &Door,
        peer: &Peer,
        target: &Target<'_>,
        version: Version,
        visit: &mut Option<Visit>,
    ) -> Result<Look, Refusal> {
        let snapshot = self.source.peek();
        let region = &snapshot.region;
        let machine = door.who(region, peer, target.machine.as_ref())?;
        let mut passed = self.passed(machine.id, Method::Post);
        passed.version = Some(version);
        let incarnation = region.scope(machine.scope).map_or(0, |scope| scope.incarnation);
        self.note(passed, Some(Document { scope: machine.scope, incarnation }), visit)?;
        Ok(Look::Post(Post { machine: machine.clone() }))
    }

    fn passed(&self, machine: MachineId, method: Method) -> Passed {
        Passed::new(machine, self.source.now(), method)
    }

    /// Counts the request, and says what the document looks like when it meets a fault.
    fn note(
        &self,
        mut passed: Passed,
        document: Option<Document>,
        visit: &mut Option<Visit>,
    ) -> Result<Option<Alter>, Refusal> {
        let Passed { machine, method, at, .. } = passed;
        let counted = self.state.requests.note(machine, method, at);
        let hit = match counted {
            Ok(()) => self.meet(machine, method, document, at),
            Err(_) => None,
        };
        if let Some(hit) = &hit {
            passed.met(&hit.met);
        }
        let alter = hit.as_ref().map(|hit| hit.alter);
        *visit = Some(Visit { passed, hit });
        counted.map(|()| alter).map_err(|limited| Refusal::TooManyRequests { retry_after_secs: limited.0 })
    }

    fn meet(&self, machine: MachineId, method: Method, document: Option<Document>, now: Timestamp) -> Option<Box<Hit>> {
        let faults = &self.state.faults;
        if !faults.any() {
            return None;
        }
        faults.meet(Facts { machine, method, document, now, real: faults.real() }).map(Box::new)
    }

    /// A request that was refused before it was known whose it is: who it would have been, if anybody.
    pub fn stray<B>(&self, door: &Door, peer: &Peer, request: &Request<B>) -> Option<Passed> {
        let path = request.uri().path();
        let target = route::parse(path, door.prefix_allowed);
        let snapshot = self.source.peek();
        let machine = self.would_be(door, peer, target.as_ref(), &snapshot.region)?;
        let method = if request.method() == http::Method::POST { Method::Post } else { Method::Get };
        let mut passed = self.passed(machine, method);
        let is_events = target.is_some_and(|target| target.route == Route::ScheduledEvents);
        let extra = passed.extra();
        if *request.method() != method.as_str() {
            extra.method = Some(kept(request.method().as_str()));
        }
        if !is_events {
            extra.path = Some(kept(path));
        }
        let query = Query::parse(request.uri().query().unwrap_or_default());
        extra.version = query.ok().and_then(|query| query.api_version.as_deref().map(kept));
        Some(passed)
    }

    fn would_be(&self, door: &Door, peer: &Peer, target: Option<&Target<'_>>, region: &Region) -> Option<MachineId> {
        let named = target.and_then(|target| target.machine.as_ref());
        door.who(region, peer, named).ok().map(|machine| machine.id)
    }
}

fn check_method(route: &Route<'_>, method: &http::Method) -> Result<Method, Refusal> {
    let refuse = |allow| Err(Refusal::MethodNotAllowed { method: method.to_string(), allow });
    match (route, method) {
        (_, &http::Method::GET) => Ok(Method::Get),
        (Route::ScheduledEvents, &http::Method::POST) => Ok(Method::Post),
        (Route::ScheduledEvents, _) => refuse("GET, POST"),
        (Route::Instance(_) | Route::Versions | Route::IdentityToken | Route::Root, _) => refuse("GET"),
    }
}

/// X-Forwarded-For, then Metadata, then parameters that are there twice.
fn check_head<B>(request: &Request<B>, method: Method) -> Result<Query<'_>, Refusal> {
    let headers = request.headers();
    if headers.contains_key(FORWARDED_FOR) {
        return Err(Refusal::Forwarded);
    }
    let query = Query::parse(request.uri().query().unwrap_or_default());
    if !says_metadata(headers) && !may_omit_metadata(headers, method, &query) {
        return Err(Refusal::MetadataHeaderMissing);
    }
    Ok(query?)
}

fn says_metadata(headers: &HeaderMap) -> bool {
    headers.get(METADATA).is_some_and(|value| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"true"))
}

/// The oldest version took approvals without the header. A browser that is led astray says where it was.
fn may_omit_metadata(headers: &HeaderMap, method: Method, query: &Result<Query<'_>, QueryError>) -> bool {
    let oldest = |query: &Query<'_>| query.api_version.as_deref() == Some(Version::V2017_03_01.as_str());
    matches!(method, Method::Post)
        && query.as_ref().is_ok_and(oldest)
        && !headers.contains_key(ORIGIN)
        && !headers.contains_key(FETCH_SITE)
        && !headers.contains_key(METADATA)
}

fn check_instance_query(query: &Query<'_>) -> Result<(InstanceVersion, Format), Refusal> {
    let given = query.api_version.as_deref();
    let version =
        InstanceVersion::parse(given).map_err(|error| Refusal::api_version(Endpoint::Instance, given, error))?;
    Ok((version, Format::parse(query.format.as_deref())?))
}

fn check_resource(query: &Query<'_>, desk: &Desk) -> Result<String, Refusal> {
    let given = query.resource.as_deref().filter(|resource| !resource.is_empty()).ok_or(Refusal::ResourceMissing)?;
    let known = is_known_audience(given) || (desk.is_audience)(given);
    if known { Ok(given.to_owned()) } else { Err(Refusal::ResourceUnknown { given: given.to_owned() }) }
}

fn check_wait(query: &Query<'_>) -> Result<u64, Refusal> {
    let Some(given) = query.wait.as_deref() else { return Ok(0) };
    query::wait_secs(given).ok_or_else(|| Refusal::BadWait { given: given.to_owned() })
}

/// The values of `If-None-Match`.
pub struct Condition(Vec<HeaderValue>);

impl Condition {
    pub fn of(headers: &HeaderMap) -> Condition {
        Condition(headers.get_all(IF_NONE_MATCH).iter().cloned().collect())
    }

    pub fn matches(&self, incarnation: u64) -> bool {
        Condition::matches_any(self.0.iter(), incarnation)
    }

    fn matches_any<'a>(values: impl Iterator<Item = &'a HeaderValue>, incarnation: u64) -> bool {
        let mut tags = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        tags.any(|tag| is_tag_of(tag.trim_ascii(), incarnation))
    }
}

fn is_tag_of(tag: &[u8], incarnation: u64) -> bool {
    if tag == b"*" {
        return true;
    }
    let strong = tag.strip_prefix(b"W/").unwrap_or(tag);
    let bare = strong.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(strong);
    let is_canonical = bare == b"0" || !bare.starts_with(b"0");
    let digits = is_canonical && !bare.is_empty() && bare.iter().all(u8::is_ascii_digit);
    digits && std::str::from_utf8(bare).ok().and_then(|text| text.parse().ok()) == Some(incarnation)
}

#[cfg(test)]
mod tests {
    use super::*;

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
