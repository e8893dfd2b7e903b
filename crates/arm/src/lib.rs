//! The management API in the shape of Azure Resource Manager, for the tools and libraries that already speak it.
//!
//! ```text
//!  request ─▶ call (path, query, body) ─▶ routes (the table) ─▶ one module per resource type
//!                                                                │ bodies ⇄ commands and attachments
//!                           region and attachments ◀── render ───┤
//!                           Engine::submit_all ◀───── write ─────┘
//! ```
//!
//! The body of a resource is stored as an attachment of the machine or group that it describes, or of the region if it
//! describes neither (resource groups, network resources, deployments). Everything that the rules know is shown as the
//! region has it, never from the stored body, so machines and groups that were created through another API appear here
//! too. This crate makes no decisions: the rules are in `core`, and `forewarn_api::error` maps each rejection to a status.
//!
//! Modules depend on each other in one direction: shared helpers (`call`, `fields`, `resource`, `page`, `operations`,
//! `write`, `render`), then the resource types, then `routes`.

mod acknowledge;
mod actions;
mod apply_updates;
mod assignments;
mod availability_sets;
mod call;
pub mod catalog;
mod deployments;
mod fields;
mod group_records;
mod groups;
mod instances;
mod locks;
mod lookups;
mod machines;
mod maintenance;
mod network;
mod operations;
mod page;
mod profile;
mod render;
mod resource;
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
use forewarn_api::{Actions, Service, not_found};
use locks::Locks;
pub use render::machine_properties;
pub use routes::shapes;

/// The document of image aliases. Clients request it before they have a token.
const ALIASES_PATH: &str = "/aliases.json";

/// Adds the ARM paths to a router. They are its fallback, because they are matched by a table of their own, without
/// regard to case.
pub fn mount(router: Router<Service>) -> Router<Service> {
    let locks = Arc::new(Locks::default());
    let answer = move |actions: Actions, request: Request| answer(actions, locks.clone(), request);
    router.route(ALIASES_PATH, get(get_image_aliases)).fallback(answer)
}

async fn get_image_aliases() -> Response {
    axum::Json(catalog::image_aliases()).into_response()
}

async fn answer(actions: Actions, locks: Arc<Locks>, request: Request) -> Response {
    let path = request.uri().path();
    if !is_arm_path(path) {
        return not_found(path).into_response();
    }
    routes::handle_request(actions, locks, request).await
}
