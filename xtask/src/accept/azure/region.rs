//! Regions of two servers on one member of etcd, so that clients use a server that does not lead.

use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::accept::cluster::ETCD;
use crate::accept::netns::Namespace;
use crate::accept::server::{Server, curl};
use crate::accept::wait;
use crate::sh;

/// The ports of etcd. Nothing else listens in the namespace.
const ETCD_PORTS: [u16; 2] = [2379, 2380];

/// The port of the first server. Outgoing connections use ports above 32767.
const FIRST_PORT: u16 = 8200;

/// A member of etcd. It ends when the value is dropped, and when this process is killed.
pub struct Etcd<'n> {
    namespace: &'n Namespace,
    child: Child,
    /// Its data, and the keys of the regions.
    dir: TempDir,
    next_port: AtomicU16,
}

/// A leader, and a follower with a copy of the region.
pub struct Region<'n> {
    pub follower: Server<'n>,
    pub leader: Server<'n>,
}

impl<'n> Etcd<'n> {
    pub fn start(namespace: &'n Namespace) -> Result<Etcd<'n>> {
        let dir = tempfile::Builder::new().prefix("forewarn-accept-").tempdir()?;
        let [clients, peers] = ETCD_PORTS.map(|port| format!("http://127.0.0.1:{port}"));
        let mut command = namespace.command("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(ETCD.path()?.join("usr/bin/etcd"));
        command.arg("--data-dir").arg(dir.path().join("etcd")).args(["--log-level", "error"]);
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &format!("default={peers}")]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("setpriv")?;
        let etcd = Etcd { namespace, child, dir, next_port: FIRST_PORT.into() };
        wait::until("etcd", || {
            let health = curl(namespace.command("curl"), &[&format!("{clients}/health")]);
            Ok(health.ok().filter(|health| health.status == 200))
        })?;
        Ok(etcd)
    }

    /// Starts two servers with these options and a region of their own, without machines.
    pub fn start_region(&self, options: &[&str]) -> Result<Region<'n>> {
        let ports = [(); 2].map(|()| self.next_port.fetch_add(1, Ordering::Relaxed));
        let address = format!("etcd://127.0.0.1:{}/r{}", ETCD_PORTS[0], ports[0]);
        let key = self.dir.path().join(format!("r{}.key", ports[0])).display().to_string();
        let program = sh::built_dir().join("forewarn").display().to_string();
        sh::program(&program).args(&["cluster", "key", &key]).read()?;
        let start = |node: &str, port: u16| {
            let listened = format!("127.0.0.1:{port}");
            let advertised = format!("https://{listened}");
            let place = ["--cluster", &address, "--node", node, "--advertise", &advertised, "--cluster-key", &key];
            Server::start_with_tls_at(&listened, self.namespace, &[&place, options].concat())
        };
        let leader = start("leader", ports[0])?;
        wait_for(&leader, "leader")?;
        wait::until("the first machine", || Ok(leader.forget_the_first_machine().ok()))?;
        let follower = start("follower", ports[1])?;
        wait_for(&follower, "follower")?;
        Ok(Region { follower, leader })
    }
}

impl Drop for Etcd<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a server has current data and this role.
fn wait_for(server: &Server<'_>, role: &str) -> Result<()> {
    let url = format!("{}/healthz/ready", server.management);
    wait::until(&format!("a server to be ready as {role}"), || {
        let answer = curl(server.command("curl"), &[&url])?;
        Ok((answer.status == 200 && answer.json()?["role"] == role).then_some(()))
    })
}
