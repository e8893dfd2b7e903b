//! Subscriptions, the tenant and what clients ask about a place before they use it. A subscription exists as soon as
//! something is kept in it.

use std::collections::BTreeSet;

use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::call::Call;
use super::page;
use super::resource_groups;
use forewarn_api::SUBSCRIPTION_DEFAULT;
use forewarn_api::error::ApiError;

pub const DISPLAY_NAME: &str = "Forewarn";

pub async fn list(call: Call) -> Result<Response, ApiError> {
    let mut ids = BTreeSet::from([SUBSCRIPTION_DEFAULT.to_owned()]);
    ids.extend(resource_groups::subscriptions(&call.arm).await?);
    let region = &call.arm.snapshot().region;
    ids.extend(region.groups().map(|group| group.home.subscription.to_ascii_lowercase()));
    Ok(page::shown(&call, ids.iter().map(|id| shown(&call, id)).collect(), None))
}

pub async fn get(call: Call) -> Result<Response, ApiError> {
    Ok(axum::Json(shown(&call, call.subscription())).into_response())
}

pub async fn tenants(call: Call) -> Result<Response, ApiError> {
    let id = call.arm.api.tenant();
    let tenant = json!({ "id": format!("/tenants/{id}"), "tenantId": id, "displayName": DISPLAY_NAME });
    Ok(page::shown(&call, vec![tenant], None))
}

fn shown(call: &Call, id: &str) -> Value {
    json!({
        "id": format!("/subscriptions/{id}"),
        "subscriptionId": id,
        "tenantId": call.arm.api.tenant(),
        "displayName": DISPLAY_NAME,
        "state": "Enabled",
        "authorizationSource": "RoleBased",
        "managedByTenants": [],
    })
}
