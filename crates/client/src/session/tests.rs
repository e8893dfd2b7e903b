//! Tests of calls against scripted responses, without sockets or real time.

use super::*;
use crate::calls::{Approve, Condition, GetDocument, GetInstance, Poll};
use crate::event::EventId;
use crate::http::Method;
use crate::retry::RetryPolicy;

const EMPTY: &str = r#"{"DocumentIncarnation":1,"Events":[]}"#;
const NO_VERSION: &str = r#"{ "error": "Not found. Invalid version requested" }"#;

struct Script {
    session: Session,
    now: Duration,
    /// Requests sent so far.
    requests: Vec<String>,
}

fn ok(headers: &[(&str, &str)]) -> Result<Response, Failure> {
    Ok(Response::of(200, headers, EMPTY))
}

fn respond(status: u16, body: &str) -> Result<Response, Failure> {
    Ok(Response::of(status, &[], body))
}

fn lost() -> Result<Response, Failure> {
    let endpoint = Endpoint::from((std::net::Ipv4Addr::LOCALHOST, 1));
    Err(Failure::Error(Error::TimedOut { endpoint, timeout: Duration::from_secs(1) }))
}

use crate::endpoint::Endpoint;

impl Script {
    fn new() -> Script {
        Script::with(|options| options)
    }

    fn with(change: impl FnOnce(Options) -> Options) -> Script {
        let options = Options::new(Endpoint::from((std::net::Ipv4Addr::LOCALHOST, 1))).jitter_seed(1);
        Script { session: Session::new(change(options)), now: Duration::ZERO, requests: Vec::new() }
    }

    /// Runs a call. Every scripted response must be used.
    fn run<C: Call>(&mut self, call: C, responses: Vec<Result<Response, Failure>>) -> Result<C::Output, Error> {
        let mut responses = responses.into_iter();
        let (mut exchange, mut step) = Exchange::begin(call, &self.session, self.now);
        loop {
            step = match step {
                Step::Done(result) => {
                    assert_eq!(responses.count(), 0, "some responses were not used");
                    return result;
                }
                Step::Send { after, request } => {
                    self.now += after;
                    self.requests.push(render_request(&request, after));
                    let response = responses.next().unwrap_or_else(|| panic!("no response to {:?}", self.requests));
                    exchange.handle_response(&mut self.session, response, self.now)
                }
            };
        }
    }

    fn poll(&mut self, responses: Vec<Result<Response, Failure>>) -> Result<Poll, Error> {
        self.run(GetDocument { condition: Condition::IfChanged }, responses)
    }

    fn hold(&mut self, responses: Vec<Result<Response, Failure>>) -> Result<Poll, Error> {
        self.run(GetDocument { condition: Condition::Hold(Duration::from_secs(30)) }, responses)
    }

    /// Checks the requests sent since the last check.
    fn check(&mut self, expected: &[&str]) {
        assert_eq!(std::mem::take(&mut self.requests), expected);
    }
}

/// Renders a request as `2020-07-01&wait=30 [etag]`, with `later` if it was delayed.
fn render_request(request: &Request, after: Duration) -> String {
    let path = request.path.replace("/metadata/scheduledevents?api-version=", "");
    let path = path.replace("/metadata/instance?api-version=", "instance ");
    let method = if request.method == Method::Get { "" } else { "POST " };
    let etag = request.if_none_match.as_ref().map(|etag| format!(" [{etag}]")).unwrap_or_default();
    let after = if after.is_zero() { String::new() } else { " later".into() };
    format!("{method}{path}{etag}{after}")
}

