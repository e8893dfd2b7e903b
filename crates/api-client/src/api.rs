//! HTTP requests to the management API. Every error becomes a message for the user.

mod servers;
mod suggest;
mod wording;

use std::borrow::Borrow;
use std::io;

use forewarn_access::random_token;
use forewarn_api_types::{ErrorBody, PREFIX, Page};
use forewarn_connect::{
    CertificateProblem, ServerOptions, Target, TokenSource, Trust, agent, certificate_problem, is_connection_failure,
};
use serde::Serialize;
use serde_json::Value;
use ureq::http::{Method, Request, Response, StatusCode, Uri};
use ureq::{Agent, Body};

use crate::decode::decode;
use crate::failure::Failure;
use servers::Servers;

/// Limit of an answer's size: a page is at most a thousand entries of a few kilobytes.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

const PAGE: &str = "1000";

#[derive(Clone)]
pub struct Api {
    agent: Agent,
    servers: Servers,
    token: Option<String>,
    token_source: TokenSource,
}

/// The path and query of a request.
#[derive(Clone)]
pub struct Call {
    path: String,
    query: Vec<(&'static str, String)>,
    /// The server performs requests with the same key once.
    idempotency_key: Option<String>,
}

impl Call {
    /// A path below `/api/v1/`.
    pub fn api(segments: &[&str]) -> Call {
        let encoded: Vec<String> = segments.iter().map(|segment| percent_encode(segment)).collect();
        Call { path: format!("{PREFIX}/{}", encoded.join("/")), query: Vec::new(), idempotency_key: None }
    }

    /// A path that is not below `/api/v1/`.
    pub fn path(path: &'static str) -> Call {
        Call { path: path.into(), query: Vec::new(), idempotency_key: None }
    }

    pub fn with(mut self, name: &'static str, value: Option<impl ToString>) -> Call {
        self.query.extend(value.map(|value| (name, value.to_string())));
        self
    }

    /// Sets whether this is a dry run.
    pub fn dry_run(self, dry: bool) -> Call {
        self.with("dryRun", dry.then_some(true))
    }

    /// Marks a request that creates events. If its answer is lost, it is repeated at the next server, where it does not create
    /// them again.
    pub fn creates_events(self) -> Call {
        Call { idempotency_key: Some(random_token()), ..self }
    }

    fn url(&self, server: &str) -> String {
        let pairs: Vec<String> =
            self.query.iter().map(|(name, value)| format!("{name}={}", percent_encode(value))).collect();
        let mark = if pairs.is_empty() { "" } else { "?" };
        format!("{server}{}{mark}{}", self.path, pairs.join("&"))
    }
}

impl Api {
    pub fn new(choice: &ServerOptions) -> Result<Api, Failure> {
        Api::to(Target::find(choice)?)
    }

    /// Without a context or a token of this computer.
    pub fn without_token(server: &str, trust: &Trust) -> Result<Api, Failure> {
        let (servers, trust) = (vec![server.to_owned()], trust.clone());
        Api::to(Target { servers, trust, token: None, token_source: TokenSource::Nowhere })
    }

    pub fn with_token(server: &str, trust: &Trust, token: &str) -> Result<Api, Failure> {
        let (servers, trust, token) = (vec![server.to_owned()], trust.clone(), Some(token.to_owned()));
        let target = Target { servers, trust, token, token_source: TokenSource::Typed };
        target.check_privacy()?;
        Api::to(target)
    }

    fn to(target: Target) -> Result<Api, Failure> {
        let Target { servers, trust, token, token_source } = target;
        Ok(Api { agent: agent(&trust)?, servers: Servers::new(servers), token, token_source })
    }

    /// Whether the certificate of the server is trusted. Other errors are errors.
    pub fn is_trusted(&self) -> Result<bool, Failure> {
        match self.agent.get(format!("{}/healthz", self.server())).call() {
            Ok(_) => Ok(true),
            Err(error) => match certificate_problem(&error) {
                Some(CertificateProblem::Untrusted(_)) => Ok(false),
                Some(CertificateProblem::OtherName) | None => Err(self.unreachable(&error)),
            },
        }
    }

