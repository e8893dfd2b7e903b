//! The bytes other people's programs see.
//!
//! One module per thing on the wire of the metadata endpoint, and one, [`arm`], for the management API. Each turns plain data into bytes or
//! bytes into plain data, and none of them knows a rule: who may ask, what an event does and when
//! it starts is decided elsewhere.
//!
//! | module | what it knows |
//! |---|---|
//! | [`version`] | the api-versions of each path, and what is wrong with the others |
//! | [`document`] | the Scheduled Events document, per version |
//! | [`approval`] | the body of the POST that approves events |
//! | [`instance`] | the document of `/metadata/instance`, per version, and the paths into it |
//! | [`cloudevent`] | what a web hook is told of an event, and how that is signed |
//! | [`query`] | the query string |
//! | [`sign_in`] | the endpoints, tokens and refusals of signing in to the management side |
//! | [`error`] | every refusal: its status and its body |
//! | [`arm`] | ids, errors, templates and bodies of the management API |
//! | [`guid`], [`duration`], [`percent`] | notations that the others need |

pub mod approval;
pub mod arm;
pub mod cloudevent;
pub mod document;
pub mod duration;
pub mod error;
pub mod guid;
pub mod instance;
pub mod percent;
pub mod query;
pub mod sign_in;
pub mod version;
