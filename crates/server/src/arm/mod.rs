//! The management API in the shape that Azure's own clients speak.

pub mod catalog;
