//! Request bodies. Options that are not given are omitted.

use serde_json::{Map, Value, json};

use crate::args::{DetailArgs, PolicyArgs, TerminateChange};
use crate::failure::Failure;
use crate::parse::Image;

pub fn object(fields: &[(&str, Value)]) -> Value {
    let given = fields.iter().filter(|(_, value)| !value.is_null());
    Value::Object(given.map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

/// Refuses a change without any option.
pub fn require_change(body: Value, command: &str) -> Result<Value, Failure> {
    if body.as_object().is_some_and(Map::is_empty) {
        let what = format!("nothing to change: see `forewarn {command} --help` for the options");
        return Err(Failure::Usage(what));
    }
    Ok(body)
}

/// `""` on the command line removes a value.
pub fn text_or_null(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { json!(text) }
}

/// `10.0.0.4`, or `tenant-a=10.0.0.4`.
pub fn addresses(given: &[String], none: bool) -> Value {
    let address = |text: &String| match text.split_once('=') {
        Some((network, ip)) => json!({ "network": network, "ip": ip }),
        None => json!({ "ip": text }),
    };
    if given.is_empty() && !none { Value::Null } else { given.iter().map(address).collect() }
}

pub fn terminate_notification(timeout: &str) -> Value {
    json!({ "notBeforeTimeout": timeout })
}

/// None keeps the notification, `null` removes it.
pub fn terminate_change(change: &TerminateChange) -> Result<Option<Value>, Failure> {
    match (change.enable_terminate_notification, change.terminate_notification_time.as_deref()) {
        (Some(false), Some(_)) => Err(Failure::Usage(
            "--enable-terminate-notification false conflicts with --terminate-notification-time: remove one of them"
                .into(),
        )),
        (Some(false), None) => Ok(Some(Value::Null)),
        (Some(true) | None, Some(timeout)) => Ok(Some(terminate_notification(timeout))),
        (Some(true), None) => Ok(Some(json!({}))),
        (None, None) => Ok(None),
    }
}

pub fn policy(args: &PolicyArgs) -> Value {
    null_if_empty(object(&[
        ("approveUserReboot", json!(args.approve_user_reboot)),
        ("approveUserRedeploy", json!(args.approve_user_redeploy)),
        ("approveAllInstancesDown", json!(args.approve_all_instances_down)),
    ]))
}

pub fn details(args: &DetailArgs) -> Value {
    let part = |index: usize| json!(args.image.as_ref().map(|Image(parts)| &parts[index]));
    null_if_empty(object(&[
        ("location", json!(args.location)),
        ("size", json!(args.size)),
        ("osType", json!(args.os_type)),
        ("computerName", json!(args.computer_name)),
        ("publisher", part(0)),
        ("offer", part(1)),
        ("sku", part(2)),
        ("imageVersion", part(3)),
    ]))
}

pub fn tags(args: &DetailArgs) -> Result<Value, Failure> {
    let pair = |text: &String| {
        let (name, value) = text.split_once('=')?;
        Some((name.to_owned(), json!(value)))
    };
    let pairs: Option<Map<String, Value>> = args.tag.iter().chain(&args.tags).map(pair).collect();
    pairs
        .map(|pairs| null_if_empty(Value::Object(pairs)))
        .ok_or_else(|| Failure::Usage("invalid tag: use NAME=VALUE".into()))
}

fn null_if_empty(value: Value) -> Value {
    if value.as_object().is_some_and(Map::is_empty) { Value::Null } else { value }
}
