//! The crate as its users see it, compared with files that hold the bytes.

mod cloudevent;
mod document;
mod instance;
mod refusals;
mod support;
mod template;
