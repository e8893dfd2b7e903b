//! Requests to the native API, sent with the visitor's role.

use http::Method;
use serde_json::Value;

use super::Portal;
use super::visitor::Visitor;
use forewarn_api::CallError;

pub struct ApiRequest {
    method: Method,
    path: String,
    body: Option<Value>,
}

impl ApiRequest {
    pub fn post(path: impl Into<String>, body: Value) -> ApiRequest {
        ApiRequest { method: Method::POST, path: path.into(), body: Some(body) }
    }

    pub fn put(path: impl Into<String>) -> ApiRequest {
        ApiRequest { method: Method::PUT, path: path.into(), body: None }
    }

    pub fn patch(path: impl Into<String>, body: Value) -> ApiRequest {
        ApiRequest { method: Method::PATCH, path: path.into(), body: Some(body) }
    }

    pub fn delete(path: impl Into<String>) -> ApiRequest {
        ApiRequest { method: Method::DELETE, path: path.into(), body: None }
    }

    pub async fn send(self, portal: &Portal, visitor: &Visitor) -> Result<Value, CallError> {
        portal.client(visitor.principal()).call(self.method, &self.path, self.body).await
    }
}

/// The page to show after an operation was accepted: its event if there is one, otherwise `back`.
pub fn landing_page(operation: &Value, back: &str) -> String {
    match operation["events"][0]["id"].as_str() {
        Some(id) => format!("/events/{id}"),
        None => back.to_owned(),
    }
}
