//! Integration tests of the drivers.

mod contract;
mod hosts;
