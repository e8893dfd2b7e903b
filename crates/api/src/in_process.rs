//! A client that calls the native API in process, for the portal and for scenarios. Roles apply as they do outside.

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Method, Request, StatusCode, header};
use serde_json::Value;
use tower::ServiceExt as _;

use super::PREFIX;
use super::extract::BODY_BYTES_MAX;

/// Calls the API as one principal.
#[derive(Clone)]
pub struct InProcessClient(Router);

/// An error response of the API, or a request that could not be made.
#[derive(Debug)]
pub struct CallError {
    pub status: StatusCode,
    /// The error code of the API; empty if the request never reached it.
    pub code: String,
    /// The field or resource that the error concerns; may be empty.
    pub target: String,
    pub message: String,
}

impl InProcessClient {
    /// The router must serve the routes of the native API and put the principal into each request.
    pub fn new(router: Router) -> InProcessClient {
        InProcessClient(router)
    }

    /// Sends a request to a path below the API's prefix. A response without a body is `null`.
    pub async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, CallError> {
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let request = Request::builder()
            .method(method)
            .uri(format!("{PREFIX}{path}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| CallError::invalid_request(error.to_string()))?;
        let Ok(response) = self.0.clone().oneshot(request).await;
        let status = response.status();
        let bytes = to_bytes(response.into_body(), BODY_BYTES_MAX).await;
        let bytes = bytes.map_err(|error| CallError::invalid_request(error.to_string()))?;
        let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if status.is_success() { Ok(value) } else { Err(CallError::from_response(status, &value)) }
    }
}

impl CallError {
    /// An error in a form, found before the API was called.
    pub fn form(message: impl Into<String>) -> CallError {
        CallError::without_code(StatusCode::UNPROCESSABLE_ENTITY, message.into())
    }

    fn from_response(status: StatusCode, body: &Value) -> CallError {
        let message = body["error"]["message"].as_str().unwrap_or("The server gave no reason.").to_owned();
        let text = |key: &str| body["error"][key].as_str().unwrap_or_default().to_owned();
        CallError { status, code: text("code"), target: text("target"), message }
    }

    fn invalid_request(message: String) -> CallError {
        CallError::without_code(StatusCode::BAD_REQUEST, format!("The request is not valid: {message}."))
    }

    fn without_code(status: StatusCode, message: String) -> CallError {
        CallError { status, code: String::new(), target: String::new(), message }
    }
}
