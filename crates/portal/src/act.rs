//! What is done from a page: each button is one request of the native API, sent in the visitor's name. A refusal is
//! shown above the page that it came from, with the API's own sentence.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::Method;
use serde_json::{Value, json};

use super::Portal;
use super::visitor::{Form, Visitor};
use super::{group, page, test_kit};
use forewarn_api::{Refused, next_deadline};

/// A request of the API.
pub struct Request {
    method: Method,
    path: String,
    body: Option<Value>,
}

impl Request {
    pub fn post(path: impl Into<String>, body: Value) -> Request {
        Request { method: Method::POST, path: path.into(), body: Some(body) }
    }

    pub fn patch(path: impl Into<String>, body: Value) -> Request {
        Request { method: Method::PATCH, path: path.into(), body: Some(body) }
    }

    pub fn delete(path: impl Into<String>) -> Request {
        Request { method: Method::DELETE, path: path.into(), body: None }
    }

    /// Sends it in the visitor's name.
    pub async fn send(self, service: &Portal, visitor: &Visitor) -> Result<Value, Refused> {
        service.call(visitor.principal(), self.method, &self.path, self.body).await
    }
}

pub async fn act(State(service): State<Portal>, form: Form) -> Response {
    let back = back(form.text("back"));
    let done = match request(&service, &form) {
        Ok(request) => request.send(&service, &form.visitor).await,
        Err(message) => Err(Refused::form(message)),
    };
    match done {
        Ok(answer) => Redirect::to(&landing(form.text("act"), &answer, &back)).into_response(),
        Err(refused) => page::at(&service, &form.visitor, &back, Some(&refused)).await,
    }
}

/// Where one is then: at what was asked for one machine, else where the button was, if that is still there.
fn landing(act: &str, answer: &Value, back: &str) -> String {
    match act {
        "restart" | "redeploy" | "perform-maintenance" | "evict" | "delete-machine" | "fail" | "lose" => {
            after(answer, back)
        }
        "run" | "stop-run" => test_kit::at("runs"),
        "clear-fault" => test_kit::at("faults"),
        "advance-next" => test_kit::at("panel-clock-panel"),
        "delete-group" if answer["state"] != "Running" => "/".into(),
        _ => back.to_owned(),
    }
}

/// What came of it: its event, when there is one, else where the button was.
pub fn after(answer: &Value, back: &str) -> String {
    match answer["events"][0]["id"].as_str() {
        Some(id) => format!("/events/{id}"),
        None => back.to_owned(),
    }
}

/// Only to our own pages.
pub fn back(text: &str) -> String {
    let is_ours = text.starts_with('/') && !text.starts_with("//") && !text.contains('\\');
    if is_ours { text.to_owned() } else { "/".into() }
}

fn request(service: &Portal, form: &Form) -> Result<Request, String> {
    let target = segment(form.text("target"));
    let post = |path: String, body: Value| Ok(Request::post(path, body));
    let delete = |path: String| Ok(Request::delete(path));
    let patch = |path: String, body: Value| Ok(Request::patch(path, body));
    match form.text("act") {
        action @ ("restart" | "redeploy" | "perform-maintenance" | "evict" | "start" | "stop" | "deallocate") => {
            post(format!("/machines/{target}/{action}"), json!({}))
        }
        "fail" => post(format!("/machines/{target}/hardware-failure"), json!({ "type": "Reboot" })),
        "lose" => post(format!("/machines/{target}/hardware-failure"), json!({ "type": "Redeploy" })),
        "fail-host" => post(format!("/hosts/{target}/hardware-failure"), json!({ "type": "Reboot" })),
        "lose-host" => post(format!("/hosts/{target}/hardware-failure"), json!({ "type": "Redeploy" })),
        "remove-host" => delete(format!("/hosts/{target}")),
        "delete-machine" => delete(format!("/machines/{target}")),
        action @ ("approve" | "cancel") => post(format!("/events/{target}/{action}"), json!({})),
        "cancel-operation" => post(format!("/operations/{target}/cancel"), json!({})),
        "delete-group" => delete(format!("/{}/{target}", group::collection(form.text("kind"))?)),
        "policy" => {
            patch(format!("/{}/{target}", group::collection(form.text("kind"))?), json!({ "policy": policy(form) }))
        }
        "machine-policy" => patch(format!("/machines/{target}"), json!({ "policy": policy(form) })),
        "upgrade" => post(format!("/scale-sets/{target}/upgrade"), json!({})),
        "run" => post("/scenario-runs".into(), json!({ "scenario": form.text("target") })),
        "stop-run" => delete(format!("/scenario-runs/{target}")),
        "clear-fault" => delete(format!("/faults/{target}")),
        "advance-next" => {
            let engine = service.engine();
            let (now, snapshot) = (engine.now(), engine.snapshot());
            let next = next_deadline(&snapshot.region, engine.next_report());
            let (next, _) = next.ok_or("Nothing is going to happen by itself.")?;
            // Deadlines may lie between two seconds.
            let seconds = next.since(now).as_millis().div_ceil(1000) as u64;
            post("/clock/advance".into(), json!({ "seconds": seconds }))
        }
        other => Err(format!("Nothing is called '{other}'. Reload the page and try again.")),
    }
}

/// Null: off.
pub fn notification(form: &Form) -> Result<Value, String> {
    if form.text("notification") != "on" {
        return Ok(Value::Null);
    }
    let minutes = number(form.text("delay"), "Termination delay (minutes)")?;
    if !(5..=15).contains(&minutes) {
        return Err("Termination delay (minutes) must be a whole number from 5 to 15.".into());
    }
    Ok(json!({ "notBeforeTimeout": format!("PT{minutes}M") }))
}

/// What is not ticked is not sent.
fn policy(form: &Form) -> Value {
    json!({
        "approveUserReboot": form.is_ticked("reboot"),
        "approveUserRedeploy": form.is_ticked("redeploy"),
        "approveAllInstancesDown": form.is_ticked("down"),
    })
}

pub fn number(text: &str, label: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("{label} must be a whole number, and '{text}' is not one."))
}

/// A segment of a path.
pub fn segment(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    text.bytes().map(|byte| if plain(&byte) { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_away_from_our_pages() {
        for ours in ["/", "/machines/x?version=1"] {
            assert_eq!(back(ours), ours);
        }
        for other in ["", "//evil.example", "https://evil.example", "/\\evil.example", "javascript:x"] {
            assert_eq!(back(other), "/", "{other}");
        }
    }
}
