//! Client for the management API. A refused request fails the test.

use forewarn_client::{Document, Version};
use serde_json::Value;
use ureq::Agent;
use ureq::http::StatusCode;

pub struct Api {
    agent: Agent,
    pub server: String,
}

impl Api {
    pub fn new(server: String) -> Api {
        let config = Agent::config_builder().http_status_as_error(false).proxy(None).max_redirects(0);
        Api { agent: config.build().new_agent(), server }
    }

    #[track_caller]
    pub fn get(&self, path: &[&str]) -> Value {
        expect_success("GET", path, self.send_get(path))
    }

    /// Returns `None` if the resource does not exist.
    #[track_caller]
    pub fn find(&self, path: &[&str]) -> Option<Value> {
        let (status, body) = self.send_get(path);
        (status != StatusCode::NOT_FOUND).then(|| expect_success("GET", path, (status, body)))
    }

    #[track_caller]
    pub fn post(&self, path: &[&str], body: &Value) -> Value {
        let request = self.agent.post(self.url(path)).header("Content-Type", "application/json");
        expect_success("POST", path, read_response(request.send(body.to_string())))
    }

    #[track_caller]
    pub fn patch(&self, path: &[&str], body: &Value) -> Value {
        let request = self.agent.patch(self.url(path)).header("Content-Type", "application/json");
        expect_success("PATCH", path, read_response(request.send(body.to_string())))
    }

    #[track_caller]
    pub fn delete(&self, path: &[&str]) -> Value {
        expect_success("DELETE", path, read_response(self.agent.delete(self.url(path)).call()))
    }

    /// Fetches the document from a machine's metadata endpoint.
    #[track_caller]
    pub fn document(&self, endpoint: &str) -> Document {
        let version = Version::V2020_07_01;
        let url = format!("{endpoint}/metadata/scheduledevents?api-version={version}");
        let response = read_response(self.agent.get(url).header("Metadata", "true").call());
        let body = expect_success("GET", &["document"], response).to_string();
        Document::parse(version, body.as_bytes()).unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    #[track_caller]
    fn send_get(&self, path: &[&str]) -> (StatusCode, Value) {
        read_response(self.agent.get(self.url(path)).call())
    }

    /// Names need no percent-encoding, because the server accepts only safe characters.
    fn url(&self, path: &[&str]) -> String {
        format!("{}/api/v1/{}", self.server, path.join("/"))
    }
}

#[track_caller]
fn read_response(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> (StatusCode, Value) {
    let mut response = response.unwrap_or_else(|error| panic!("the test server does not respond: {error}"));
    let status = response.status();
    let text = response.body_mut().read_to_string().unwrap_or_default();
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

#[track_caller]
fn expect_success(method: &str, path: &[&str], (status, body): (StatusCode, Value)) -> Value {
    if status.is_success() {
        return body;
    }
    let message = body["error"]["message"].as_str().or(body["error"].as_str()).unwrap_or("no reason given");
    panic!("{method} {}: {status}: {message}", path.join("/"))
}
