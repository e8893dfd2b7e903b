//! Changes the system: the rules, and the setting that gives marks to sockets.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use forewarn_metadata::{MarkMask, PortName};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

use crate::bridges::EndpointPort;
use crate::script;

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
pub async fn load_rules(
    endpoints: &[IpAddr],
    mask: MarkMask,
    marks: &[(PortName, u32)],
    own: &[EndpointPort],
) -> anyhow::Result<()> {
    run_nft(&["-f", "-"], &script::render(endpoints, mask, marks, own)).await
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
