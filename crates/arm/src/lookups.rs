//! Handlers of the lists that clients read before they create anything. The data is in `catalog`.

use std::collections::BTreeSet;

use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::call::Call;
use super::catalog::{self, ImagePath};
use super::group_records;
use forewarn_api::error::{ApiError, ErrorCode};
use forewarn_wire::arm::compute::LOCATION_DEFAULT;

pub async fn locations(call: Call) -> Result<Response, ApiError> {
    Ok(axum::Json(catalog::locations(call.subscription(), LOCATION_DEFAULT)).into_response())
}

pub async fn providers(call: Call) -> Result<Response, ApiError> {
    Ok(axum::Json(catalog::providers(call.subscription(), LOCATION_DEFAULT)).into_response())
}

pub async fn provider(call: Call) -> Result<Response, ApiError> {
    let namespace = namespace(&call);
    respond(&call, catalog::provider(call.subscription(), &namespace, LOCATION_DEFAULT))
}

/// Operations of a provider, for permission lists.
pub async fn operations(call: Call) -> Result<Response, ApiError> {
    let namespace = namespace(&call);
    respond(&call, catalog::operations(&namespace))
}

fn namespace(call: &Call) -> String {
    call.id().provider.as_ref().map_or_else(String::new, |provider| provider.namespace.to_string())
}

/// VM sizes in the location of `$filter=location eq '…'`, or in all known and used locations.
pub async fn skus(call: Call) -> Result<Response, ApiError> {
    let filter = call.query("$filter").and_then(|filter| filter.split_once(" eq ")).map(|(_, location)| location);
    if let Some(location) = filter {
        return Ok(axum::Json(catalog::skus(&[location.trim_matches([' ', '\''])])).into_response());
    }
    let groups = group_records::read_all(&call.arm, call.id().subscription()).await?;
    let used = groups.iter().filter_map(|group| group["location"].as_str()).map(str::to_owned);
    let known = catalog::location_names().chain([LOCATION_DEFAULT]).map(str::to_owned);
    let all: BTreeSet<String> = used.chain(known).collect();
    Ok(axum::Json(catalog::skus(&all.iter().map(String::as_str).collect::<Vec<_>>())).into_response())
}

/// VM sizes of a location, or those that a machine or a set can be resized to.
pub async fn vm_sizes(_: Call) -> Result<Response, ApiError> {
    Ok(axum::Json(catalog::vm_sizes()).into_response())
}

pub async fn image_versions(call: Call) -> Result<Response, ApiError> {
    Ok(axum::Json(catalog::image_versions(image(&call))).into_response())
}

pub async fn image_version(call: Call) -> Result<Response, ApiError> {
    respond(&call, catalog::image_version(image(&call), call.name(5)))
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

fn respond(call: &Call, found: Option<Value>) -> Result<Response, ApiError> {
    let missing = || {
        let path = call.path.to_string();
        ApiError::new(ErrorCode::ResourceNotFound, format!("Nothing was found at '{path}'.")).with_target(path)
    };
    Ok(axum::Json(found.ok_or_else(missing)?).into_response())
}
