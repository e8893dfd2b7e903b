//! Callers that are told apart by their source address, as real guests are. wrk cannot do that, so this is a load generator of
//! its own: a ring of connections, each from another loopback address, with a fixed number of requests under way.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use socket2::{Domain, Socket, Type};

use super::client::Client;
use super::process::Process;
use super::wrk::Throughput;

/// Requests under way, as many as wrk has.
const WINDOW: usize = 64;

/// The address of the first machine of a generated fleet; the others follow.
const FIRST: Ipv4Addr = Ipv4Addr::new(127, 64, 0, 4);

pub struct Ring {
    clients: Vec<Client>,
    path: String,
}

impl Ring {
    /// Connections that all name the same machine in their path.
    pub fn of_one(address: &str, connections: u64, path: &str) -> Result<Ring> {
        let clients = (0..connections).map(|_| Client::new(address)).collect::<Result<_>>()?;
        Ok(Ring { clients, path: format!("/vm/web-0000000{path}") })
    }

    /// Connections from the addresses of different machines, far apart from each other.
    pub fn of_many(address: &str, connections: u64, machines: u64, path: &str) -> Result<Ring> {
        let clients = (0..connections).map(|n| connect_as(address, n * 7919 % machines)).collect::<Result<_>>()?;
        Ok(Ring { clients, path: path.to_owned() })
    }

    /// Requests of all connections in turn for some seconds. There is no distribution of latencies: responses are read in order.
    pub fn run(&mut self, server: &Process, secs: u32) -> Result<Throughput> {
        let (cpu_before, begun) = (server.cpu_secs()?, Instant::now());
        let (mut waiting, mut requests, mut next) = (VecDeque::new(), 0_u64, 0);
        while begun.elapsed() < Duration::from_secs(secs.into()) || !waiting.is_empty() {
            let is_over = begun.elapsed() >= Duration::from_secs(secs.into());
            if waiting.len() < WINDOW && !is_over {
                self.clients[next].send("GET", &self.path, "Metadata: true\r\n", "")?;
                waiting.push_back(next);
                next = (next + 1) % self.clients.len();
                continue;
            }
            let Some(first) = waiting.pop_front() else { break };
            let reply = self.clients[first].receive()?;
            ensure!(reply.status == 200, "a poll was answered with {}: {}", reply.status, reply.body);
            requests += 1;
        }
        let cpu_us = (server.cpu_secs()? - cpu_before) * 1e6 / requests as f64;
        Ok(Throughput { per_second: requests as f64 / begun.elapsed().as_secs_f64(), cpu_us, p99_us: f64::NAN })
    }
}

/// A connection from the address of the `n`th machine.
fn connect_as(address: &str, n: u64) -> Result<Client> {
    let source = Ipv4Addr::from(u32::from(FIRST) + u32::try_from(n)?);
    let server: SocketAddr = address.parse()?;
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((source, 0)).into())?;
    socket.connect(&server.into()).with_context(|| format!("cannot reach {address} from {source}"))?;
    Client::over(socket.into(), address)
}