    /// The URL of the server that answered last, or of the first one.
    pub fn server(&self) -> &str {
        self.servers.current()
    }

    pub fn get(&self, call: &Call) -> Result<Value, Failure> {
        self.send(&Method::GET, call, None)
    }

    pub fn post(&self, call: &Call, body: &impl Serialize) -> Result<Value, Failure> {
        self.send_body(&Method::POST, call, body)
    }

    pub fn put(&self, call: &Call, body: &impl Serialize) -> Result<Value, Failure> {
        self.send_body(&Method::PUT, call, body)
    }

    pub fn patch(&self, call: &Call, body: &impl Serialize) -> Result<Value, Failure> {
        self.send_body(&Method::PATCH, call, body)
    }

    pub fn delete(&self, call: &Call) -> Result<Value, Failure> {
        self.send(&Method::DELETE, call, None)
    }

    /// Fetches all pages of a list.
    pub fn list(&self, call: Call) -> Result<Vec<Value>, Failure> {
        self.list_some(call, usize::MAX)
    }

    /// Fetches pages of a list until there are at least `most` entries.
    pub fn list_some(&self, mut call: Call, most: usize) -> Result<Vec<Value>, Failure> {
        call = call.with("limit", Some(PAGE));
        let mut all = Vec::new();
        loop {
            let mut page: Page<Value> = decode(&self.get(&call)?)?;
            all.append(&mut page.value);
            let Some(next) = page.next.filter(|_| all.len() < most) else { return Ok(all) };
            call.query.retain(|(name, _)| *name != "after");
            call.query.push(("after", next));
        }
    }

    /// Fetches a resource as text; None if it does not exist.
    pub fn text(&self, call: &Call) -> Result<Option<String>, Failure> {
        let mut response = self.run(&Method::GET, call, None)?;
        let status = response.status();
        let text = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let text = text.map_err(|error| self.unreachable(&error))?;
        match status {
            StatusCode::OK => Ok(Some(text)),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(self.refuse(status, &serde_json::from_str(&text).unwrap_or_default(), &call.path)),
        }
    }

    /// Whether the server issues a token to this client.
    pub fn can_sign_in(&self, id: &str, secret: &str) -> Result<bool, Failure> {
        let form = [("grant_type", "client_credentials"), ("client_id", id), ("client_secret", secret)];
        let pairs: Vec<String> = form.iter().map(|(name, value)| format!("{name}={}", percent_encode(value))).collect();
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}/common/oauth2/v2.0/token", self.server()))
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(pairs.join("&"));
        let answer = self.agent.run(request.map_err(|error| self.bad_request(&error))?);
        Ok(answer.map_err(|error| self.unreachable(&error))?.status().is_success())
    }

