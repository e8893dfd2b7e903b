//! Formats of Azure Resource Manager that need neither rules nor a server.
//!
//! | module | contents |
//! |---|---|
//! | [`acknowledge`] | bodies of refused approvals |
//! | [`compute`] | IDs of compute resources |
//! | [`id`] | resource IDs and request paths |
//! | [`types`] | known resource types and their spelling |
//! | [`error`] | bodies of errors and long-running operations |
//! | [`template`] | deployment templates: expressions, loops, order |
//! | [`maintenance`] | windows of maintenance configurations |
//! | [`merge`] | the effect of PUT and PATCH on an existing body |

pub mod acknowledge;
pub mod compute;
pub mod disk;
pub mod error;
pub mod id;
pub mod maintenance;
pub mod merge;
pub mod template;
pub mod types;
