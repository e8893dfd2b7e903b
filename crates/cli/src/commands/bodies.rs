//! Request bodies from options. Options that are not given are omitted. The server checks names and other texts.

use std::collections::BTreeMap;

use forewarn_api_types::{
    Address, Details, EventId, Ip, Nullable, Policy, ResourceName, Tags, TerminateNotification, Text,
};
use forewarn_config::parse::Image;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::args::{DetailArgs, PolicyArgs, TerminateChange};
use crate::failure::Failure;

/// Reads a value that the API writes as a string, such as an ID or an address.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    T::deserialize(Value::from(text)).map_err(|error| Failure::Refused(format!("{error}.")))
}

pub fn event_id(given: Option<&String>) -> Result<Option<EventId>, Failure> {
    given.map(|text| read(text)).transpose()
}

pub fn name(text: &str) -> ResourceName {
    ResourceName(text.to_owned())
}

/// Refuses a change without any option.
pub fn require_change<T: Default + PartialEq>(body: T, command: &str) -> Result<T, Failure> {
    if body == T::default() {
        let what = format!("nothing to change: see `forewarn {command} --help` for the options");
        return Err(Failure::Usage(what));
    }
    Ok(body)
}

/// `""` on the command line removes a value.
pub fn name_or_null(text: Option<&String>) -> Nullable<ResourceName> {
    match text.map(String::as_str) {
        None => Nullable::Absent,
        Some("") => Nullable::Null,
        Some(text) => Nullable::Value(name(text)),
    }
}

/// `10.0.0.4`, or `tenant-a=10.0.0.4`.
pub fn addresses(given: &[String], none: bool) -> Result<Option<Vec<Address>>, Failure> {
    let address = |text: &String| match text.split_once('=') {
        Some((network, ip)) => Ok(Address { network: name(network), ip: read::<Ip>(ip)? }),
        None => Ok(Address::new(read(text)?)),
    };
    if given.is_empty() && !none { Ok(None) } else { given.iter().map(address).collect::<Result<_, _>>().map(Some) }
}

pub fn terminate_notification(timeout: &str) -> TerminateNotification {
    TerminateNotification { not_before_timeout: timeout.to_owned() }
}

/// Absent keeps the notification, null removes it.
pub fn terminate_change(change: &TerminateChange) -> Result<Nullable<TerminateNotification>, Failure> {
    match (change.enable_terminate_notification, change.terminate_notification_time.as_deref()) {
        (Some(false), Some(_)) => Err(Failure::Usage(
            "--enable-terminate-notification false conflicts with --terminate-notification-time: remove one of them"
                .into(),
        )),
        (Some(false), None) => Ok(Nullable::Null),
        (Some(true) | None, Some(timeout)) => Ok(Nullable::Value(terminate_notification(timeout))),
        (Some(true), None) => Ok(Nullable::Value(TerminateNotification::default())),
        (None, None) => Ok(Nullable::Absent),
    }
}

pub fn policy(args: &PolicyArgs) -> Option<Policy> {
    let given = [args.approve_user_reboot, args.approve_user_redeploy, args.approve_all_instances_down];
    let default = Policy::default();
    given.iter().any(Option::is_some).then(|| Policy {
        approve_user_reboot: args.approve_user_reboot.unwrap_or(default.approve_user_reboot),
        approve_user_redeploy: args.approve_user_redeploy.unwrap_or(default.approve_user_redeploy),
        approve_all_instances_down: args.approve_all_instances_down.unwrap_or(default.approve_all_instances_down),
    })
}

pub fn details(args: &DetailArgs) -> Details {
    let text = |text: &Option<String>| text.clone().map(Text);
    let part = |index: usize| args.image.as_ref().map(|Image(parts)| Text(parts[index].clone()));
    Details {
        location: text(&args.location),
        size: text(&args.size),
        os_type: text(&args.os_type),
        computer_name: text(&args.computer_name),
        publisher: part(0),
        offer: part(1),
        sku: part(2),
        image_version: part(3),
        mac: text(&args.mac),
    }
}

/// Details for a change; none if no option is given.
pub fn changed_details(args: &DetailArgs) -> Option<Details> {
    Some(details(args)).filter(|details| !details.is_empty())
}

pub fn tags(args: &DetailArgs) -> Result<Tags, Failure> {
    let pair = |text: &String| {
        let (name, value) = text.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    let pairs: Option<BTreeMap<String, String>> = args.tag.iter().chain(&args.tags).map(pair).collect();
    pairs.map(Tags).ok_or_else(|| Failure::Usage("invalid tag: use NAME=VALUE".into()))
}

/// Tags for a change; none if no option is given.
pub fn changed_tags(args: &DetailArgs) -> Result<Option<Tags>, Failure> {
    Ok(Some(tags(args)?).filter(|tags| !tags.is_empty()))
}
