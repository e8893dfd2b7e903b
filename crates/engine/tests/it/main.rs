//! The engine on simulated system clocks, alone and in a cluster.

mod clock_steps;
mod cluster;
