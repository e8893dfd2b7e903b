//! The properties that the rules know, read from bodies and rendered into them: priority, terminate notification, policy,
//! details.

use std::sync::Arc;
use std::time::Duration;

use forewarn_core::{
    Details, EventsPolicy, EvictionPolicy, Machine, Orchestration, Power, Priority, Rejection, SetModel,
    TerminateProfile, UpgradeMode,
};
use forewarn_wire::duration;
use serde_json::{Value, json};

use super::fields::{self, at, invalid, read_bool, read_keyword, read_text};
use forewarn_api::error::{ApiError, ErrorCode};

/// The first api-version with terminate notification.
const TERMINATE_SINCE: &str = "2019-03-01";

const TERMINATE_DEFAULT: &str = "PT5M";

/// The only notice that Azure accepts for OS image upgrades.
const OS_IMAGE_NOTICE: &str = "PT15M";

pub const PRIORITIES: &[(&str, Priority)] =
    &[("Regular", Priority::Regular), ("Spot", Priority::Spot), ("Low", Priority::Spot)];

pub const EVICTIONS: &[(&str, EvictionPolicy)] =
    &[("Deallocate", EvictionPolicy::Deallocate), ("Delete", EvictionPolicy::Delete)];

pub const UPGRADES: &[(&str, UpgradeMode)] =
    &[("Automatic", UpgradeMode::Automatic), ("Manual", UpgradeMode::Manual), ("Rolling", UpgradeMode::Rolling)];

pub const ORCHESTRATIONS: &[(&str, Orchestration)] =
    &[("Uniform", Orchestration::Uniform), ("Flexible", Orchestration::Flexible)];

/// The first name of a value.
pub fn name_of<T: Copy + PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, other)| *other == value).map_or("", |(name, _)| name)
}

/// The code and display text of the power state of a machine.
pub fn power_status(machine: &Machine) -> (&'static str, &'static str) {
    match machine.pending_power().map(|change| change.to) {
        Some(Power::Running) => ("PowerState/starting", "VM starting"),
        Some(Power::Stopped) => ("PowerState/stopping", "VM stopping"),
        Some(Power::Deallocated) => ("PowerState/deallocating", "VM deallocating"),
        None => match machine.power {
            Power::Running => ("PowerState/running", "VM running"),
            Power::Stopped => ("PowerState/stopped", "VM stopped"),
            Power::Deallocated => ("PowerState/deallocated", "VM deallocated"),
        },
    }
}

/// Refuses `scheduledEventsProfile` in api-versions that did not have it.
pub fn check_version(version: &str, profile: Option<&Value>, object: &str) -> Result<(), ApiError> {
    let given = profile.is_some_and(|profile| profile.get("scheduledEventsProfile").is_some());
    if given && version.get(..TERMINATE_SINCE.len()).is_some_and(|version| version < TERMINATE_SINCE) {
        let message = format!("Could not find member 'scheduledEventsProfile' on object of type '{object}'");
        return Err(ApiError::new(ErrorCode::UnknownMember, message).with_target("scheduledEventsProfile"));
    }
    Ok(())
}

/// Reads terminate notification from `profile`: the properties of a VM, or `virtualMachineProfile` of a set.
pub fn terminate(profile: &Value) -> Result<Option<Arc<TerminateProfile>>, ApiError> {
    check_os_image(profile)?;
    const PLACE: &str = "scheduledEventsProfile.terminateNotificationProfile";
    let timeout = read_text(profile, &format!("{PLACE}.notBeforeTimeout"))?;
    let enabled = read_bool(profile, &format!("{PLACE}.enable"))?.unwrap_or(false);
    let timeout = timeout.unwrap_or(TERMINATE_DEFAULT);
    let Ok(secs) = duration::parse_secs(timeout) else { return Err(Rejection::TerminateRange.into()) };
    let profile = TerminateProfile { timeout: Duration::from_secs(secs), text: timeout.into() };
    Ok(enabled.then(|| Arc::new(profile)))
}

fn check_os_image(profile: &Value) -> Result<(), ApiError> {
    const PLACE: &str = "scheduledEventsProfile.osImageNotificationProfile.notBeforeTimeout";
    match read_text(profile, PLACE)? {
        Some(timeout) if duration::parse_secs(timeout) != duration::parse_secs(OS_IMAGE_NOTICE) => {
            Err(invalid(PLACE, format!("must be {OS_IMAGE_NOTICE}")))
        }
        Some(_) | None => Ok(()),
    }
}

