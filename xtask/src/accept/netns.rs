//! Network namespaces for tests, without a route to other networks.
//!
//! ```text
//!  cloud                              node                 node
//!  ┌───────────────────────┐    eth0  ┌───────────┐  eth0  ┌───────────┐
//!  │ br0 169.254.169.254/32├ port1 ───┤ 10.99.0.1 │   ┌────┤ 10.99.0.2 │
//!  │     10.99.0.254/24    │          └───────────┘   │    └───────────┘
//!  │                       ├ port2 ───────────────────┘
//!  └───────────────────────┘    MAC: 52:54:00:00:00:01                02
//! ```
//!
//! Nodes reach the fixed address of the metadata endpoint on their link, as guests do, and are identified by their own
//! addresses. Each has its own host name, mounts and `/sys`. A namespace lives as long as the process that holds it, and
//! that process ends when its standard input closes: nothing is left behind, even if this process is killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::sh;

/// The address of the metadata endpoint in Azure. Never used outside a namespace created here.
pub const METADATA: &str = "169.254.169.254";

/// The address of the bridge.
pub const BRIDGE: &str = "10.99.0.254";

/// `/sys` shows the network namespace in which it was mounted, so it is mounted again.
const HOLD: &str = r#"hostname "$1" && mount -t sysfs sysfs /sys && ip link set lo up && echo ready && exec cat"#;

/// The same in a namespace of processes, with a program in the background. The shell is the first process there: it
/// takes in the children of processes that end, and when it ends, all others are killed.
const HOLD_PROCESSES: &str =
    r#"hostname "$1" && mount -t sysfs sysfs /sys && ip link set lo up || exit; sh -c "$2" & echo ready; cat; exit"#;

/// A network namespace with its own host name and mounts.
pub struct Namespace {
    holder: Child,
}

impl Namespace {
    pub fn new(host_name: &str) -> Result<Namespace> {
        let mut command = Command::new("unshare");
        command.args(["--net", "--uts", "--mount", "sh", "-c", HOLD, "sh", host_name]);
        Namespace::hold(command)
    }

    /// A namespace that also has its own processes, and runs this shell script in the background.
    pub fn with_processes(host_name: &str, script: &str) -> Result<Namespace> {
        let mut command = Command::new("unshare");
        command.args(["--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["sh", "-c", HOLD_PROCESSES, "sh", host_name, script]);
        Namespace::hold(command)
    }

    fn hold(mut command: Command) -> Result<Namespace> {
        let holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot run unshare")?;
        let mut namespace = Namespace { holder };
        let mut line = String::new();
        let stdout = namespace.holder.stdout.take().context("the holder has no output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        ensure!(line == "ready\n", "cannot create a network namespace; this needs root");
        namespace.check_no_way_out()?;
        Ok(namespace)
    }

    /// A command that runs in the namespace, from the root directory and without proxy settings.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let is_proxy = |name: &str| name.to_ascii_lowercase().ends_with("_proxy");
        for (name, _) in std::env::vars().filter(|(name, _)| is_proxy(name)) {
            command.env_remove(name);
        }
        command.args(["--target", &self.pid(), "--net", "--uts", "--mount", "--", program]);
        command
    }

    /// The network of the namespace, for programs that enter it themselves.
    pub fn network_path(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }

    /// Fails if there is a default route.
    pub fn check_no_way_out(&self) -> Result<()> {
        for family in ["-4", "-6"] {
            let routes = self.ip(&[family, "route", "show", "table", "all", "default"])?;
            ensure!(routes.trim().is_empty(), "the namespace has a default route: {routes}");
        }
        Ok(())
    }

    pub fn ip(&self, arguments: &[&str]) -> Result<String> {
        self.read("ip", arguments)
    }

    /// Runs a program in the namespace and returns its output.
    pub fn read(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let output = self.command(program).args(arguments).output().with_context(|| format!("cannot run {program}"))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{program} {}: {}", arguments.join(" "), errors.trim());
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

/// A bridge with nodes.
pub struct Network {
    pub cloud: Namespace,
    pub nodes: Vec<Node>,
}

pub struct Node {
    pub namespace: Namespace,
    pub ip: String,
}

impl Network {
    /// One node for each host name, with an address and a route to the metadata endpoint.
    pub fn new(host_names: &[&str]) -> Result<Network> {
        let network = Network::bare(host_names)?;
        network.cloud.ip(&["address", "add", &format!("{METADATA}/32"), "dev", "br0"])?;
        for node in &network.nodes {
            node.take_address()?;
            node.namespace.ip(&["route", "add", METADATA, "dev", "eth0"])?;
        }
        network.check_no_way_out()?;
        Ok(network)
    }

    /// Nodes that have a link but no address. Only the bridge has an address, and not that of the endpoint.
    pub fn bare(host_names: &[&str]) -> Result<Network> {
        let cloud = bridge()?;
        let numbered = (1..).zip(host_names);
        let nodes = numbered.map(|(number, name)| Node::new(&cloud, number, Namespace::new(name)?));
        let nodes = nodes.collect::<Result<_>>()?;
        Ok(Network { cloud, nodes })
    }

    /// Nodes with an address each, in namespaces that exist already.
    pub fn of(namespaces: Vec<Namespace>) -> Result<Network> {
        let cloud = bridge()?;
        let nodes = (1..).zip(namespaces).map(|(number, namespace)| Node::new(&cloud, number, namespace));
        let network = Network { nodes: nodes.collect::<Result<_>>()?, cloud };
        network.nodes.iter().try_for_each(Node::take_address)?;
        network.check_no_way_out()?;
        Ok(network)
    }

    /// Loads the rules that bind each guest to its own address.
    pub fn pin_guests(&self) -> Result<()> {
        let rules = sh::root().join("examples/bridge/pin-guests.nft");
        self.cloud.read("nft", &["-f", rules.to_str().context("the path is not UTF-8")?]).map(drop)
    }

    /// Fails if the bridge or a node has a default route.
    pub fn check_no_way_out(&self) -> Result<()> {
        let nodes = self.nodes.iter().map(|node| &node.namespace);
        nodes.chain([&self.cloud]).try_for_each(Namespace::check_no_way_out)
    }
}

fn bridge() -> Result<Namespace> {
    let cloud = Namespace::new("cloud")?;
    cloud.ip(&["link", "add", "br0", "type", "bridge"])?;
    cloud.ip(&["address", "add", &format!("{BRIDGE}/24"), "dev", "br0"])?;
    cloud.ip(&["link", "set", "br0", "up"])?;
    Ok(cloud)
}

impl Node {
    fn new(cloud: &Namespace, number: u8, namespace: Namespace) -> Result<Node> {
        let (port, mac) = (format!("port{number}"), format!("52:54:00:00:00:{number:02x}"));
        cloud.ip(&["link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &namespace.pid()])?;
        cloud.ip(&["link", "set", &port, "master", "br0", "up"])?;
        namespace.ip(&["link", "set", "eth0", "address", &mac, "up"])?;
        Ok(Node { namespace, ip: format!("10.99.0.{number}") })
    }

    /// Sets the address directly, without DHCP.
    pub fn take_address(&self) -> Result<()> {
        self.namespace.ip(&["address", "add", &format!("{}/24", self.ip), "dev", "eth0"]).map(drop)
    }
}
