//! Calls against a script of answers: no socket, no time.

use super::*;
use crate::calls::{Approve, Condition, GetDocument, GetInstance, Poll};
use crate::event::EventId;
use crate::http::Method;
use crate::retry::Retry;

const EMPTY: &str = r#"{"DocumentIncarnation":1,"Events":[]}"#;
const NO_VERSION: &str = r#"{ "error": "Not found. Invalid version requested" }"#;

struct Play {
    session: Session,
    now: Duration,
    /// What was asked so far, each with the pause before it.
    asked: Vec<String>,
}

fn ok(headers: &[(&str, &str)]) -> Result<Response, Failure> {
    Ok(Response::of(200, headers, EMPTY))
}

fn answer(status: u16, body: &str) -> Result<Response, Failure> {
    Ok(Response::of(status, &[], body))
}

fn lost() -> Result<Response, Failure> {
    let endpoint = Endpoint::from((std::net::Ipv4Addr::LOCALHOST, 1));
    Err(Failure::Error(Error::Slow { endpoint, timeout: Duration::from_secs(1) }))
}

use crate::endpoint::Endpoint;

impl Play {
    fn new() -> Play {
        Play::with(|options| options)
    }

    fn with(change: impl FnOnce(Options) -> Options) -> Play {
        let options = Options::new(Endpoint::from((std::net::Ipv4Addr::LOCALHOST, 1))).jitter_seed(1);
        Play { session: Session::new(change(options)), now: Duration::ZERO, asked: Vec::new() }
    }

    /// Runs the call; each answer of the script is used, and no more are asked for.
    fn run<C: Call>(&mut self, call: C, answers: Vec<Result<Response, Failure>>) -> Result<C::Output, Error> {
        let mut answers = answers.into_iter();
        let (mut exchange, mut step) = Exchange::begin(call, &self.session, self.now);
        loop {
            step = match step {
                Step::Done(result) => {
                    assert_eq!(answers.count(), 0, "answers that nobody asked for");
                    return result;
                }
                Step::Send { after, request } => {
                    self.now += after;
                    self.asked.push(shown(&request, after));
                    let answer = answers.next().unwrap_or_else(|| panic!("no answer to {:?}", self.asked));
                    exchange.answered(&mut self.session, answer, self.now)
                }
            };
        }
    }

    fn poll(&mut self, answers: Vec<Result<Response, Failure>>) -> Result<Poll, Error> {
        self.run(GetDocument { condition: Condition::IfChanged }, answers)
    }

    fn hold(&mut self, answers: Vec<Result<Response, Failure>>) -> Result<Poll, Error> {
        self.run(GetDocument { condition: Condition::Hold(Duration::from_secs(30)) }, answers)
    }

    /// The door: what was asked since the last time.
    fn check(&mut self, expected: &[&str]) {
        assert_eq!(std::mem::take(&mut self.asked), expected);
    }
}

/// `2020-07-01 &wait=30 [etag]`, with the pause when there is one.
fn shown(request: &Request, after: Duration) -> String {
    let path = request.path.replace("/metadata/scheduledevents?api-version=", "");
    let path = path.replace("/metadata/instance?api-version=", "instance ");
    let method = if request.method == Method::Get { "" } else { "POST " };
    let etag = request.if_none_match.as_ref().map(|etag| format!(" [{etag}]")).unwrap_or_default();
    let after = if after.is_zero() { String::new() } else { " later".into() };
    format!("{method}{path}{etag}{after}")
}

