//! The requests and responses of the native API, defined once for the server and its clients, and the small helpers that
//! both share: durations, suggestions for misspelled words, and readable error messages.
//!
//! Requests refuse unknown fields. Responses ignore them, so that a client can talk to a newer server. The types carry no
//! rules: the server converts them to the types of `core`, which decides.

pub mod host_link;
pub mod nearest;
pub mod object;
pub mod plain;
pub mod span;

mod clock;
mod cluster;
mod enums;
mod error;
mod events;
mod faults;
mod groups;
mod health;
mod history;
mod hosts;
mod identity;
mod listeners;
mod lists;
mod machines;
mod maintenance;
mod nullable;
mod operations;
mod page;
mod portal;
mod requests;
mod role;
mod rollouts;
mod scale_sets;
mod scenarios;
mod text;
mod ticket;
mod unknown_word;
mod values;
mod waits;
mod webhooks;

pub use clock::*;
pub use cluster::*;
pub use enums::*;
pub use error::*;
pub use events::*;
pub use faults::*;
pub use groups::*;
pub use health::*;
pub use history::*;
pub use hosts::*;
pub use identity::*;
pub use listeners::*;
pub use lists::*;
pub use machines::*;
pub use maintenance::*;
pub use nullable::*;
pub use operations::*;
pub use page::*;
pub use portal::*;
pub use requests::*;
pub use role::*;
pub use rollouts::*;
pub use scale_sets::*;
pub use scenarios::*;
pub use text::*;
pub use ticket::*;
pub use unknown_word::*;
pub use values::*;
pub use waits::*;
pub use webhooks::*;

/// Prefix of the paths of the native API.
pub const PREFIX: &str = "/api/v1";
