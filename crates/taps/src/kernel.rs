//! Everything that touches the system: the ports of bridges, the rules, and the setting that gives marks to sockets.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use forewarn_metadata::{MarkMask, PortName};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

use crate::script;

const INTERFACES: &str = "/sys/class/net";

/// Copies the mark of the first packet to the accepted socket.
pub const FWMARK_ACCEPT: &str = "/proc/sys/net/ipv4/tcp_fwmark_accept";

/// nft takes milliseconds.
const NFT_TIMEOUT: Duration = Duration::from_secs(10);

/// nft is not in the search path of every service.
const NFT_PATHS: [&str; 4] = ["/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft", "/usr/local/sbin/nft"];

/// The nft program, if it is installed.
pub fn find_nft() -> Option<&'static str> {
    NFT_PATHS.into_iter().find(|path| Path::new(path).is_file())
}

/// The ports of all Linux bridges.
///
/// # Errors
///
/// If the interfaces cannot be read.
pub fn list_ports() -> io::Result<Vec<PortName>> {
    ports_below(Path::new(INTERFACES))
}

fn ports_below(interfaces: &Path) -> io::Result<Vec<PortName>> {
    let mut ports = Vec::new();
    for entry in fs::read_dir(interfaces)? {
        let entry = entry?;
        let path = entry.path();
        // The interface may disappear at any time.
        let index = fs::read_to_string(path.join("ifindex")).ok().and_then(|text| text.trim().parse().ok());
        if let (true, Some(index), Ok(name)) = (path.join("brport").is_dir(), index, entry.file_name().into_string()) {
            ports.push(PortName { index, name });
        }
    }
    ports.sort();
    Ok(ports)
}

/// Whether this computer has a Linux bridge.
pub fn has_bridge() -> bool {
    let interfaces = fs::read_dir(INTERFACES).into_iter().flatten().flatten();
    interfaces.into_iter().any(|entry| entry.path().join("bridge").is_dir())
}

/// Lets accepted sockets have the marks of their connections. Stays set, because other programs may rely on it.
///
/// # Errors
///
/// If the kernel does not have the setting, or it cannot be changed.
pub fn accept_marks() -> anyhow::Result<()> {
    let current = fs::read_to_string(FWMARK_ACCEPT).with_context(|| {
        format!("cannot read {FWMARK_ACCEPT}: --guests-by mark needs a Linux kernel with this setting, and /proc/sys")
    })?;
    if current.trim() == "1" {
        return Ok(());
    }
    fs::write(FWMARK_ACCEPT, "1").with_context(|| {
        "cannot set net.ipv4.tcp_fwmark_accept=1. Run `sysctl -w net.ipv4.tcp_fwmark_accept=1` as root, and write the \
         setting to /etc/sysctl.d/forewarn.conf"
    })
}

/// Loads the rules, in place of earlier ones.
///
/// # Errors
///
/// With the message of nft.
pub async fn load_rules(endpoints: &[IpAddr], mask: MarkMask, marks: &[(PortName, u32)]) -> anyhow::Result<()> {
    run_nft(&["-f", "-"], &script::render(endpoints, mask, marks)).await
}

/// Removes the rules.
///
/// # Errors
///
/// With the message of nft.
pub async fn remove_rules() -> anyhow::Result<()> {
    run_nft(&["-f", "-"], &script::remove()).await
}

/// Whether the rules exist. Other programs remove them when they load rules of their own (`flush ruleset`).
pub async fn has_rules() -> bool {
    run_nft(&["list", "chain", "bridge", script::TABLE, "identify"], "").await.is_ok()
}

/// Runs nft with fixed arguments and without a shell.
async fn run_nft(arguments: &[&str], input: &str) -> anyhow::Result<()> {
    let Some(program) = find_nft() else {
        bail!("nft is not installed, which --guests-by mark needs: apt install nftables");
    };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let run = async {
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).await?;
        }
        child.wait_with_output().await
    };
    let output = timeout(NFT_TIMEOUT, run).await.context("nft does not end")?;
    let output = output.with_context(|| format!("cannot run {program}"))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let reason = errors.lines().next().unwrap_or_default().trim();
    let advice = if reason.contains("not permitted") { ". Run as root, or with CAP_NET_ADMIN" } else { "" };
    bail!("nft has failed: {reason}{advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ports_of_bridges_are_listed() {
        let dir = tempfile::tempdir().unwrap();
        for (name, index, is_port) in
            [("vnet1", "12\n", true), ("eth0", "2\n", false), ("vnet0", "9\n", true), ("bad", "", true)]
        {
            let interface = dir.path().join(name);
            fs::create_dir_all(interface.join(if is_port { "brport" } else { "queues" })).unwrap();
            fs::write(interface.join("ifindex"), index).unwrap();
        }
        let port = |index, name: &str| PortName { index, name: name.into() };
        assert_eq!(ports_below(dir.path()).unwrap(), [port(9, "vnet0"), port(12, "vnet1")]);
        assert!(ports_below(&dir.path().join("none")).is_err());
    }
}
