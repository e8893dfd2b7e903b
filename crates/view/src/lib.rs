//! The live view of events on a terminal.
//!
//! ```text
//!  keys, signals ─┐
//!                 ├─▶ view ─▶ state (pure) ─▶ draw (pure)
//!  server ─ source┘              └─ actions ─▶ server
//! ```

mod draw;
mod source;
mod state;
#[cfg(test)]
mod tests;
mod view;

pub use view::run;
