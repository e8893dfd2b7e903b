//! The engine on simulated system clocks.

mod clock_steps;
