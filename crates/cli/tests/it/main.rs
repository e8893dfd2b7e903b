//! Tests of the `forewarn` program as users run it.

mod check;
mod cli;
mod cluster;
mod completions;
mod fleet;
mod kill;
mod kit;
mod login;
mod machines;
mod run;
mod sign_in;
mod support;
mod terminal;
mod webhooks;
