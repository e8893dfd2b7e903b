//! The management API, for tests: what is refused fails the test.

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
        success("GET", path, self.ask(path))
    }

    /// None when there is no such thing.
    #[track_caller]
    pub fn find(&self, path: &[&str]) -> Option<Value> {
        let (status, body) = self.ask(path);
        (status != StatusCode::NOT_FOUND).then(|| success("GET", path, (status, body)))
    }

    #[track_caller]
    pub fn post(&self, path: &[&str], body: &Value) -> Value {
        let answer = self.agent.post(self.url(path)).header("Content-Type", "application/json").send(body.to_string());
        success("POST", path, read(answer))
    }

    #[track_caller]
    pub fn patch(&self, path: &[&str], body: &Value) -> Value {
        let answer = self.agent.patch(self.url(path)).header("Content-Type", "application/json").send(body.to_string());
        success("PATCH", path, read(answer))
    }

    #[track_caller]
    pub fn delete(&self, path: &[&str]) -> Value {
        success("DELETE", path, read(self.agent.delete(self.url(path)).call()))
    }

    /// What a machine gets from its own endpoint.
    #[track_caller]
    pub fn document(&self, endpoint: &str) -> Value {
        let url = format!("{endpoint}/metadata/scheduledevents?api-version=2020-07-01");
        success("GET", &["document"], read(self.agent.get(url).header("Metadata", "true").call()))
    }

    #[track_caller]
    fn ask(&self, path: &[&str]) -> (StatusCode, Value) {
        read(self.agent.get(self.url(path)).call())
    }

    /// Names have no letters that a path would need to hide: the server refuses them first.
    fn url(&self, path: &[&str]) -> String {
        format!("{}/api/v1/{}", self.server, path.join("/"))
    }
}

#[track_caller]
fn read(answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> (StatusCode, Value) {
    let mut answer = answer.unwrap_or_else(|error| panic!("the server of the test does not answer: {error}"));
    let status = answer.status();
    let text = answer.body_mut().read_to_string().unwrap_or_default();
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

#[track_caller]
fn success(method: &str, path: &[&str], (status, body): (StatusCode, Value)) -> Value {
    if status.is_success() {
        return body;
    }
    let message = body["error"]["message"].as_str().or(body["error"].as_str()).unwrap_or("no reason was given");
    panic!("{method} {}: {status}. {message}", path.join("/"))
}
