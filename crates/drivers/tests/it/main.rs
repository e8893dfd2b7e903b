//! Integration tests of the drivers.

mod book;
mod contract;
mod hosts;