    /// Opens the stream of changes, after a row or from now on.
    pub fn changes(&self, after: Option<u64>) -> Result<impl io::Read + Send + 'static, Failure> {
        let response = self.run(&Method::GET, &Call::api(&["changes"]).with("after", after), None)?;
        if response.status() != StatusCode::OK {
            return Err(self
                .read(response, "changes")
                .err()
                .unwrap_or_else(|| self.unexpected_answer("no event stream")));
        }
        Ok(response.into_body().into_reader())
    }

    fn send_body(&self, method: &Method, call: &Call, body: &impl Serialize) -> Result<Value, Failure> {
        let body = serde_json::to_value(body).expect("bodies consist of strings, numbers and lists");
        self.send(method, call, Some(&body))
    }

    fn send(&self, method: &Method, call: &Call, body: Option<&Value>) -> Result<Value, Failure> {
        self.read(self.run(method, call, body)?, &call.path)
    }

    /// Sends a request to the server in use or, if no connection can be opened, to the next one. After any other error and after
    /// 503, a server may have carried out the request, so it is repeated only if it reads or has a key.
    fn run(&self, method: &Method, call: &Call, body: Option<&Value>) -> Result<Response<Body>, Failure> {
        let is_repeatable = *method == Method::GET || call.idempotency_key.is_some();
        let mut failures = Vec::new();
        let mut unavailable = None;
        for server in self.servers.in_order() {
            match self.run_at(server, method, call, body)? {
                Ok(response) if is_repeatable && response.status() == StatusCode::SERVICE_UNAVAILABLE => {
                    unavailable = Some((server, response));
                }
                Ok(response) => {
                    self.servers.set_current(server);
                    return Ok(response);
                }
                // A certificate that is not trusted is not hidden by the failure of the next server.
                Err(error)
                    if certificate_problem(&error).is_none() && (is_repeatable || is_connection_failure(&error)) =>
                {
                    failures.push((server, error));
                }
                Err(error) => {
                    self.servers.set_current(server);
                    return Err(self.unreachable(&error));
                }
            }
        }
        let Some((server, response)) = unavailable else { return Err(describe_unreachable(&failures)) };
        self.servers.set_current(server);
        Ok(response)
    }

    /// Sends a request to one server. The outer error is about the request itself.
    fn run_at(
        &self,
        server: &str,
        method: &Method,
        call: &Call,
        body: Option<&Value>,
    ) -> Result<Result<Response<Body>, ureq::Error>, Failure> {
        let mut request = Request::builder().method(method).uri(call.url(server));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if let Some(key) = &call.idempotency_key {
            request = request.header("Idempotency-Key", key);
        }
        Ok(match body {
            Some(body) => {
                let request = request.header("Content-Type", "application/json").body(body.to_string());
                self.agent.run(request.map_err(|error| self.bad_request(&error))?)
            }
            None => self.agent.run(request.body(()).map_err(|error| self.bad_request(&error))?),
        })
    }

    fn read(&self, mut response: Response<Body>, path: &str) -> Result<Value, Failure> {
        let status = response.status();
        let text = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let text = text.map_err(|error| self.unreachable(&error))?;
        let value: Option<Value> = if text.is_empty() { Some(Value::Null) } else { serde_json::from_str(&text).ok() };
        match value {
            Some(value) if status.is_success() => Ok(value),
            Some(value) => Err(self.refuse(status, &value, path)),
            None => Err(self.unexpected_answer(&format!("{status} without JSON"))),
        }
    }

    fn refuse(&self, status: StatusCode, body: &Value, path: &str) -> Failure {
        if status == StatusCode::UNAUTHORIZED {
            return Failure::Refused(self.auth_error());
        }
        match decode::<ErrorBody>(body) {
            Ok(ErrorBody { error }) => {
                let message = wording::cli_message(&error.message) + advise(&error.code);
                let question =
                    suggest::suggest_name(self, path, &error).map_or(String::new(), |text| format!(" {text}"));
                Failure::Refused(format!("{message}{question}"))
            }
            Err(_) => self.unexpected_answer(&format!("{status} without an error message")),
        }
    }

    fn auth_error(&self) -> String {
        let what = match (&self.token_source, &self.token) {
            (TokenSource::Typed, _) => "rejected the token from --token or FOREWARN_TOKEN".into(),
            (TokenSource::Context(name), _) => {
                return format!(
                    "the server at {} rejected the token of context {name}; log in again: forewarn login {}",
                    self.server(),
                    self.server()
                );
            }
            (TokenSource::File(file), Some(_)) => format!("rejected the token in {}", file.display()),
            (TokenSource::File(file), None) => format!("requires a token, but none was found in {}", file.display()),
            (TokenSource::Unreadable(file, error), _) => {
                format!("requires a token, but {} cannot be read: {error}", file.display())
            }
            (TokenSource::Nowhere, _) => "requires a token".into(),
        };
        format!(
            "the server at {} {what}; set --data (FOREWARN_DATA) to the server's data directory, or --token \
             (FOREWARN_TOKEN) to a token",
            self.server()
        )
    }

    fn unreachable(&self, error: &ureq::Error) -> Failure {
        let server = self.server();
        match certificate_problem(error) {
            Some(CertificateProblem::Untrusted(reason)) => Failure::Unreachable(format!(
                "the certificate of {server} is not trusted: {reason}; to trust it, run: forewarn login {server}"
            )),
            Some(CertificateProblem::OtherName) => {
                let uri = server.parse::<Uri>().ok();
                let name = uri.as_ref().and_then(Uri::host).unwrap_or(server).trim_matches(['[', ']']);
                Failure::Unreachable(format!(
                    "the certificate of {server} is trusted, but not valid for the name {name}; use a name in the \
                     certificate, or add this one on the server with --management-tls-name {name}"
                ))
            }
            None => describe_unreachable(&[(server, error)]),
        }
    }

    fn bad_request(&self, error: &ureq::http::Error) -> Failure {
        Failure::Usage(format!("cannot build a request for {}: {error}; check --server and the token", self.server()))
    }

    fn unexpected_answer(&self, what: &str) -> Failure {
        Failure::Refused(format!(
            "unexpected answer from {}: {what}; check that --server is the management address of a forewarn server",
            self.server()
        ))
    }
}

