//! The web console. Pages are rendered on the server and kept current by one stream per page. There is no framework and no
//! build step; scripts and styles are embedded in the binary.
//!
//! ```text
//!  request ─▶ Host and Origin ─▶ visitor (cookie) ─▶ page ─▶ panels of fragments ─▶ HTML
//!                                    │                            └─▶ live: changed fragments
//!                                    └─▶ submit (CSRF token) ─▶ actions of `forewarn-api`, with the visitor's role
//! ```
//!
//! The portal has no commands of its own: every button calls an action of `forewarn-api`. Without a session it shows
//! nothing about the fleet.
//!
//! Modules, from top to bottom: `live`, `submit` and `page` dispatch to the module of each page; those use the parts that
//! pages share (`timeline`, `history`, `action`, …), which are rendered from a `context` into `panel`s. What an action would do is in
//! `forewarn-previews`.

mod action;
mod activities;
mod assets;
mod attention;
mod bulk;
mod calendar;
mod cluster;
mod confirm;
mod event;
mod fencing;
mod flash;
mod fleet;
mod forecasts;
mod forwarding;
mod frame;
mod group;
mod group_machines;
mod group_table;
mod handler;
mod history;
mod history_page;
mod history_searches;
mod host;
mod host_change;
mod host_selection;
mod hosts;
mod live;
mod machine;
mod machine_host;
mod machines;
mod maintenance;
mod operation;
mod operation_lanes;
mod operation_missing;
mod operation_progress;
mod operations;
mod overview;
mod page;
mod page_context;
mod policy;
mod refusal;
mod rollout;
mod rollout_chart;
mod rollout_conflicts;
mod rollout_plan;
mod rollout_progress;
mod rollout_steps;
mod scale_set;
mod scale_set_wizard;
mod search;
mod selection;
mod shared;
mod sign_in;
mod sign_in_oidc;
mod sign_in_page;
mod status;
mod streams;
mod submit;
mod test_kit;
mod timeline;
mod unready;
mod visitor;
mod webhooks;

use std::ops::Deref;
use std::sync::Arc;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::handler::Handler;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use http::{HeaderValue, Method, header};

use forewarn_access::oidc::CALLBACK_PATH;
use forewarn_api::{ApiError, Service, check_host_and_origin, is_api_path};
pub use forwarding::needs_leader;
use shared::PortalState;

/// The API, with state that the portal's pages share.
#[derive(Clone)]
pub struct Portal {
    service: Service,
    shared: Arc<PortalState>,
}

impl Portal {
    pub fn new(service: Service) -> Portal {
        Portal { service, shared: Arc::default() }
    }
}

/// Pages read the API directly.
impl Deref for Portal {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.service
    }
}

/// No scripts, styles, images or connections from other sites, and no frames. Set on every response of the management
/// listener, so that no path can miss it.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);

pub fn routes<S: Clone + Send + Sync + 'static>(portal: &Portal) -> Router<S> {
    let mut router = Router::new();
    for path in page::PATHS {
        router = router.route(path, get(page::get));
    }
    router
        .route("/portal/sign-in", get(sign_in::sign_in_with_code).post(sign_in::sign_in_with_form))
        .route("/portal/sign-in/oidc", get(sign_in_oidc::begin))
        .route(CALLBACK_PATH, get(sign_in_oidc::finish))
        .route("/portal", get(page::redirect_to_overview))
        .route("/portal/session", get(sign_in::check_session))
        .route("/portal/sign-out", get(page::redirect_to_overview).post(sign_in::sign_out))
        .route("/portal/act", get(page::redirect_to_overview).post(submit::submit_action))
        .route("/portal/machine-host", get(page::redirect_to_overview).post(host_change::submit))
        .route("/portal/selection", get(page::redirect_to_overview).post(submit::submit_selection))
        .route("/groups/{group}", get(page::get).post(submit::submit_scale_set))
        .route("/scale-sets/add", get(page::get).post(scale_set_wizard::submit))
        .route("/maintenance", get(page::get).post(maintenance::submit))
        .route("/hosts", get(page::get).post(hosts::submit))
        .route("/rollouts", get(operations::redirect).post(rollout_plan::submit))
        .route("/test-kit", get(page::get).post(test_kit::submit))
        .route("/portal/live", get(live::open_stream))
        .route("/portal/hosts", get(page::redirect_to_overview).post(submit::submit_hosts))
        .route("/portal/operations", get(page::redirect_to_overview).post(submit::submit_operations))
        .route("/portal/assets/{file}", get(assets::get))
        .layer(middleware::from_fn_with_state(portal.clone(), check_request))
        .with_state(portal.clone())
}

/// Adds the security headers to a response.
pub async fn with_policy(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // With "no-referrer", browsers would send our own forms with `Origin: null`, which is refused.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    answer
}

/// Shows browsers a page for paths that do not exist: "not found", or the sign-in page. Other clients get the API's error.
pub async fn or_page(State(portal): State<Portal>, request: Request, next: Next) -> Result<Response, ApiError> {
    if !is_unknown_to_browser(&request) {
        return Ok(next.run(request).await);
    }
    check_host_and_origin(&request, portal.addresses())?;
    Ok(Handler::call(page::get, request, portal).await)
}

fn is_unknown_to_browser(request: &Request) -> bool {
    let path = request.uri().path();
    let is_known = request.extensions().get::<MatchedPath>().is_some() || is_api_path(path);
    let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let is_browser = accept.is_some_and(|accept| accept.contains("text/html"));
    is_browser && !is_known && matches!(*request.method(), Method::GET | Method::HEAD)
}

/// Refuses requests with a foreign `Host` or `Origin`.
async fn check_request(State(portal): State<Portal>, request: Request, next: Next) -> Result<Response, ApiError> {
    check_host_and_origin(&request, portal.addresses())?;
    Ok(next.run(request).await)
}
