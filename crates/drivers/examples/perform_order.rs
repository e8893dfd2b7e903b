//! Performs one order with the libvirt or the QEMU driver and prints the outcome. For trying the driver by hand, and for tests that
//! kill it.
//!
//! ```text
//! perform_order SOCKET HOST JOURNAL EVENT MACHINE ACTION [OPTION]...
//! ```
//!
//! SOCKET is that of libvirtd, or a file `*.toml` that names the machines of the QEMU driver.
//!
//! Actions: `freeze:MILLISECONDS`, `reboot`, `reboot-graceful`, `migrate`, `redeploy`, `start`, `stop`, `deallocate`,
//! `evict-delete`, `terminate`. Options: `--to NAME SOCKET DATA-URI` (the other host), `--pool NAME` (delete disks there),
//! `--deadline MILLISECONDS`, `--kill-before STEP`, `--kill-libvirtd-before STEP`. The report counts as confirmed once it
//! is printed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use forewarn_core::{Guid, Timestamp};
use forewarn_drivers::libvirt::{LibvirtConfig, LibvirtDriver, PeerState, Peers};
use forewarn_drivers::qemu::{QemuConfig, QemuDriver};
use forewarn_drivers::{
    Action, Eviction, HostAddress, MachineDriver, Order, OrderId, Pending, RebootMode, Step, StepHook,
};
use forewarn_libvirt::{ErrorCode, State, Target, Uuid};
use rustix::process::{Signal, getpid, kill_process};

const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [socket, host, journal, event, machine, action, options @ ..] = words.as_slice() else {
        bail!("usage: perform_order SOCKET HOST JOURNAL EVENT MACHINE ACTION [OPTION]...");
    };
    let peer = peer(options);
    let kill_before = step(options, "--kill-before")?;
    let kill_libvirtd_before = step(options, "--kill-libvirtd-before")?;
    let deadline = match option(options, "--deadline") {
        Some(words) => Duration::from_millis(words[0].parse()?),
        None => DEADLINE,
    };
    let journal = PathBuf::from(journal);
    let (libvirtd, is_killed) = (PathBuf::from(socket), AtomicBool::new(false));
    let hook: StepHook = Arc::new(move |step| {
        if Some(step) == kill_before {
            let _ = kill_process(getpid(), Signal::KILL);
        }
        if Some(step) == kill_libvirtd_before && !is_killed.swap(true, Ordering::Relaxed) {
            kill_listener(&libvirtd).expect("libvirtd runs");
        }
    });
    let driver: Box<dyn MachineDriver> = if socket.ends_with(".toml") {
        let config = QemuConfig { machines: PathBuf::from(socket), journal, hook };
        Box::new(QemuDriver::open(config).map_err(anyhow::Error::msg)?)
    } else {
        Box::new(LibvirtDriver::open(LibvirtConfig {
            host: host.clone(),
            target: Target::qemu(socket),
            journal,
            pools: option(options, "--pool").map(|words| words[0].clone()).into_iter().collect(),
            peers: Arc::new(SocketPeers(peer.clone().map(|(_, socket)| socket))),
            hook,
        })?)
    };
    let order = Order {
        id: OrderId { event: guid(event)?, machine: guid(machine)? },
        name: "machine".into(),
        action: parse_action(action, peer.map(|(address, _)| address))?,
        term: 1,
        epoch: None,
        deadline: Timestamp(i64::try_from((since_1970()? + deadline).as_millis())?),
    };
    let id = order.id;
    let outcome = driver.perform(order).await?;
    println!("{outcome}");
    driver.confirm(id)?;
    Ok(())
}

fn parse_action(text: &str, to: Option<HostAddress>) -> Result<Action> {
    let to = || to.context("the action needs --to");
    Ok(match text.split_once(':').unwrap_or((text, "")) {
        ("freeze", ms) => Action::Freeze { duration: Duration::from_millis(ms.parse()?) },
        ("reboot", _) => Action::Reboot(RebootMode::Hard),
        ("reboot-graceful", _) => Action::Reboot(RebootMode::Graceful),
        ("migrate", _) => Action::Migrate { to: to()? },
        ("redeploy", _) => Action::Redeploy { to: to()? },
        ("start", _) => Action::Start,
        ("stop", _) => Action::Stop,
        ("deallocate", _) => Action::Evict(Eviction::Deallocate),
        ("evict-delete", _) => Action::Evict(Eviction::Delete),
        ("terminate", _) => Action::Terminate,
        _ => bail!("there is no action '{text}'"),
    })
}

fn step(words: &[String], name: &str) -> Result<Option<Step>> {
    let step = option(words, name).map(|words| words[0].parse::<Step>()).transpose();
    step.map_err(anyhow::Error::msg)
}

fn kill_listener(socket: &Path) -> Result<()> {
    let stream = std::os::unix::net::UnixStream::connect(socket)?;
    let credentials = rustix::net::sockopt::socket_peercred(&stream)?;
    Ok(kill_process(credentials.pid, Signal::KILL)?)
}

fn option<'w>(words: &'w [String], name: &str) -> Option<&'w [String]> {
    let at = words.iter().position(|word| word == name)?;
    words.get(at + 1..).filter(|rest| !rest.is_empty())
}

/// The other host: its address, and its socket for the recovery of a migration.
fn peer(words: &[String]) -> Option<(HostAddress, PathBuf)> {
    let [name, socket, data, ..] = option(words, "--to")? else { return None };
    let uri = format!("qemu+unix:///system?socket={socket}");
    Some((HostAddress { name: name.clone(), uri, data_uri: Some(data.clone()) }, PathBuf::from(socket)))
}

fn guid(text: &str) -> Result<Guid> {
    Ok(Guid(u128::from_be_bytes(text.parse::<Uuid>()?.0)))
}

fn since_1970() -> Result<Duration> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?)
}

/// Asks the other host's libvirtd, which is on the same machine here.
struct SocketPeers(Option<PathBuf>);

impl Peers for SocketPeers {
    fn state_of(&self, _host: &str, machine: Guid) -> Pending<'_, PeerState> {
        Box::pin(async move {
            let Some(socket) = &self.0 else { return PeerState::Unknown };
            let Ok((connection, _events)) = Target::qemu(socket).connect().await else { return PeerState::Unknown };
            let domain = match connection.domain_by_uuid(Uuid(machine.0.to_be_bytes())).await {
                Ok(domain) => domain,
                Err(error) if error.is(ErrorCode::NO_DOMAIN) => return PeerState::Absent,
                Err(_) => return PeerState::Unknown,
            };
            match connection.state(&domain).await.map(|info| info.state) {
                Ok(State::Running | State::Blocked) => PeerState::Running,
                Ok(_) => PeerState::Paused,
                Err(_) => PeerState::Unknown,
            }
        })
    }
}
