//! Client for the management API. A refused request fails the test.

use forewarn_api_types::{ErrorBody, PREFIX};
use forewarn_client::{Document, Version};
use serde::Serialize;
use serde::de::DeserializeOwned;
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
    pub fn get<T: DeserializeOwned>(&self, path: &[&str]) -> T {
        decode("GET", path, &expect_success("GET", path, self.send_get(path)))
    }

    /// Returns `None` if the resource does not exist.
    #[track_caller]
    pub fn find<T: DeserializeOwned>(&self, path: &[&str]) -> Option<T> {
        let (status, body) = self.send_get(path);
        (status != StatusCode::NOT_FOUND).then(|| decode("GET", path, &expect_success("GET", path, (status, body))))
    }

    #[track_caller]
    pub fn post<T: DeserializeOwned>(&self, path: &[&str], body: &impl Serialize) -> T {
        let request = self.agent.post(self.url(path)).header("Content-Type", "application/json");
        decode("POST", path, &expect_success("POST", path, read_response(request.send(encode(body)))))
    }

    #[track_caller]
    pub fn patch<T: DeserializeOwned>(&self, path: &[&str], body: &impl Serialize) -> T {
        let request = self.agent.patch(self.url(path)).header("Content-Type", "application/json");
        decode("PATCH", path, &expect_success("PATCH", path, read_response(request.send(encode(body)))))
    }

    #[track_caller]
    pub fn delete<T: DeserializeOwned>(&self, path: &[&str]) -> T {
        decode("DELETE", path, &expect_success("DELETE", path, read_response(self.agent.delete(self.url(path)).call())))
    }

    /// Fetches the document from a machine's metadata endpoint.
    #[track_caller]
    pub fn document(&self, endpoint: &str) -> Document {
        let version = Version::V2020_07_01;
        let url = format!("{endpoint}/metadata/scheduledevents?api-version={version}");
        let response = read_response(self.agent.get(url).header("Metadata", "true").call());
        let body = expect_success("GET", &["document"], response);
        Document::parse(version, body.as_bytes()).unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    #[track_caller]
    fn send_get(&self, path: &[&str]) -> (StatusCode, String) {
        read_response(self.agent.get(self.url(path)).call())
    }

    /// Names need no percent-encoding, because the server accepts only safe characters.
    fn url(&self, path: &[&str]) -> String {
        format!("{}{PREFIX}/{}", self.server, path.join("/"))
    }
}

fn encode(body: &impl Serialize) -> String {
    serde_json::to_string(body).expect("bodies consist of strings, numbers and lists")
}

#[track_caller]
fn decode<T: DeserializeOwned>(method: &str, path: &[&str], body: &str) -> T {
    serde_json::from_str(body)
        .unwrap_or_else(|error| panic!("{method} {}: unexpected response: {error}: {body}", path.join("/")))
}

#[track_caller]
fn read_response(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> (StatusCode, String) {
    let mut response = response.unwrap_or_else(|error| panic!("the test server does not respond: {error}"));
    let status = response.status();
    (status, response.body_mut().read_to_string().unwrap_or_default())
}

#[track_caller]
fn expect_success(method: &str, path: &[&str], (status, body): (StatusCode, String)) -> String {
    if status.is_success() {
        return body;
    }
    // The metadata endpoint has errors of another shape, which are shown as they are.
    let message = serde_json::from_str::<ErrorBody>(&body).map_or(body, |body| body.error.message);
    panic!("{method} {}: {status}: {message}", path.join("/"))
}
