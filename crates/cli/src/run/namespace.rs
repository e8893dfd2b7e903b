//! A private network for the process: only a loopback interface, which has the metadata address, and no route to other
//! networks. The host name is that of the machine, because many handlers look for it in the list of affected machines.
//!
//! Root gets a network and a UTS namespace. Other users get a user namespace around them that maps only their own user and
//! group.

use std::net::{Ipv4Addr, TcpListener};
use std::{fs, io};

use forewarn_loopback::{METADATA, netlink};
use rustix::process::{getegid, geteuid};
use rustix::system::sethostname;
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// The limit of Linux. A machine with a longer name keeps the host name of this computer.
const HOST_NAME_BYTES_MAX: usize = 64;

/// A step that failed.
#[derive(Debug)]
pub struct NamespaceError {
    what: &'static str,
    error: io::Error,
}

/// The listeners in the namespace.
pub struct NamespaceListeners {
    pub metadata: TcpListener,
    pub loopback: Vec<TcpListener>,
}

/// Moves this process into new namespaces, with the host name of `machine`. Requires a process without threads.
pub fn enter(machine: &str, ports: &[u16]) -> Result<NamespaceListeners, NamespaceError> {
    unshare().map_err(failed_to("creating a namespace"))?;
    if machine.len() <= HOST_NAME_BYTES_MAX {
        sethostname(machine.as_bytes()).map_err(|error| failed_to("setting the host name")(error.into()))?;
    }
    netlink::enable_loopback().map_err(failed_to("enabling the loopback interface"))?;
    netlink::add_to_loopback(METADATA).map_err(failed_to("adding the metadata address"))?;
    let metadata = TcpListener::bind((METADATA, 80)).map_err(failed_to("opening a listener"))?;
    let bind = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port));
    let loopback = ports.iter().map(bind).collect::<io::Result<_>>().map_err(failed_to("opening a listener"))?;
    Ok(NamespaceListeners { metadata, loopback })
}

fn failed_to(what: &'static str) -> impl Fn(io::Error) -> NamespaceError {
    move |error| NamespaceError { what, error }
}

impl NamespaceError {
    /// The problem, and what to do about it.
    pub fn message(&self) -> String {
        let NamespaceError { what, error } = self;
        let allow = find_forbidding_sysctl().map_or(String::new(), |switch| format!(" (`sudo sysctl -w {switch}`)"));
        format!(
            "cannot set up a private network ({what}): {error}; run as root (`sudo forewarn run …`), or allow user namespaces{allow}; {}",
            super::INSTEAD
        )
    }
}

/// The kernel setting that most likely forbids user namespaces, with the value that allows them.
fn find_forbidding_sysctl() -> Option<&'static str> {
    let is = |path: &str, value: &str| fs::read_to_string(path).is_ok_and(|text| text.trim() == value);
    if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        return Some("kernel.apparmor_restrict_unprivileged_userns=0");
    }
    if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        return Some("kernel.unprivileged_userns_clone=1");
    }
    is("/proc/sys/user/max_user_namespaces", "0").then_some("user.max_user_namespaces=10000")
}

fn unshare() -> io::Result<()> {
    let (user, group) = (geteuid(), getegid());
    // A user namespace would take access to other users' files from root.
    let namespaces = UnshareFlags::NEWNET | UnshareFlags::NEWUTS;
    if user.is_root() && unshare_into(namespaces).is_ok() {
        return Ok(());
    }
    unshare_into(UnshareFlags::NEWUSER | namespaces)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

#[allow(unsafe_code, reason = "rustix has no safe form of it; the unsafe flags are not used")]
fn unshare_into(namespaces: UnshareFlags) -> io::Result<()> {
    // SAFETY: unsharing the file descriptor table would be unsafe. `FILES` is never passed, and the process has one
    // thread.
    Ok(unsafe { unshare_unsafe(namespaces) }?)
}
