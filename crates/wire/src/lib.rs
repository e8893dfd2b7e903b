//! The bytes that other programs see.
//!
//! Each module converts between plain data and bytes: one per format of the metadata endpoint, and [`arm`] for
//! the management API. The crate contains no rules; who may send a request, and what an event does, is decided
//! elsewhere.
//!
//! | module | contents |
//! |---|---|
//! | [`version`] | the api-versions of each path, and errors for others |
//! | [`document`] | the Scheduled Events document, per version |
//! | [`approval`] | the body of the POST that approves events |
//! | [`attested`] | the signed document of `/metadata/attested/document` |
//! | [`instance`] | the document of `/metadata/instance`, per version, and paths into it |
//! | [`cloudevent`] | webhook messages and their signatures |
//! | [`query`] | the query string |
//! | [`sign_in`] | endpoints, tokens and errors of signing in to the management API |
//! | [`error`] | every error of the metadata endpoint: status and body |
//! | [`arm`] | IDs, errors, templates and bodies of the ARM API |
//! | [`guid`], [`duration`], [`percent`] | notations used by the others |

pub mod approval;
pub mod arm;
pub mod attested;
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
