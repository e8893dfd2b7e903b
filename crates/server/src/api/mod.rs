//! The native management API: what Azure has no words for, and what our own tools speak.
//!
//! ```text
//!  request ─▶ guard (Host, Origin, token) ─▶ routes (the table) ─▶ one file per resource
//!                                                                    │ names → ids, words → types
//!                                             snapshot ◀── read ─────┤
//!                                             Engine::submit ◀─ act ─┘
//! ```
//!
//! It holds no state of its own but the token, and it decides nothing: rules are the core's, and a
//! refusal of the rules becomes a status in one place, `error`.

mod changes;
mod clock;
mod error;
mod events;
mod extract;
mod groups;
mod guard;
mod history;
mod hosts;
mod listener;
mod machine_actions;
mod machines;
mod maintenance;
mod names;
mod object;
mod openapi;
mod operations;
mod parts;
mod routes;
mod scale_sets;
mod scenarios;
mod service;
mod text;
mod token;
mod values;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::response::Response;
use forewarn_core::{Answer, Command, EventId, Name, Request};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::engine::{Asked, Done, Engine};
use crate::random::random_guid;
use crate::scenario::Runs;
use error::{ApiError, Refusal};

/// The bodies that scenarios have in their files.
pub(crate) mod bodies {
    pub use super::groups::NewGroup;
    pub use super::machines::NewMachine;
    pub use super::maintenance::NewMaintenance;
    pub use super::scale_sets::NewScaleSet;
    pub use super::text::Word;
}

pub use error::of_rejection;
pub use guard::{Access, AccessError, access};
pub use listener::serve;
pub use routes::{PREFIX, Route, router, table};
pub use token::{TOKEN_FILE, TokenError, rotate_token};

/// Who the holder of the token is, in history and in the audit trail.
pub const OWNER: &str = "owner";

/// Where resources are kept that do not say.
pub const SUBSCRIPTION_DEFAULT: &str = "00000000-0000-0000-0000-000000000000";
pub const RESOURCE_GROUP_DEFAULT: &str = "default";

/// Streams of changes that are open at once. Each holds a connection and one page of history.
pub const STREAMS_MAX: usize = 256;

#[derive(Clone)]
pub struct Api(Arc<Inner>);

struct Inner {
    engine: Engine,
    access: Access,
    /// What the listener is bound to, for the Host header.
    bound: SocketAddr,
    /// Streams end when the server stops.
    stop: CancellationToken,
    streams: Arc<Semaphore>,
    runs: Runs,
}

impl Api {
    pub fn new(engine: Engine, access: Access, bound: SocketAddr, stop: CancellationToken) -> Api {
        let streams = Arc::new(Semaphore::new(STREAMS_MAX));
        Api(Arc::new(Inner { engine, access, bound, stop, streams, runs: Runs::default() }))
    }

    fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Carries out a command in the owner's name and notes it in the audit trail.
    async fn submit(&self, command: Command, note: Note) -> Result<Done, ApiError> {
        let asked = Asked {
            actor: OWNER.into(),
            action: note.action.into(),
            target: note.target,
            detail: note.detail.to_string(),
        };
        Ok(self.engine().submit(command, Some(asked)).await?)
    }

    /// Asks for an operation and answers with it.
    async fn request(&self, request: Request, event: Option<EventId>, note: Note) -> Result<Response, ApiError> {
        let operation = random_guid();
        let command = Command::Request { operation, by: owner(), request, event };
        let done = self.submit(command, note).await?;
        let operation = match done.answer {
            Answer::Operation(id) => id,
            Answer::Done | Answer::Machine(_) | Answer::Group { .. } | Answer::Scaled { .. } => operation,
        };
        let region = &done.snapshot.region;
        match region.operation(operation) {
            Some(found) => Ok(extract::accepted(operations::Operation::of(region, found))),
            None => Err(ApiError::new(
                Refusal::OperationNotFound,
                format!("The operation {operation} was carried out and is over. See the history."),
            )),
        }
    }
}

/// What the audit trail says of a command.
struct Note {
    action: &'static str,
    target: String,
    detail: serde_json::Value,
}

impl Note {
    fn new(action: &'static str, target: impl Into<String>) -> Note {
        Note { action, target: target.into(), detail: serde_json::json!({}) }
    }

    fn with(mut self, detail: serde_json::Value) -> Note {
        self.detail = detail;
        self
    }
}

fn owner() -> Name {
    OWNER.into()
}
