//! Two hosts on one machine: each is a namespace of its own (network, host name, mounts, processes) with its own libvirtd.
//!
//! ```text
//!  host1  10.99.0.1  DIR/host1/libvirt-sock        host2  10.99.0.2  DIR/host2/libvirt-sock
//! ```
//!
//! Guests with a network interface share one link with both hosts and the metadata endpoint.
//!
//! libvirtd starts again when it ends, so that tests can kill it. QEMU processes belong to the first process of the
//! namespace, which takes them in when they end, and end with it.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result};

use crate::accept::netns::{METADATA, Namespace, Network, Node};
use crate::accept::wait;

/// The bridge to which guests are connected on each host.
const BRIDGE: &str = "guests";

pub const NAMES: [&str; 2] = ["host1", "host2"];

/// Directories of libvirt that each host has for itself.
const OWN_DIRS: [&str; 4] = ["/etc/libvirt", "/var/lib/libvirt", "/var/cache/libvirt", "/var/log/libvirt"];

/// Settings for machines without systemd, cgroups and security modules.
const QEMU_CONF: &str = r#"user = "root"
group = "root"
stdio_handler = "file"
security_driver = "none"
cgroup_controllers = [ ]
namespaces = [ ]
"#;

/// The pool of host 1, and the disk images that exist from the start: libvirt learns about files when a pool starts.
const POOL: &str = "images";
const IMAGES: [&str; 2] = ["images/pooled.img", "other.img"];
const IMAGE_BYTES: u64 = 1024 * 1024;

/// Starts both hosts, and waits until they accept connections. They end when the value is dropped.
pub fn start(dir: &Path) -> Result<Network> {
    create_pool(dir)?;
    let namespaces = (1..).zip(NAMES).map(|(number, name)| start_one(&dir.join(name), number, name));
    let network = Network::of(namespaces.collect::<Result<_>>()?)?;
    network.cloud.ip(&["address", "add", &format!("{METADATA}/32"), "dev", "br0"])?;
    network.nodes.iter().try_for_each(bridge_guests)?;
    network.check_no_way_out()?;
    for name in NAMES {
        let socket = dir.join(name).join("libvirt-sock");
        let ready = wait::until(&format!("libvirtd of {name}"), || Ok(UnixStream::connect(&socket).ok()));
        ready.with_context(|| fs::read_to_string(dir.join(name).join("log")).unwrap_or_default())?;
    }
    Ok(network)
}

/// Puts a bridge for guests between the host and its link.
fn bridge_guests(host: &Node) -> Result<()> {
    let ip = |arguments: &[&str]| host.namespace.ip(arguments).map(drop);
    ip(&["link", "add", BRIDGE, "type", "bridge"])?;
    ip(&["address", "flush", "dev", "eth0"])?;
    ip(&["link", "set", "eth0", "master", BRIDGE])?;
    ip(&["address", "add", &format!("{}/24", host.ip), "dev", BRIDGE])?;
    ip(&["link", "set", BRIDGE, "up"])
}

fn create_pool(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir.join(POOL))?;
    for image in IMAGES {
        fs::File::create(dir.join(image))?.set_len(IMAGE_BYTES)?;
    }
    let storage = dir.join(NAMES[0]).join("etc/libvirt/storage");
    fs::create_dir_all(storage.join("autostart"))?;
    let (file, path) = (format!("{POOL}.xml"), dir.join(POOL));
    let target = format!("<target><path>{}</path></target>", path.display());
    fs::write(storage.join(&file), format!("<pool type='dir'><name>{POOL}</name>{target}</pool>"))?;
    symlink(format!("/etc/libvirt/storage/{file}"), storage.join("autostart").join(&file))?;
    Ok(())
}

/// Prints what the libvirtds have logged.
pub fn print_logs(dir: &Path) {
    for name in NAMES {
        let log = fs::read_to_string(dir.join(name).join("log")).unwrap_or_default();
        eprintln!("── libvirtd of {name}:\n{log}");
    }
}

fn start_one(dir: &Path, number: u32, name: &str) -> Result<Namespace> {
    let mut script = String::from("mount -t tmpfs tmpfs /run && mkdir /run/libvirt /run/lock || exit\n");
    for own in OWN_DIRS {
        let copy = dir.join(own.trim_start_matches('/'));
        fs::create_dir_all(&copy)?;
        fs::create_dir_all(own)?;
        script.push_str(&format!("mount --bind {} {own} || exit\n", copy.display()));
    }
    let conf = format!(
        "unix_sock_dir = \"{}\"\nauth_unix_rw = \"none\"\nauth_unix_ro = \"none\"\n\
         host_uuid = \"00000000-0000-4000-8000-{number:012}\"\n",
        dir.display(),
    );
    fs::write(dir.join("etc/libvirt/libvirtd.conf"), conf)?;
    fs::write(dir.join("etc/libvirt/qemu.conf"), QEMU_CONF)?;
    script.push_str(&format!("while :; do libvirtd >> {}/log 2>&1 < /dev/null; done", dir.display()));
    Namespace::with_processes(name, &script)
}