#[test]
fn the_newest_supported_version_is_found_and_remembered() {
    let mut script = Script::new();
    let poll = script.poll(vec![
        respond(404, NO_VERSION),
        respond(404, ""),
        respond(400, r#"{"error":"Bad request. api-version is invalid or was not specified in the request."}"#),
        ok(&[("ETag", "5")]),
    ]);
    assert!(matches!(poll, Ok(Poll::Changed(document)) if document.version == Version::V2019_01_01));
    script.check(&["2020-07-01", "2019-08-01", "2019-04-01", "2019-01-01"]);
    assert_eq!(script.poll(vec![respond(304, "")]).unwrap(), Poll::Unchanged);
    script.check(&["2019-01-01 [5]"]);
}

#[test]
fn an_etag_is_not_sent_with_another_version() {
    let mut script = Script::new();
    script.poll(vec![respond(404, ""), ok(&[("ETag", "5")])]).unwrap();
    script.check(&["2020-07-01", "2019-08-01"]);
    script.poll(vec![respond(404, ""), ok(&[("ETag", "6")])]).unwrap();
    script.check(&["2019-08-01 [5]", "2020-07-01"]);
    script.poll(vec![respond(304, "")]).unwrap();
    script.check(&["2020-07-01 [6]"]);
}

#[test]
fn a_service_without_etags_is_polled_unconditionally() {
    let mut script = Script::new();
    script.poll(vec![ok(&[])]).unwrap();
    script.poll(vec![ok(&[])]).unwrap();
    script.check(&["2020-07-01", "2020-07-01"]);
    let error = script.poll(vec![respond(304, "")]).unwrap_err();
    assert_eq!(error.to_line(), "request refused (status 304): no reason given");
}

#[test]
fn the_etag_of_an_invalid_document_is_not_kept() {
    let mut script = Script::new();
    let invalid = Ok(Response::of(200, &[("ETag", "9")], "<html>"));
    let error = script.poll(vec![invalid]).unwrap_err();
    assert!(matches!(error, Error::InvalidDocument(_)));
    script.poll(vec![ok(&[("ETag", "9")])]).unwrap();
    script.check(&["2020-07-01", "2020-07-01"]);
}

#[test]
fn if_no_version_is_supported_the_error_is_the_response_to_the_newest() {
    let mut script = Script::new();
    let mut responses = vec![respond(404, "newest")];
    responses.extend((1..Version::ALL.len()).map(|_| respond(404, "older")));
    let error = script.poll(responses).unwrap_err();
    assert_eq!(error.to_line(), "no supported API version (status 404): newest");
    assert_eq!(script.requests.len(), Version::ALL.len());
}

#[test]
fn an_unknown_machine_is_not_mistaken_for_an_unknown_version() {
    let mut script = Script::new();
    let unknown = r#"{ "error": "Not found. No machine with the address 10.0.0.9 is registered." }"#;
    let error = script.poll(vec![Ok(Response::of(404, &[("Server", "IMDS/Forewarn")], unknown))]).unwrap_err();
    assert_eq!(
        error.to_line(),
        "request refused (status 404): Not found. No machine with the address 10.0.0.9 is registered."
    );
    script.check(&["2020-07-01"]);
}

#[test]
fn an_explicit_version_is_the_only_one_tried() {
    let mut script = Script::with(|options| options.version(Version::V2017_03_01));
    script.poll(vec![ok(&[])]).unwrap();
    script.poll(vec![respond(404, NO_VERSION)]).unwrap_err();
    script.check(&["2017-03-01", "2017-03-01"]);
}

#[test]
fn long_polls_are_sent_only_to_services_that_support_them() {
    let mut azure = Script::new();
    azure.hold(vec![ok(&[("ETag", "1"), ("Server", "IMDS/150.870.65.1854")])]).unwrap();
    azure.hold(vec![respond(304, "")]).unwrap();
    azure.check(&["2020-07-01", "2020-07-01 [1]"]);

    let mut forewarn = Script::new();
    forewarn.hold(vec![ok(&[("ETag", "1"), ("Server", "IMDS/Forewarn")])]).unwrap();
    forewarn.hold(vec![respond(304, "")]).unwrap();
    forewarn.poll(vec![respond(304, "")]).unwrap();
    forewarn.check(&["2020-07-01", "2020-07-01&wait=30 [1]", "2020-07-01 [1]"]);
    // Another service has taken over, which does not know `wait`.
    forewarn.hold(vec![respond(400, "what is wait?"), respond(304, "")]).unwrap();
    forewarn.hold(vec![respond(304, "")]).unwrap();
    forewarn.check(&["2020-07-01&wait=30 [1]", "2020-07-01 [1]", "2020-07-01 [1]"]);
}

#[test]
fn temporary_failures_are_retried_after_a_delay() {
    let mut script = Script::new();
    let busy = Ok(Response::of(429, &[("Retry-After", "3")], ""));
    script.poll(vec![lost(), respond(500, ""), respond(410, ""), busy, ok(&[])]).unwrap();
    script.check(&["2020-07-01", "2020-07-01 later", "2020-07-01 later", "2020-07-01 later", "2020-07-01 later"]);
    assert!(script.now >= Duration::from_secs(3), "{:?}", script.now);
}

#[test]
fn status_410_is_retried_for_seventy_seconds_and_503_for_twenty() {
    for (status, secs) in [(410, 70), (503, 20)] {
        let mut script = Script::new();
        let (mut exchange, mut step) =
            Exchange::begin(GetDocument { condition: Condition::IfChanged }, &script.session, Duration::ZERO);
        let error = loop {
            step = match step {
                Step::Done(result) => break result.unwrap_err(),
                Step::Send { after, .. } => {
                    script.now += after;
                    exchange.handle_response(&mut script.session, respond(status, "closed"), script.now)
                }
            };
        };
        assert_eq!(error.to_line(), format!("service unavailable (status {status}): closed"));
        assert!(error.is_temporary());
        let waited = script.now.as_secs();
        assert!((secs - 6..=secs).contains(&waited), "{status}: {waited} s");
    }
}

#[test]
fn permanent_failures_are_not_retried() {
    let mut script = Script::with(|options| options.retry(RetryPolicy::never()));
    assert!(matches!(script.poll(vec![respond(503, "")]), Err(Error::Unavailable { status: 503, .. })));
    let mut script = Script::new();
    assert!(matches!(script.poll(vec![respond(403, "")]), Err(Error::Refused { status: 403, .. })));
    assert!(matches!(script.poll(vec![respond(302, "")]), Err(Error::Refused { status: 302, .. })));
    assert!(matches!(script.poll(vec![respond(400, "no header")]), Err(Error::Refused { status: 400, .. })));
}

#[test]
fn a_stale_connection_does_not_count_as_a_retry() {
    let mut script = Script::with(|options| options.retry(RetryPolicy::never()));
    script.poll(vec![Err(Failure::Stale), ok(&[])]).unwrap();
    script.check(&["2020-07-01", "2020-07-01"]);
}

#[test]
fn a_retry_after_date_is_compared_with_the_date_of_the_response() {
    let date = ("Date", "Mon, 19 Sep 2016 18:29:47 GMT");
    let check = |value: &str, expected: Option<u64>| {
        let response = Response::of(503, &[("Retry-After", value), date], "");
        assert_eq!(parse_retry_after(&response), expected.map(Duration::from_secs), "{value}");
    };
    check("7", Some(7));
    check("Mon, 19 Sep 2016 18:29:57 GMT", Some(10));
    check("Mon, 19 Sep 2016 18:29:37 GMT", Some(0));
    check("soon", None);
    check("-1", None);
}

#[test]
fn approvals_and_instance_metadata_negotiate_versions_too() {
    let mut script = Script::new();
    let ids = [EventId::parse("A").unwrap(), EventId::parse("B").unwrap()];
    let call = Approve::batches(&ids).next().unwrap();
    script.run(call, vec![respond(404, NO_VERSION), respond(200, "")]).unwrap();
    script.poll(vec![ok(&[])]).unwrap();
    script.check(&["POST 2020-07-01", "POST 2019-08-01", "2019-08-01"]);
    let body = r#"{"error":"api-version is invalid","newest-versions":[]}"#;
    let instance =
        script.run(GetInstance, vec![respond(400, body), respond(200, r#"{"compute":{"name":"web"}}"#)]).unwrap();
    assert_eq!(instance.name, "web");
    script.check(&["instance 2021-02-01", "instance 2019-06-04"]);
}

#[test]
fn many_approvals_are_split_into_several_requests() {
    let ids: Vec<_> = (0..1025).map(|index| EventId::parse(&index.to_string()).unwrap()).collect();
    assert_eq!(Approve::batches(&ids).count(), 2);
    assert_eq!(Approve::batches(&[]).count(), 0);
}

#[test]
fn the_first_response_has_a_longer_timeout() {
    let mut script = Script::new();
    let timeout = |script: &Script| GetDocument { condition: Condition::IfChanged }.request(&script.session).timeout;
    assert_eq!(timeout(&script), Duration::from_secs(130));
    script.poll(vec![ok(&[])]).unwrap();
    assert_eq!(timeout(&script), Duration::from_secs(15));
}
