//! What Azure Resource Manager's clients send and expect: the parts that need no rule and no server.
//!
//! | module | what it knows |
//! |---|---|
//! | [`compute`] | ids of compute resources |
//! | [`id`] | resource ids and the paths of requests |
//! | [`types`] | the resource types that there are, and how they are spelt |
//! | [`error`] | the bodies of errors and of long operations |
//! | [`template`] | deployment templates: expressions, loops, order |
//! | [`merge`] | what PUT and PATCH make of a body that is there |

pub mod compute;
pub mod error;
pub mod id;
pub mod merge;
pub mod template;
pub mod types;
