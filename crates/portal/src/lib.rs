//! The portal: pages for people, rendered here and kept current by one stream. No framework, no build step; script
//! and style are some files that are in the program.
//!
//! ```text
//!  request ─▶ door (Host, Origin) ─▶ visitor (cookie) ─▶ Page ─▶ panels of fragments ─▶ HTML
//!                                        │                             └─▶ live: those that changed, of what
//!                                        │                                 the viewer looks at (view)
//!                                        └─▶ act (CSRF token) ─▶ the native API, in the visitor's name
//! ```
//!
//! It decides nothing and has no commands of its own: what is done here is a request of the native API. Nothing
//! about the fleet is shown to who is not signed in.

mod act;
mod action;
mod assets;
mod chunk;
mod confirm;
mod event;
mod field;
mod group;
mod history;
mod hosts;
mod live;
mod machine;
mod maintenance;
mod overview;
mod page;
mod plan;
mod policy;
mod preview;
mod scale_set;
mod scale_set_wizard;
mod scope;
mod selection;
mod shared;
mod sign_in;
mod test_kit;
mod timeline;
mod view;
mod visitor;
mod words;

use std::ops::Deref;
use std::sync::Arc;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::handler::Handler;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use http::{HeaderValue, Method, header};

use forewarn_api::{ApiError, Service, check_host_and_origin, is_api_path};
use shared::Shared;

/// The API, and what the portal's pages share.
#[derive(Clone)]
pub struct Portal {
    service: Service,
    shared: Arc<Shared>,
}

impl Portal {
    pub fn new(service: Service) -> Portal {
        Portal { service, shared: Arc::default() }
    }
}

/// Pages use the API like any other client of it.
impl Deref for Portal {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.service
    }
}

/// No script, style, picture or connection from anywhere else, and no frames. On every answer of the management
/// listener, so that no path is forgotten.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);

pub fn routes<S: Clone + Send + Sync + 'static>(portal: &Portal) -> Router<S> {
    let mut router = Router::new();
    for path in page::PATHS {
        router = router.route(path, get(page::show));
    }
    router
        .route("/portal/sign-in", get(sign_in::with_code).post(sign_in::at_once))
        .route("/portal", get(page::first))
        .route("/portal/session", get(sign_in::session))
        .route("/portal/sign-out", get(page::first).post(sign_in::out))
        .route("/portal/act", get(page::first).post(act::act))
        .route("/scale-sets/add", get(page::show).post(scale_set_wizard::submit))
        .route("/groups/{group}", get(page::show).post(scale_set::submit))
        .route("/portal/chosen", get(page::first).post(selection::submit))
        .route("/maintenance", get(page::show).post(maintenance::submit))
        .route("/hosts", get(page::show).post(hosts::submit))
        .route("/test-kit", get(page::show).post(test_kit::submit))
        .route("/portal/live", get(live::stream))
        .route("/portal/look", post(view::look))
        .route("/portal/assets/{file}", get(assets::get))
        .layer(middleware::from_fn_with_state(portal.clone(), door))
        .with_state(portal.clone())
}

pub async fn with_policy(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Not "no-referrer": with that browsers send forms of ours with `Origin: null`, which the door refuses.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    answer
}

/// Where nothing is, browsers get a page: that there is nothing, or the one to sign in with. Programs get the API's words.
pub async fn or_page(State(portal): State<Portal>, request: Request, next: Next) -> Result<Response, ApiError> {
    if !is_lost(&request) {
        return Ok(next.run(request).await);
    }
    check_host_and_origin(&request, portal.addresses())?;
    Ok(Handler::call(page::show, request, portal).await)
}

fn is_lost(request: &Request) -> bool {
    let path = request.uri().path();
    let is_known = request.extensions().get::<MatchedPath>().is_some() || is_api_path(path);
    let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let is_browser = accept.is_some_and(|accept| accept.contains("text/html"));
    is_browser && !is_known && matches!(*request.method(), Method::GET | Method::HEAD)
}

async fn door(State(portal): State<Portal>, request: Request, next: Next) -> Result<Response, ApiError> {
    check_host_and_origin(&request, portal.addresses())?;
    Ok(next.run(request).await)
}
