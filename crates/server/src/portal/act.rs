//! What is done from a page: each button is one request of the native API, sent in the visitor's name. A refusal is
//! shown above the page that it came from, with the API's own sentence.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::Method;
use serde_json::{Value, json};

use super::page;
use super::visitor::Form;
use crate::api::{Refused, Service};
use crate::span::span;

/// A request of the API.
struct Request {
    method: Method,
    path: String,
    body: Option<Value>,
}

pub async fn act(State(service): State<Service>, form: Form) -> Response {
    let back = back(form.text("back"));
    let done = match request(&form) {
        Ok(Request { method, path, body }) => service.call(form.visitor.principal(), method, &path, body).await,
        Err(message) => Err(Refused::form(message)),
    };
    match done {
        Ok(answer) => Redirect::to(&after(&answer, &back)).into_response(),
        Err(refused) => page::at(&service, &form.visitor, &back, Some(&refused)).await,
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

fn request(form: &Form) -> Result<Request, String> {
    let target = segment(form.text("target"));
    let post = |path: String, body: Value| Ok(Request { method: Method::POST, path, body: Some(body) });
    let delete = |path: String| Ok(Request { method: Method::DELETE, path, body: None });
    let patch = |path: String, body: Value| Ok(Request { method: Method::PATCH, path, body: Some(body) });
    match form.text("act") {
        action @ ("restart" | "redeploy" | "perform-maintenance" | "evict" | "start" | "stop" | "deallocate") => {
            post(format!("/machines/{target}/{action}"), json!({}))
        }
        "delete-machine" => delete(format!("/machines/{target}")),
        action @ ("approve" | "cancel") => post(format!("/events/{target}/{action}"), json!({})),
        "cancel-operation" => post(format!("/operations/{target}/cancel"), json!({})),
        "delete-set" => delete(format!("/scale-sets/{target}")),
        "upgrade" => post(format!("/scale-sets/{target}/upgrade"), json!({})),
        "scale" => {
            let capacity = number(form.text("capacity"), "Instances")?;
            patch(format!("/scale-sets/{target}"), json!({ "capacity": capacity }))
        }
        "notify" => {
            patch(format!("/scale-sets/{target}"), json!({ "model": { "terminateNotification": notification(form)? } }))
        }
        "run" => post("/scenario-runs".into(), json!({ "scenario": form.text("target") })),
        "stop-run" => delete(format!("/scenario-runs/{target}")),
        "clear-fault" => delete(format!("/faults/{target}")),
        "fault" => post("/faults".into(), fault(form)?),
        "advance" => {
            let by = span(form.text("by")).map_err(|must| format!("The time to advance must be {must}."))?;
            post("/clock/advance".into(), json!({ "seconds": by.as_secs() }))
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

fn fault(form: &Form) -> Result<Value, String> {
    let kind = match form.text("kind") {
        status if status.parse::<u16>().is_ok() => {
            json!({ "kind": "Status", "status": status.parse::<u16>().unwrap_or(500) })
        }
        "Delay" => json!({ "kind": "Delay", "delaySeconds": 5 }),
        other => json!({ "kind": other }),
    };
    let mut fault = json!({ "fault": kind, "count": number(form.text("count"), "Requests")? });
    if !form.text("machine").is_empty() {
        fault["machine"] = json!(form.text("machine"));
    }
    Ok(fault)
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
