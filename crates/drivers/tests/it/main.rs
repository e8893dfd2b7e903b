//! Integration tests of the drivers.

mod book;
mod contract;
mod disturbed;
mod hosts;
mod perform;
mod qemu;
mod qemu_guests;
mod qemu_process;
mod runner;