/// The error for servers that cannot be reached, each with the reason.
fn describe_unreachable(failures: &[(&str, impl Borrow<ureq::Error>)]) -> Failure {
    let reasons: Vec<String> =
        failures.iter().map(|(server, error)| format!("{server}: {}", describe_error(error.borrow()))).collect();
    let which = if reasons.len() == 1 { "the server at" } else { "any of the servers:" };
    Failure::Unreachable(format!(
        "cannot reach {which} {}; start one with `forewarn serve`, or set --server or FOREWARN_SERVER",
        reasons.join(", ")
    ))
}

/// The reason for a missing answer.
fn describe_error(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => "connection refused".into(),
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::Timeout(_) => "timed out".into(),
        ureq::Error::HostNotFound => "unknown host".into(),
        other => other.to_string(),
    }
}

fn percent_encode(text: &str) -> String {
    forewarn_wire::percent::encode_component(text)
}

/// Advice about the command line for an error of the API.
fn advise(code: &str) -> &'static str {
    match code {
        "NoticeTooShort" => " For shorter notice in tests, start the server with --notice-scale.",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    #[test]
    fn names_are_escaped_in_paths() {
        let call =
            Call::api(&["machines", "../a b/ü", "restart"]).with("eventId", Some("x&y")).with("group", None::<&str>);
        assert_eq!(call.url("http://s"), "http://s/api/v1/machines/..%2Fa%20b%2F%C3%BC/restart?eventId=x%26y");
    }

    /// The management API of a test server. It answers each connection with this text, and counts them.
    fn serve(answer: &'static str) -> (String, Arc<AtomicU32>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let count = Arc::new(AtomicU32::new(0));
        let counter = count.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                counter.fetch_add(1, Ordering::SeqCst);
                let mut connection = connection.unwrap();
                let _ = connection.read(&mut [0; 4096]);
                let _ = connection.write_all(answer.as_bytes());
            }
        });
        (server, count)
    }

    /// Like [`serve`], but returns the requests.
    fn record(answer: &'static str) -> (String, Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let (sender, requests) = channel();
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let mut connection = connection.unwrap();
                let (mut request, mut chunk) = (String::new(), [0; 4096]);
                // A connection that is closed with unread bytes is reset, and the answer may be lost.
                while !request.ends_with("null") {
                    let length = connection.read(&mut chunk).unwrap();
                    request.push_str(&String::from_utf8_lossy(&chunk[..length]));
                }
                let _ = sender.send(request);
                let _ = connection.write_all(answer.as_bytes());
            }
        });
        (server, requests)
    }

    fn api(servers: &[&str]) -> Api {
        let servers = servers.iter().map(ToString::to_string).collect();
        let (trust, token_source) = (Trust::System(None), TokenSource::Nowhere);
        Api::to(Target { servers, trust, token: None, token_source }).unwrap()
    }

    fn dead_server() -> String {
        format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap())
    }

    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";

    const UNAVAILABLE: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 51\r\nConnection: close\r\n\r\n\
                               {\"error\":{\"code\":\"NoLeader\",\"message\":\"no leader\"}}";

    #[test]
    fn a_server_without_a_listener_is_skipped_also_for_changes() {
        let (dead, (live, count)) = (dead_server(), serve(OK));
        let api = api(&[&dead, &live]);
        api.post(&Call::api(&["machines"]), &Value::Null).unwrap();
        assert_eq!((api.server(), count.load(Ordering::SeqCst)), (live.as_str(), 1));
        api.get(&Call::api(&["machines"])).unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 2, "the server that answered is used first");
    }

    #[test]
    fn a_change_with_an_unknown_outcome_is_not_repeated_elsewhere() {
        let ((broken, asked), (live, count)) = (serve(""), serve(OK));
        let api = api(&[&broken, &live]);
        let failure = api.post(&Call::api(&["machines"]), &Value::Null).unwrap_err();
        assert!(matches!(&failure, Failure::Unreachable(text) if text.contains(&broken)), "{failure:?}");
        assert_eq!((asked.load(Ordering::SeqCst), count.load(Ordering::SeqCst)), (1, 0));
    }

    #[test]
    fn a_request_that_creates_events_is_repeated_with_its_key_when_the_answer_is_lost() {
        let ((broken, lost), (live, repeated)) = (record(""), record(OK));
        let call = Call::api(&["machines", "web", "restart"]).creates_events();
        api(&[&broken, &live]).post(&call, &Value::Null).unwrap();
        let key = |requests: &Receiver<String>| {
            let request = requests.recv().unwrap().to_ascii_lowercase();
            request.lines().find_map(|line| line.strip_prefix("idempotency-key: ").map(str::to_owned)).unwrap()
        };
        let (first, second) = (key(&lost), key(&repeated));
        assert_eq!((first.len(), &first), (64, &second));
        let other = Call::api(&["machines", "web", "restart"]).creates_events();
        assert_ne!(other.idempotency_key.as_ref(), Some(&first), "each request has a key of its own");
    }

    #[test]
    fn reads_and_requests_with_a_key_go_to_the_next_server_after_503_and_a_lost_answer() {
        for refusal in [UNAVAILABLE, ""] {
            let ((refusing, refused), (live, count)) = (serve(refusal), serve(OK));
            let api = api(&[&refusing, &live]);
            api.get(&Call::api(&["machines"])).unwrap();
            assert_eq!((api.server(), refused.load(Ordering::SeqCst)), (live.as_str(), 1), "{refusal:?}");
            assert_eq!(count.load(Ordering::SeqCst), 1);
        }
        let ((refusing, refused), (live, repeated)) = (record(UNAVAILABLE), record(OK));
        let call = Call::api(&["machines", "web", "restart"]).creates_events();
        api(&[&refusing, &live]).post(&call, &Value::Null).unwrap();
        let key = call.idempotency_key.unwrap();
        assert!(refused.recv().unwrap().contains(&key) && repeated.recv().unwrap().contains(&key));
    }

    #[test]
    fn a_change_without_a_key_is_not_repeated_after_503_and_all_servers_can_be_unavailable() {
        let ((one, asked), (other, spared)) = (serve(UNAVAILABLE), serve(UNAVAILABLE));
        let api = api(&[&one, &other]);
        let failure = api.post(&Call::api(&["machines"]), &Value::Null).unwrap_err();
        assert!(matches!(&failure, Failure::Refused(text) if text.contains("no leader")), "{failure:?}");
        assert_eq!((asked.load(Ordering::SeqCst), spared.load(Ordering::SeqCst)), (1, 0));
        let failure = api.get(&Call::api(&["machines"])).unwrap_err();
        assert!(matches!(&failure, Failure::Refused(text) if text.contains("no leader")), "{failure:?}");
        assert_eq!((asked.load(Ordering::SeqCst), spared.load(Ordering::SeqCst)), (2, 1));
    }

    #[test]
    fn an_error_names_every_server_that_cannot_be_reached() {
        let (one, other) = (dead_server(), dead_server());
        let failure = api(&[&one, &other]).get(&Call::api(&["machines"])).unwrap_err();
        let text = failure.message().unwrap();
        let reasons =
            format!("cannot reach any of the servers: {one}: connection refused, {other}: connection refused;");
        assert!(text.starts_with(&reasons), "{text}");
    }
}
