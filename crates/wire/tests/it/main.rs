//! Tests of the public API of the crate against golden files.

mod cloudevent;
mod document;
mod instance;
mod refusals;
mod support;
mod template;