/// Renders the terminate notification that is in effect, and nothing if it is off.
pub fn render_terminate(profile: &mut Value, applied: Option<&TerminateProfile>) {
    const PLACE: &str = "scheduledEventsProfile.terminateNotificationProfile";
    match applied {
        Some(applied) => {
            fields::put(profile, PLACE, json!({ "enable": true, "notBeforeTimeout": &*applied.text }));
        }
        None => fields::remove(profile, PLACE),
    }
    let is_empty = at(profile, "scheduledEventsProfile").and_then(Value::as_object).is_some_and(|it| it.is_empty());
    if is_empty {
        fields::remove(profile, "scheduledEventsProfile");
    }
}

/// Reads `scheduledEventsPolicy`, if present.
pub fn policy(properties: &Value) -> Result<Option<EventsPolicy>, ApiError> {
    let Some(given) = at(properties, "scheduledEventsPolicy") else { return Ok(None) };
    let default = EventsPolicy::default();
    let approves = |key: &str, default: bool| {
        let place = format!("{key}.automaticallyApprove");
        read_bool(given, &place).map(|given| given.unwrap_or(default))
    };
    Ok(Some(EventsPolicy {
        approve_user_reboot: approves("userInitiatedReboot", default.approve_user_reboot)?,
        approve_user_redeploy: approves("userInitiatedRedeploy", default.approve_user_redeploy)?,
        approve_all_instances_down: approves("allInstancesDown", default.approve_all_instances_down)?,
    }))
}

/// Renders the policy. The default policy is omitted unless the body contains one.
pub fn render_policy(properties: &mut Value, policy: &EventsPolicy) {
    if *policy == EventsPolicy::default() && at(properties, "scheduledEventsPolicy").is_none() {
        return;
    }
    for (key, approves) in [
        ("userInitiatedReboot", policy.approve_user_reboot),
        ("userInitiatedRedeploy", policy.approve_user_redeploy),
        ("allInstancesDown", policy.approve_all_instances_down),
    ] {
        fields::put(properties, &format!("scheduledEventsPolicy.{key}.automaticallyApprove"), approves);
    }
}

/// Reads the details for instance metadata from the body, its `profile` and the size; missing ones keep their value.
pub fn details(body: &Value, profile: &Value, size: Option<&str>, before: &Details) -> Result<Details, ApiError> {
    let mut details = before.clone();
    let image = "storageProfile.imageReference";
    let os_type = match (at(profile, "osProfile.windowsConfiguration"), at(profile, "osProfile.linuxConfiguration")) {
        (Some(_), _) => Some("Windows"),
        (None, Some(_)) => Some("Linux"),
        (None, None) => read_text(profile, "storageProfile.osDisk.osType")?,
    };
    let shared = Arc::make_mut(&mut details.shared);
    for (given, current) in [
        (read_text(body, "location")?, &mut shared.location),
        (size, &mut shared.size),
        (os_type, &mut shared.os_type),
        (read_text(profile, "osProfile.computerName")?, &mut details.computer_name),
        (read_text(profile, &format!("{image}.publisher"))?, &mut shared.publisher),
        (read_text(profile, &format!("{image}.offer"))?, &mut shared.offer),
        (read_text(profile, &format!("{image}.sku"))?, &mut shared.sku),
        (read_text(profile, &format!("{image}.version"))?, &mut shared.image_version),
    ] {
        if let Some(given) = given {
            *current = given.into();
        }
    }
    if let Some(tags) = fields::read_tags(body)? {
        shared.tags = tags.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
    }
    Ok(details)
}

/// Reads the model for new instances from the body of a scale set.
pub fn model(body: &Value, before: &Details) -> Result<SetModel, ApiError> {
    let profile = at(body, "properties.virtualMachineProfile").cloned().unwrap_or_default();
    Ok(SetModel {
        priority: read_keyword(&profile, "priority", PRIORITIES)?.unwrap_or(Priority::Regular),
        eviction: read_keyword(&profile, "evictionPolicy", EVICTIONS)?.unwrap_or(EvictionPolicy::Deallocate),
        terminate: terminate(&profile)?,
        details: Arc::new(details(body, &profile, read_text(body, "sku.name")?, before)?),
    })
}
