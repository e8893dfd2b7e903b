//! `forewarn run`: runs an unchanged program in a private network with a metadata endpoint.
//!
//! ```text
//!  forewarn run ──starts──▶ companion: runs a server, or connects to one      (outside)
//!       │   ◀──ready───────────┤
//!       ├─ enters a network namespace, opens listeners                        (inside)
//!       ├───listeners─────────▶┤ relays their connections
//!       └─ becomes the program ┊ exits when the program has exited
//! ```
//!
//! The started process *becomes* the program, so signals, exit code, terminal and standard streams are the program's own.
//! The companion runs beside it, not above it.

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

/// Alternatives for systems without network namespaces.
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
