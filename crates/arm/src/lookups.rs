//! What clients look up before they ask for anything, from the catalogue.

use std::collections::BTreeSet;

use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::call::Call;
use super::catalog::{self, ImagePath};
use super::resource_groups;
use forewarn_api::error::{ApiError, Refusal};
use forewarn_wire::arm::compute::LOCATION_DEFAULT;

pub async fn locations(call: Call) -> Result<Response, ApiError> {
    Ok(axum::Json(catalog::locations(call.subscription(), LOCATION_DEFAULT)).into_response())
}

pub async fn providers(call: Call) -> Result<Response, ApiError> {
    Ok(axum::Json(catalog::providers(call.subscription(), LOCATION_DEFAULT)).into_response())
}

pub async fn provider(call: Call) -> Result<Response, ApiError> {
    let namespace = namespace(&call);
    shown(&call, catalog::provider(call.subscription(), &namespace, LOCATION_DEFAULT))
}

/// What may be done, for lists of permissions.
pub async fn operations(call: Call) -> Result<Response, ApiError> {
    let namespace = namespace(&call);
    shown(&call, catalog::operations(&namespace))
}

fn namespace(call: &Call) -> String {
    call.id().provider.as_ref().map_or_else(String::new, |provider| provider.namespace.to_string())
}

/// Sizes; `$filter=location eq '…'` says where, else wherever somebody may want a machine.
pub async fn skus(call: Call) -> Result<Response, ApiError> {
    let asked = call.query("$filter").and_then(|filter| filter.split_once(" eq ")).map(|(_, location)| location);
    if let Some(location) = asked {
        return Ok(axum::Json(catalog::skus(&[location.trim_matches([' ', '\''])])).into_response());
    }
    let groups = resource_groups::records(&call.arm, call.id().subscription()).await?;
    let used = groups.iter().filter_map(|group| group["location"].as_str()).map(str::to_owned);
    let known = catalog::location_names().chain([LOCATION_DEFAULT]).map(str::to_owned);
    let all: BTreeSet<String> = used.chain(known).collect();
    Ok(axum::Json(catalog::skus(&all.iter().map(String::as_str).collect::<Vec<_>>())).into_response())
}

pub async fn image_versions(call: Call) -> Result<Response, ApiError> {
    Ok(axum::Json(catalog::image_versions(image(&call))).into_response())
}

pub async fn image_version(call: Call) -> Result<Response, ApiError> {
    shown(&call, catalog::image_version(image(&call), call.name(5)))
}

fn image(call: &Call) -> ImagePath<'_> {
    ImagePath {
        subscription: call.subscription(),
        location: call.name(0),
        publisher: call.name(1),
        offer: call.name(3),
        sku: call.name(4),
    }
}

fn shown(call: &Call, found: Option<Value>) -> Result<Response, ApiError> {
    let nothing = || {
        let path = call.path.to_string();
        ApiError::new(Refusal::ResourceNotFound, format!("There is nothing at '{path}'.")).about(path)
    };
    Ok(axum::Json(found.ok_or_else(nothing)?).into_response())
}
