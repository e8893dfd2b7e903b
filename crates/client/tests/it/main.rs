//! Tests of the client library against recorded files, a fake service and a real server.

mod discovery;
mod document;
mod fake;
mod forewarn;
mod service;
mod tracker;
