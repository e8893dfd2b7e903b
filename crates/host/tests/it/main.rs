//! A server and the agents of its hosts, in one process, on loopback. The link of an agent goes through a proxy that a test cuts.

mod domains;
mod enrollment;
mod fleet;
mod link;
mod obstacles;
mod orders;
mod proxy;
mod qemu;
mod tokens;
