//! The management API in the shape of Azure Resource Manager, for the tools and libraries that speak it already.
//!
//! ```text
//!  request ─▶ call (path, query, body) ─▶ routes (the table) ─▶ one file per type of resource
//!                                                                 │ bodies ⇄ commands and attachments
//!                            region and attachments ◀── render ───┤
//!                            Engine::submit_all ◀── write ────────┘
//! ```
//!
//! A body lives as an attachment of the machine or group that it describes, or of the region when it describes neither
//! (resource groups, network resources, deployments). What the rules know is always shown as the region has it, never as the
//! body does, so that machines and groups made through any other door are seen here, too. It decides nothing: rules are the
//! core's, and a refusal becomes a status in `api::error`, the same as for the native API.

mod acknowledge;
mod actions;
mod availability_sets;
mod call;
pub mod catalog;
mod deployments;
mod fields;
mod groups;
mod instances;
mod locks;
mod lookups;
mod machines;
mod network;
mod operations;
mod page;
mod profile;
mod render;
mod resource_groups;
mod routes;
mod scale_sets;
mod scheduled_events;
mod subscriptions;
mod write;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use forewarn_access::is_arm_path;
use forewarn_api::{Api, Service, not_found};
use locks::Locks;
pub use routes::shapes;

/// Where clients find which image a short name stands for. They ask before they have a token.
const ALIASES_PATH: &str = "/aliases.json";

/// Adds ARM's paths to a router. They are its fallback, because they are matched by a table of their own, without regard to
/// case.
pub fn mount(router: Router<Service>) -> Router<Service> {
    let locks = Arc::new(Locks::default());
    let answer = move |api: Api, request: Request| answer(api, locks.clone(), request);
    router.route(ALIASES_PATH, get(image_aliases)).fallback(answer)
}

async fn image_aliases() -> Response {
    axum::Json(catalog::image_aliases()).into_response()
}

async fn answer(api: Api, locks: Arc<Locks>, request: Request) -> Response {
    let path = request.uri().path();
    if !is_arm_path(path) {
        return not_found(path).into_response();
    }
    call::answer(api, locks, request).await
}
