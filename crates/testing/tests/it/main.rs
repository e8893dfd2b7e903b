//! Tests of the in-process server, from the point of view of a handler.

mod handler;
