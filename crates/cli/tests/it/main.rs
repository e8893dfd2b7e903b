//! Tests of the `forewarn` program as users run it.

mod agent_bench;
mod agent_matrix;
mod check;
mod cli;
mod cluster;
mod completions;
mod doctor;
mod dry_run;
mod fake_qemu;
mod fleet;
mod host_agent;
mod kill;
mod kill_matrix;
mod kit;
mod login;
mod machine_bench;
mod machines;
mod own_endpoint;
mod qemu_guests;
mod run;
mod sign_in;
mod support;
mod terminal;
mod upgrade;
mod webhooks;
