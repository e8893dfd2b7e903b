//! Subscriptions and the tenant. A subscription exists as soon as it contains something.

use std::collections::BTreeSet;

use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::call::Call;
use super::{group_records, page};
use forewarn_api::SUBSCRIPTION_DEFAULT;
use forewarn_api::error::ApiError;

pub const DISPLAY_NAME: &str = "Forewarn";

pub async fn list(call: Call) -> Result<Response, ApiError> {
    let mut ids = BTreeSet::from([SUBSCRIPTION_DEFAULT.to_owned()]);
    ids.extend(group_records::read_subscriptions(&call.arm).await?);
    let region = &call.arm.snapshot().region;
    ids.extend(region.groups().map(|group| group.home.subscription.as_str().to_ascii_lowercase()));
    Ok(page::respond(&call, ids.iter().map(|id| render(&call, id)).collect(), None))
}

pub async fn get(call: Call) -> Result<Response, ApiError> {
    Ok(axum::Json(render(&call, call.subscription())).into_response())
}

pub async fn tenants(call: Call) -> Result<Response, ApiError> {
    let id = call.arm.actions.tenant();
    let tenant = json!({ "id": format!("/tenants/{id}"), "tenantId": id, "displayName": DISPLAY_NAME });
    Ok(page::respond(&call, vec![tenant], None))
}

fn render(call: &Call, id: &str) -> Value {
    json!({
        "id": format!("/subscriptions/{id}"),
        "subscriptionId": id,
        "tenantId": call.arm.actions.tenant(),
        "displayName": DISPLAY_NAME,
        "state": "Enabled",
        "authorizationSource": "RoleBased",
        "managedByTenants": [],
    })
}
