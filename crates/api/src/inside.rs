//! What the portal takes of the API: the same state, and the same routes, called in the name of whoever is
//! signed in. The portal has no commands of its own.

use axum::body::{Body, to_bytes};
use forewarn_wire::document::Names;
use http::{Method, Request, StatusCode, header};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::error::ApiError;
use super::extract::BODY_BYTES_MAX;
use super::{Api, Doors, FaultKeeper, PREFIX, Service, routes};
use crate::scenario::Progress;
use forewarn_access::{Access, Principal};
use forewarn_engine::Engine;
use forewarn_metadata::EndpointState;

/// A refusal of the API, as a page shows it.
#[derive(Debug)]
pub struct Refused {
    pub status: StatusCode,
    /// The API's word for it; empty when it was never asked.
    pub code: String,
    /// The field or thing that it is about; may be empty.
    pub target: String,
    pub message: String,
}

impl Service {
    pub fn engine(&self) -> &Engine {
        &self.0.parts.engine
    }

    pub fn doors(&self) -> &Doors {
        &self.0.parts.doors
    }

    pub fn access(&self) -> &Access {
        &self.0.parts.access
    }

    pub fn stopping(&self) -> &CancellationToken {
        &self.0.parts.stop
    }

    pub fn names(&self) -> Names {
        self.0.parts.names
    }

    pub fn faults(&self) -> &FaultKeeper {
        &self.0.faults
    }

    pub fn endpoint(&self) -> &EndpointState {
        &self.0.parts.endpoint
    }

    pub fn runs(&self) -> Vec<Progress> {
        self.0.runs.list()
    }

    /// A place among the streams.
    pub fn stream(&self, principal: Principal) -> Result<OwnedSemaphorePermit, ApiError> {
        Api(self.0.clone(), principal).stream()
    }

    /// Sends a request of the native API, from inside; the role counts as it does outside.
    pub async fn call(
        &self,
        principal: Principal,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, Refused> {
        let request = Request::builder().method(method).uri(format!("{PREFIX}{path}"));
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let request = request.body(body).map_err(|error| Refused::strange(error.to_string()))?;
        let routes = routes::inside_by_role(Api(self.0.clone(), principal));
        let Ok(answer) = routes.oneshot(request).await;
        let status = answer.status();
        let bytes = to_bytes(answer.into_body(), BODY_BYTES_MAX).await;
        let bytes = bytes.map_err(|error| Refused::strange(error.to_string()))?;
        let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if status.is_success() { Ok(value) } else { Err(Refused::of(status, &value)) }
    }
}

impl Refused {
    fn of(status: StatusCode, body: &Value) -> Refused {
        let message = body["error"]["message"].as_str().unwrap_or("The server gave no reason.").to_owned();
        let text = |key: &str| body["error"][key].as_str().unwrap_or_default().to_owned();
        Refused { status, code: text("code"), target: text("target"), message }
    }

    /// What is wrong with a form.
    pub fn form(message: impl Into<String>) -> Refused {
        Refused::plain(StatusCode::UNPROCESSABLE_ENTITY, message.into())
    }

    fn strange(message: String) -> Refused {
        Refused::plain(StatusCode::BAD_REQUEST, format!("The request cannot be made: {message}."))
    }

    fn plain(status: StatusCode, message: String) -> Refused {
        Refused { status, code: String::new(), target: String::new(), message }
    }
}
