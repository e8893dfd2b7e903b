//! Consequences of actions and plans in the web console, before they are carried out: sentences and steps, which the rules compute
//! on a copy of the region, and the forms of both planners, from what was typed to the request. This crate
//! renders no pages, does not change the region, and does not depend on who is signed in.
//!
//! ```text
//!  what was typed ─▶ plan, rollout_fields ─▶ request to the API
//!                        └─▶ preview ─▶ rules on a copy ─▶ sentences, steps
//! ```

pub mod plan;
pub mod preview;
pub mod rollout_fields;
