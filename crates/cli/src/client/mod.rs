//! The client of the management API, and waiting for operations.

mod follow;

pub use follow::{describe_status, print_started, wait, wait_all};
pub use forewarn_api_client::*;
