//! HTTP requests to the management API. Every error becomes a message for the user.

mod suggest;
mod wording;

use std::io;

use forewarn_api_types::{ErrorBody, PREFIX, Page};
use forewarn_connect::{Choice, Target, TokenSource, Trust, agent, certificate_error};
use serde::Serialize;
use serde_json::Value;
use ureq::http::{Method, Request, Response, StatusCode};
use ureq::{Agent, Body};

use crate::decode::decode;
use crate::failure::Failure;

/// Limit of an answer's size: a page is at most a thousand entries of a few kilobytes.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

const PAGE: &str = "1000";

#[derive(Clone)]
pub struct Api {
    agent: Agent,
    server: String,
    token: Option<String>,
    token_source: TokenSource,
}

/// The path and query of a request.
#[derive(Clone)]
pub struct Call {
    path: String,
    query: Vec<(&'static str, String)>,
}

impl Call {
    /// A path below `/api/v1/`.
    pub fn api(segments: &[&str]) -> Call {
        let encoded: Vec<String> = segments.iter().map(|segment| percent_encode(segment)).collect();
        Call { path: format!("{PREFIX}/{}", encoded.join("/")), query: Vec::new() }
    }

    /// A path that is not below `/api/v1/`.
    pub fn path(path: &'static str) -> Call {
        Call { path: path.into(), query: Vec::new() }
    }

    pub fn with(mut self, name: &'static str, value: Option<impl ToString>) -> Call {
        self.query.extend(value.map(|value| (name, value.to_string())));
        self
    }

    /// Asks for a dry run, or not.
    pub fn dry_run(self, dry: bool) -> Call {
        self.with("dryRun", dry.then_some(true))
    }

    fn url(&self, server: &str) -> String {
        let pairs: Vec<String> =
            self.query.iter().map(|(name, value)| format!("{name}={}", percent_encode(value))).collect();
        let mark = if pairs.is_empty() { "" } else { "?" };
        format!("{server}{}{mark}{}", self.path, pairs.join("&"))
    }
}

impl Api {
    pub fn new(choice: &Choice) -> Result<Api, Failure> {
        Api::to(Target::find(choice)?)
    }

    /// Without a context or a token of this computer.
    pub fn without_token(server: &str, trust: &Trust) -> Result<Api, Failure> {
        let (server, trust) = (server.to_owned(), trust.clone());
        Api::to(Target { server, trust, token: None, token_source: TokenSource::Nowhere })
    }

    pub fn with_token(server: &str, trust: &Trust, token: &str) -> Result<Api, Failure> {
        let (server, trust, token) = (server.to_owned(), trust.clone(), Some(token.to_owned()));
        let target = Target { server, trust, token, token_source: TokenSource::Typed };
        target.check_privacy()?;
        Api::to(target)
    }

    fn to(target: Target) -> Result<Api, Failure> {
        let Target { server, trust, token, token_source } = target;
        Ok(Api { agent: agent(&trust)?, server, token, token_source })
    }

    /// Whether the certificate of the server is trusted. Other errors are errors.
    pub fn is_trusted(&self) -> Result<bool, Failure> {
        match self.agent.get(format!("{}/healthz", self.server)).call() {
            Ok(_) => Ok(true),
            Err(error) if certificate_error(&error).is_some() => Ok(false),
            Err(error) => Err(self.unreachable(&error)),
        }
    }

    /// The server's URL.
    pub fn server(&self) -> &str {
        &self.server
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
            .uri(format!("{}/common/oauth2/v2.0/token", self.server))
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

    fn run(&self, method: &Method, call: &Call, body: Option<&Value>) -> Result<Response<Body>, Failure> {
        let mut request = Request::builder().method(method).uri(call.url(&self.server));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let answer = match body {
            Some(body) => {
                let request = request.header("Content-Type", "application/json").body(body.to_string());
                self.agent.run(request.map_err(|error| self.bad_request(&error))?)
            }
            None => self.agent.run(request.body(()).map_err(|error| self.bad_request(&error))?),
        };
        answer.map_err(|error| self.unreachable(&error))
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
                let message = wording::cli_message(&error.message);
                let question =
                    suggest::did_you_mean(self, path, &error).map_or(String::new(), |text| format!(" {text}"));
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
                    self.server, self.server
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
            self.server
        )
    }

    fn unreachable(&self, error: &ureq::Error) -> Failure {
        if let Some(reason) = certificate_error(error) {
            return Failure::Unreachable(format!(
                "the certificate of {} is not trusted: {reason}; to trust it, run: forewarn login {}",
                self.server, self.server
            ));
        }
        Failure::Unreachable(format!(
            "cannot reach the server at {}: {}; start one with `forewarn serve`, or set --server or FOREWARN_SERVER",
            self.server,
            describe_error(error)
        ))
    }

    fn bad_request(&self, error: &ureq::http::Error) -> Failure {
        Failure::Usage(format!("cannot build a request for {}: {error}; check --server and the token", self.server))
    }

    fn unexpected_answer(&self, what: &str) -> Failure {
        Failure::Refused(format!(
            "unexpected answer from {}: {what}; check that --server is the management address of a forewarn server",
            self.server
        ))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_in_paths() {
        let call =
            Call::api(&["machines", "../a b/ü", "restart"]).with("eventId", Some("x&y")).with("group", None::<&str>);
        assert_eq!(call.url("http://s"), "http://s/api/v1/machines/..%2Fa%20b%2F%C3%BC/restart?eventId=x%26y");
    }
}
