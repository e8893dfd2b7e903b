//! `forewarn run`: a program, unchanged, in a network of its own in which the metadata address is ours.
//!
//! ```text
//!  forewarn run ──starts──▶ companion: server, or a endpoint to one            (outside)
//!       │   ◀──ready───────────┤
//!       ├─ leaves for a network of its own, listens there                  (listeners)
//!       ├───listeners─────────▶┤ relays what comes in
//!       └─ becomes the program ┊ ends when the program has ended
//! ```
//!
//! The process that was started *becomes* the program: signals, exit code, terminal and standard streams are
//! the program's own, because nobody stands between. What we add is beside it, not above it.

#[cfg(target_os = "linux")]
mod companion;
#[cfg(target_os = "linux")]
mod fd_passing;
#[cfg(target_os = "linux")]
mod namespace;
#[cfg(target_os = "linux")]
mod program;
#[cfg(target_os = "linux")]
mod relay;
#[cfg(target_os = "linux")]
mod sweep;
#[cfg(target_os = "linux")]
mod upstream;

#[cfg(target_os = "linux")]
pub use companion::run as companion;
#[cfg(target_os = "linux")]
pub use program::run;

/// What to do where this cannot be done.
pub const INSTEAD: &str = "alternatively, run the program next to `forewarn serve` with the metadata address \
    http://127.0.0.1:8169/vm/NAME; see docs/run.md";

#[cfg(not(target_os = "linux"))]
pub fn run(_: crate::args::RunArgs) -> Result<(), crate::failure::Failure> {
    let message = format!("`forewarn run` requires Linux; {INSTEAD}");
    Err(crate::failure::Failure::NotRun(crate::failure::NOT_RUN, message))
}

#[cfg(not(target_os = "linux"))]
pub fn companion(_: crate::args::CompanionArgs) -> Result<(), crate::failure::Failure> {
    Ok(())
}
