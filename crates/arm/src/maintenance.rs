//! Handlers of maintenance configurations: windows in which a user lets maintenance happen. They take effect through
//! `assignments` and `apply_updates`.

use axum::response::{IntoResponse, Response};
use forewarn_core::Timestamp;
use forewarn_store::{Attachment, Owner};
use forewarn_wire::arm::id::ResourceId;
use forewarn_wire::arm::maintenance::{LocalTime, Window, window};
use http::StatusCode;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::call::{Arm, Call};
use super::fields::{self, at, invalid, missing, read_text};
use super::page::{self, PageRequest};
use super::resource::{is_in_group, last_name, not_found};
use super::write::{WriteMode, WriteResult, merge_record, write_handlers};
use forewarn_api::Action;
use forewarn_api::error::{ApiError, ErrorCode};

/// Prefix of the attachments that hold configurations; the resource ID follows.
const RECORD: &str = "arm/maintenance";

/// Configurations of one resource group; each is read to find the next, so a page of the store must hold them.
const CONFIGURATIONS_MAX: usize = 200;

/// The only scope that means something here: maintenance of hosts.
const SCOPE: &str = "Host";

pub fn record_name(id: &ResourceId) -> String {
    format!("{RECORD}{}", id.key())
}

// As in Azure: some releases of the CLI extension accept no other status.
write_handlers!(new: OK);

pub async fn write(arm: &Arm, id: &ResourceId, given: &Value, mode: WriteMode) -> Result<WriteResult, ApiError> {
    let lock = arm.lock_for_write(id).await?;
    let merged = merge_record(arm, id, record_name(id), given, mode, check_new(arm, id, given)).await?;
    check(&merged.body)?;
    let attachment = Attachment::put(Owner::Region, record_name(id), merged.body.to_string());
    let permit = arm.actions.permit(Action::PutMaintenanceConfiguration)?;
    let note = permit.note(format!("{}/{}", lock.home.resource_group, last_name(id)));
    arm.actions.commit(Vec::new(), note, move |_| vec![attachment]).await?;
    Ok(WriteResult { is_new: merged.is_new, resource: render(merged.body), pending: None })
}

async fn check_new(arm: &Arm, id: &ResourceId, given: &Value) -> Result<(), ApiError> {
    read_text(given, "location")?.ok_or_else(|| missing("location"))?;
    let prefix = record_name(id);
    let group = prefix.rsplit_once('/').map_or(prefix.as_str(), |(group, _)| group);
    let count = arm.read_attachments_below(format!("{group}/"), None).await?.len();
    if count >= CONFIGURATIONS_MAX {
        let message = format!(
            "A resource group can have at most {CONFIGURATIONS_MAX} maintenance configurations. Delete one first."
        );
        return Err(ApiError::new(ErrorCode::QuotaExceeded, message));
    }
    Ok(())
}

fn check(body: &Value) -> Result<(), ApiError> {
    const PLACE: &str = "properties.maintenanceScope";
    let scope = read_text(body, PLACE)?.unwrap_or(SCOPE);
    if !scope.eq_ignore_ascii_case(SCOPE) {
        return Err(invalid(PLACE, format!("is '{scope}', but only {SCOPE} is supported")));
    }
    read_window(body).map(drop)
}

/// The window of a configuration; None if maintenance can happen at any time.
pub fn read_window(body: &Value) -> Result<Option<Window>, ApiError> {
    // Older api-versions have the members of the window in the properties themselves.
    let nested = at(body, "properties.maintenanceWindow");
    let flat = at(body, "properties").filter(|properties| properties.get("startDateTime").is_some());
    let Some(given) = nested.or(flat) else { return Ok(None) };
    let window = window(given);
    let window = window.map_err(|error| invalid(&format!("maintenanceWindow.{}", error.member), error.problem))?;
    find_zone(&window)?;
    Ok(Some(window))
}

/// The first and the last moment at which a window may open.
pub fn lifetime(window: &Window) -> Result<(Timestamp, Option<Timestamp>), ApiError> {
    let zone = find_zone(window)?;
    let convert = |at: LocalTime| {
        let numbers = i16::try_from(at.year).ok().zip(i8::try_from(at.month).ok()).zip(i8::try_from(at.day).ok());
        let ((year, month), day) = numbers?;
        let (hour, minute) = (i8::try_from(at.hour).ok()?, i8::try_from(at.minute).ok()?);
        let local = DateTime::new(year, month, day, hour, minute, 0, 0).ok()?;
        // In UTC, the last day of the year 9999 can end in the year 10000, which a timestamp cannot represent.
        let moment = zone.to_timestamp(local).unwrap_or(jiff::Timestamp::MAX);
        Some(Timestamp(moment.as_millisecond()))
    };
    let begins = convert(window.begins).unwrap_or(Timestamp(0));
    Ok((begins, window.expires.and_then(convert)))
}

fn find_zone(window: &Window) -> Result<TimeZone, ApiError> {
    if window.time_zone.eq_ignore_ascii_case("UTC") {
        return Ok(TimeZone::UTC);
    }
    TimeZone::get(&window.time_zone).map_err(|_| {
        let problem = format!(
            "is '{}', which is unknown: use a Windows name such as W. Europe Standard Time, or an IANA name such as Europe/Berlin",
            window.time_zone
        );
        invalid("maintenanceWindow.timeZone", problem)
    })
}

pub async fn find(arm: &Arm, id: &ResourceId) -> Result<Option<Value>, ApiError> {
    arm.read_attachment(Owner::Region, record_name(id)).await
}

pub async fn get(call: Call) -> Result<Response, ApiError> {
    let found = find(&call.arm, call.id()).await?.ok_or_else(|| not_found(call.id()))?;
    Ok(axum::Json(render(found)).into_response())
}

pub async fn list(call: Call) -> Result<Response, ApiError> {
    let request = PageRequest::of(&call)?;
    let prefix = match is_in_group(call.id()) {
        true => format!("{RECORD}{}/", call.path.to_string().to_ascii_lowercase()),
        false => format!("{RECORD}/subscriptions/{}/", call.subscription().to_ascii_lowercase()),
    };
    let mut found = call.arm.read_attachments_below(prefix, request.after.clone()).await?;
    let next = request.cut(&mut found, |(name, _)| name.clone());
    Ok(page::respond(&call, found.into_iter().map(|(_, body)| render(body)).collect(), next))
}

pub async fn delete(call: Call) -> Result<Response, ApiError> {
    let (arm, id) = (&call.arm, call.id());
    let _lock = arm.lock(id).await;
    let Some(found) = find(arm, id).await? else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    let note = arm.actions.permit(Action::DeleteMaintenanceConfiguration)?.note(last_name(id));
    let record = record_name(id);
    arm.actions.commit(Vec::new(), note, move |_| vec![Attachment::remove(Owner::Region, record)]).await?;
    // Clients read the deleted configuration from the response.
    Ok(axum::Json(render(found)).into_response())
}

fn render(mut body: Value) -> Value {
    let id = read_text(&body, "id").ok().flatten().and_then(|id| ResourceId::parse(id).ok());
    let Some(id) = id else { return body };
    fields::put(&mut body, "name", last_name(&id));
    fields::put(&mut body, "type", "Microsoft.Maintenance/maintenanceConfigurations");
    for (place, value) in
        [("maintenanceScope", SCOPE), ("visibility", "Custom"), ("namespace", "Microsoft.Maintenance")]
    {
        let place = format!("properties.{place}");
        if at(&body, &place).is_none() {
            fields::put(&mut body, &place, value);
        }
    }
    body
}
