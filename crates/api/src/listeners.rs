//! The handler of the metadata listeners, for tools that call the metadata endpoint on behalf of a machine. Read-only.

use axum::response::Response;
use forewarn_api_types::{Listener, Listeners};

use super::Actions;
use super::extract::{self, NoQuery, Params};
use forewarn_metadata::ListenerInfo;

pub async fn list(actions: Actions, Params(NoQuery {}): Params<NoQuery>) -> Response {
    extract::respond_ok(Listeners { value: actions.service().0.parts.metadata_listeners.iter().map(render).collect() })
}

fn render(listener: &ListenerInfo) -> Listener {
    Listener {
        address: listener.address.to_string(),
        machine: listener.machine.clone(),
        network: listener.network.clone(),
        prefix: listener.prefix,
    }
}
