//! Network namespaces of our own, without a way out.
//!
//! ```text
//!  cloud                        node            node
//!  ┌───────────────────────┐    ┌───────────┐   ┌───────────┐
//!  │ br0 169.254.169.254/32├────┤ 10.99.0.1 │   │ 10.99.0.2 │
//!  │     10.99.0.254/24    │    └───────────┘   └─────┬─────┘
//!  └───────────┬───────────┘                          │
//!              └──────────────────────────────────────┘
//! ```
//!
//! Nodes reach the fixed address of the metadata endpoint on their link, as guests do, and are told apart by
//! their own addresses. A namespace lives as long as the process that holds it, and that process as long as
//! its standard input: whatever becomes of us, nothing stays behind.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Where every guest of the original expects the metadata endpoint. Never used outside a namespace of ours.
pub const METADATA: &str = "169.254.169.254";

const HOLD: &str = r#"hostname "$1" && ip link set lo up && echo ready && exec cat"#;

/// A network with its own host name.
pub struct Namespace {
    holder: Child,
}

impl Namespace {
    pub fn new(host_name: &str) -> Result<Namespace> {
        let mut command = Command::new("unshare");
        command.args(["--net", "--uts", "sh", "-c", HOLD, "sh", host_name]);
        let holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot run unshare")?;
        let mut namespace = Namespace { holder };
        let mut line = String::new();
        let stdout = namespace.holder.stdout.take().context("the holder has no output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        ensure!(line == "ready\n", "cannot make a network namespace; this needs root");
        namespace.check_no_way_out()?;
        Ok(namespace)
    }

    /// A program that is to run in it.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.pid(), "--net", "--uts", "--", program]);
        command
    }

    /// Fails when there is a route to anywhere but the links that we made.
    pub fn check_no_way_out(&self) -> Result<()> {
        for family in ["-4", "-6"] {
            let routes = self.ip(&[family, "route", "show", "table", "all", "default"])?;
            ensure!(routes.trim().is_empty(), "the namespace has a default route: {routes}");
        }
        Ok(())
    }

    fn ip(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command("ip").args(arguments).output().context("cannot run ip")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "ip {}: {}", arguments.join(" "), errors.trim());
        Ok(String::from_utf8(output.stdout)?)
    }

    fn pid(&self) -> String {
        self.holder.id().to_string()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A bridge that has the metadata address, and machines on it.
pub struct Network {
    pub cloud: Namespace,
    pub nodes: Vec<Node>,
}

pub struct Node {
    pub namespace: Namespace,
    pub ip: String,
}

impl Network {
    /// One node for each host name.
    pub fn new(host_names: &[&str]) -> Result<Network> {
        let cloud = Namespace::new("cloud")?;
        cloud.ip(&["link", "add", "br0", "type", "bridge"])?;
        cloud.ip(&["address", "add", &format!("{METADATA}/32"), "dev", "br0"])?;
        cloud.ip(&["address", "add", "10.99.0.254/24", "dev", "br0"])?;
        cloud.ip(&["link", "set", "br0", "up"])?;
        let numbered = (1..).zip(host_names);
        let nodes = numbered.map(|(number, name)| Node::new(&cloud, number, name)).collect::<Result<_>>()?;
        cloud.check_no_way_out()?;
        Ok(Network { cloud, nodes })
    }
}

impl Node {
    fn new(cloud: &Namespace, number: u8, host_name: &str) -> Result<Node> {
        let namespace = Namespace::new(host_name)?;
        let (port, ip) = (format!("port{number}"), format!("10.99.0.{number}"));
        cloud.ip(&["link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &namespace.pid()])?;
        cloud.ip(&["link", "set", &port, "master", "br0", "up"])?;
        namespace.ip(&["address", "add", &format!("{ip}/24"), "dev", "eth0"])?;
        namespace.ip(&["link", "set", "eth0", "up"])?;
        namespace.ip(&["route", "add", METADATA, "dev", "eth0"])?;
        namespace.check_no_way_out()?;
        Ok(Node { namespace, ip })
    }
}