#[test]
fn the_newest_version_that_is_served_is_found_and_remembered() {
    let mut play = Play::new();
    let poll = play.poll(vec![
        answer(404, NO_VERSION),
        answer(404, ""),
        answer(400, r#"{"error":"Bad request. api-version is invalid or was not specified in the request."}"#),
        ok(&[("ETag", "5")]),
    ]);
    assert!(matches!(poll, Ok(Poll::Changed(document)) if document.version == Version::V2019_01_01));
    play.check(&["2020-07-01", "2019-08-01", "2019-04-01", "2019-01-01"]);
    assert_eq!(play.poll(vec![answer(304, "")]).unwrap(), Poll::Unchanged);
    play.check(&["2019-01-01 [5]"]);
}

#[test]
fn a_mark_is_not_carried_to_another_version() {
    let mut play = Play::new();
    play.poll(vec![answer(404, ""), ok(&[("ETag", "5")])]).unwrap();
    play.check(&["2020-07-01", "2019-08-01"]);
    play.poll(vec![answer(404, ""), ok(&[("ETag", "6")])]).unwrap();
    play.check(&["2019-08-01 [5]", "2020-07-01"]);
    play.poll(vec![answer(304, "")]).unwrap();
    play.check(&["2020-07-01 [6]"]);
}

#[test]
fn a_service_without_marks_is_asked_for_all_of_it() {
    let mut play = Play::new();
    play.poll(vec![ok(&[])]).unwrap();
    play.poll(vec![ok(&[])]).unwrap();
    play.check(&["2020-07-01", "2020-07-01"]);
    let error = play.poll(vec![answer(304, "")]).unwrap_err();
    assert_eq!(error.to_line(), "the service refuses, 304: it does not say why");
}

#[test]
fn a_document_that_makes_no_sense_leaves_no_mark() {
    let mut play = Play::new();
    let nonsense = Ok(Response::of(200, &[("ETag", "9")], "<html>"));
    let error = play.poll(vec![nonsense]).unwrap_err();
    assert!(matches!(error, Error::Nonsense(_)));
    play.poll(vec![ok(&[("ETag", "9")])]).unwrap();
    play.check(&["2020-07-01", "2020-07-01"]);
}

#[test]
fn when_no_version_is_served_the_error_is_what_was_said_to_the_newest() {
    let mut play = Play::new();
    let mut answers = vec![answer(404, "newest")];
    answers.extend((1..Version::ALL.len()).map(|_| answer(404, "older")));
    let error = play.poll(answers).unwrap_err();
    assert_eq!(error.to_line(), "the service has none of the versions we know, 404: newest");
    assert_eq!(play.asked.len(), Version::ALL.len());
}

#[test]
fn forewarn_does_not_mean_the_version_when_it_does_not_know_the_machine() {
    let mut play = Play::new();
    let unknown = r#"{ "error": "Not found. No machine with the address 10.0.0.9 is registered." }"#;
    let error = play.poll(vec![Ok(Response::of(404, &[("Server", "IMDS/Forewarn")], unknown))]).unwrap_err();
    assert_eq!(
        error.to_line(),
        "the service refuses, 404: Not found. No machine with the address 10.0.0.9 is registered."
    );
    play.check(&["2020-07-01"]);
}

#[test]
fn a_version_that_was_asked_for_is_the_only_one() {
    let mut play = Play::with(|options| options.version(Version::V2017_03_01));
    play.poll(vec![ok(&[])]).unwrap();
    play.poll(vec![answer(404, NO_VERSION)]).unwrap_err();
    play.check(&["2017-03-01", "2017-03-01"]);
}

#[test]
fn requests_are_held_only_where_the_service_can() {
    let mut original = Play::new();
    original.hold(vec![ok(&[("ETag", "1"), ("Server", "IMDS/150.870.65.1854")])]).unwrap();
    original.hold(vec![answer(304, "")]).unwrap();
    original.check(&["2020-07-01", "2020-07-01 [1]"]);

    let mut forewarn = Play::new();
    forewarn.hold(vec![ok(&[("ETag", "1"), ("Server", "IMDS/Forewarn")])]).unwrap();
    forewarn.hold(vec![answer(304, "")]).unwrap();
    forewarn.poll(vec![answer(304, "")]).unwrap();
    forewarn.check(&["2020-07-01", "2020-07-01&wait=30 [1]", "2020-07-01 [1]"]);
    // Something else is there now, which does not know the word.
    forewarn.hold(vec![answer(400, "what is wait?"), answer(304, "")]).unwrap();
    forewarn.hold(vec![answer(304, "")]).unwrap();
    forewarn.check(&["2020-07-01&wait=30 [1]", "2020-07-01 [1]", "2020-07-01 [1]"]);
}

#[test]
fn trouble_is_waited_out_within_bounds() {
    let mut play = Play::new();
    let busy = Ok(Response::of(429, &[("Retry-After", "3")], ""));
    play.poll(vec![lost(), answer(500, ""), answer(410, ""), busy, ok(&[])]).unwrap();
    play.check(&["2020-07-01", "2020-07-01 later", "2020-07-01 later", "2020-07-01 later", "2020-07-01 later"]);
    assert!(play.now >= Duration::from_secs(3), "{:?}", play.now);
}

#[test]
fn a_service_that_is_gone_gets_seventy_seconds_and_one_that_is_down_gets_twenty() {
    for (status, secs) in [(410, 70), (503, 20)] {
        let mut play = Play::new();
        let (mut exchange, mut step) =
            Exchange::begin(GetDocument { condition: Condition::IfChanged }, &play.session, Duration::ZERO);
        let error = loop {
            step = match step {
                Step::Done(result) => break result.unwrap_err(),
                Step::Send { after, .. } => {
                    play.now += after;
                    exchange.answered(&mut play.session, answer(status, "closed"), play.now)
                }
            };
        };
        assert_eq!(error.to_line(), format!("the service is not available, {status}: closed"));
        assert!(error.is_temporary());
        let waited = play.now.as_secs();
        assert!((secs - 6..=secs).contains(&waited), "{status}: {waited} s");
    }
}

#[test]
fn what_retrying_does_not_help_is_an_error_at_once() {
    let mut play = Play::with(|options| options.retry(Retry::never()));
    assert!(matches!(play.poll(vec![answer(503, "")]), Err(Error::Unavailable { status: 503, .. })));
    let mut play = Play::new();
    assert!(matches!(play.poll(vec![answer(403, "")]), Err(Error::Refused { status: 403, .. })));
    assert!(matches!(play.poll(vec![answer(302, "")]), Err(Error::Refused { status: 302, .. })));
    assert!(matches!(play.poll(vec![answer(400, "no header")]), Err(Error::Refused { status: 400, .. })));
}

#[test]
fn connections_that_were_closed_while_idle_cost_no_patience() {
    let mut play = Play::with(|options| options.retry(Retry::never()));
    play.poll(vec![Err(Failure::Stale), ok(&[])]).unwrap();
    play.check(&["2020-07-01", "2020-07-01"]);
}

#[test]
fn a_date_to_come_back_at_is_read_by_the_services_own_clock() {
    let date = ("Date", "Mon, 19 Sep 2016 18:29:47 GMT");
    let check = |value: &str, expected: Option<u64>| {
        let response = Response::of(503, &[("Retry-After", value), date], "");
        assert_eq!(retry_after(&response), expected.map(Duration::from_secs), "{value}");
    };
    check("7", Some(7));
    check("Mon, 19 Sep 2016 18:29:57 GMT", Some(10));
    check("Mon, 19 Sep 2016 18:29:37 GMT", Some(0));
    check("soon", None);
    check("-1", None);
}

#[test]
fn approval_and_instance_find_their_versions_too() {
    let mut play = Play::new();
    let ids = [EventId::parse("A").unwrap(), EventId::parse("B").unwrap()];
    let call = Approve::all(&ids).next().unwrap();
    play.run(call, vec![answer(404, NO_VERSION), answer(200, "")]).unwrap();
    play.poll(vec![ok(&[])]).unwrap();
    play.check(&["POST 2020-07-01", "POST 2019-08-01", "2019-08-01"]);
    let body = r#"{"error":"api-version is invalid","newest-versions":[]}"#;
    let instance =
        play.run(GetInstance, vec![answer(400, body), answer(200, r#"{"compute":{"name":"web"}}"#)]).unwrap();
    assert_eq!(instance.name, "web");
    play.check(&["instance 2021-02-01", "instance 2019-06-04"]);
}

#[test]
fn many_approvals_go_in_several_requests() {
    let ids: Vec<_> = (0..1025).map(|index| EventId::parse(&index.to_string()).unwrap()).collect();
    assert_eq!(Approve::all(&ids).count(), 2);
    assert_eq!(Approve::all(&[]).count(), 0);
}

#[test]
fn the_first_answer_may_take_its_time() {
    let mut play = Play::new();
    let timeout = |play: &Play| GetDocument { condition: Condition::IfChanged }.request(&play.session).timeout;
    assert_eq!(timeout(&play), Duration::from_secs(130));
    play.poll(vec![ok(&[])]).unwrap();
    assert_eq!(timeout(&play), Duration::from_secs(15));
}
