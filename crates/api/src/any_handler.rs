//! Handlers of any signature behind one type, so that axum's layers are compiled once instead of once per route.

use std::pin::Pin;
use std::sync::Arc;

use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;

use super::Service;

/// The future of every handler that is a function.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

#[derive(Clone)]
pub struct AnyHandler(Arc<dyn Fn(Request, Service) -> ResponseFuture + Send + Sync>);

impl AnyHandler {
    pub fn new<T>(handler: impl Handler<T, Service, Future = ResponseFuture>) -> AnyHandler {
        AnyHandler(Arc::new(move |request, service| handler.clone().call(request, service)))
    }
}

impl Handler<(), Service> for AnyHandler {
    type Future = ResponseFuture;

    fn call(self, request: Request, service: Service) -> ResponseFuture {
        (self.0)(request, service)
    }
}
