//! The guest: Debian's cloud kernel and an initramfs with busybox. It prints its boot ID on the serial console, then a
//! line per second, and powers off when the power button is pressed. With `address=` on its kernel command line it polls
//! the metadata endpoint, prints each new document, and approves events.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::cpio::Archive;
use crate::setup::Download;

pub const KERNEL: Download = Download::Newest("linux-image-cloud-amd64");
pub const BUSYBOX: Download = Download::Unpacked("busybox-static");

/// The modules for network and power button, each after those it needs.
const MODULES: &[&str] = &[
    "failover",
    "net_failover",
    "virtio",
    "virtio_ring",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "virtio_net",
    "evdev",
    "button",
];

/// Kernels have some of the modules built in, so a module that cannot be loaded is no error.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do insmod "/modules/$module" 2>/dev/null; done
printf '#!/bin/sh\npoweroff -f\n' > /etc/acpi/PWRF/00000080
chmod +x /etc/acpi/PWRF/00000080
acpid
id=$(cat /proc/sys/kernel/random/boot_id)
echo "boot id $id"
address=$(sed -n 's/.* address=\([^ ]*\).*/\1/p' /proc/cmdline)
url='http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01'
ask() { timeout 3 wget -q -O - --header 'Metadata: true' "$@" "$url"; }
handle() {
    while :; do
        document=$(ask)
        if [ -n "$document" ] && [ "$document" != "$last" ]; then echo "document $document"; last=$document; fi
        case $document in *'"EventStatus":"Scheduled"'*)
            event=${document##*'"EventId":"'} event=${event%%'"'*}
            ask --post-data "{\"StartRequests\":[{\"EventId\":\"$event\"}]}" && echo "approved $event" ;;
        esac
        sleep 0.3
    done
}
if [ -n "$address" ]; then
    ip link set eth0 up
    ip address add "$address/24" dev eth0
    ip route add 169.254.169.254 dev eth0
    handle &
fi
n=0
while :; do n=$((n + 1)); echo "beat $id $n"; sleep 1; done
"#;

/// Writes `kernel` and `initrd` to a directory.
pub fn build(dir: &Path) -> Result<()> {
    let files = KERNEL.path()?;
    let kernel = only_child(&files.join("boot"), "vmlinuz-")?;
    fs::copy(kernel, dir.join("kernel"))?;
    fs::write(dir.join("initrd"), initramfs(&files)?)?;
    Ok(())
}

fn initramfs(kernel: &Path) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for name in
        ["bin", "dev", "etc", "etc/acpi", "etc/acpi/PWRF", "modules", "proc", "sys", "var", "var/log", "var/run"]
    {
        archive.dir(name);
    }
    archive.program("init", INIT.as_bytes());
    archive.program("bin/busybox", &fs::read(BUSYBOX.path()?.join("bin/busybox"))?);
    let mut order = String::new();
    let found = modules(kernel)?;
    for name in MODULES {
        let Some(path) = found.iter().find(|path| module_name(path) == Some(name)) else { continue };
        archive.file(&format!("modules/{name}.ko"), &read_module(path)?);
        order.push_str(&format!("{name}.ko\n"));
    }
    ensure!(order.contains("virtio_net"), "the kernel package has no module virtio_net");
    archive.file("modules/order", order.as_bytes());
    Ok(archive.finish())
}

/// All files of kernel modules. Debian 13 keeps them below `usr`.
fn modules(kernel: &Path) -> Result<Vec<PathBuf>> {
    let roots = ["lib/modules", "usr/lib/modules"].map(|dir| kernel.join(dir));
    let mut next: Vec<PathBuf> = roots.into_iter().filter(|dir| dir.is_dir()).collect();
    let mut found = Vec::new();
    while let Some(dir) = next.pop() {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let list = if entry.file_type()?.is_dir() { &mut next } else { &mut found };
            list.push(entry.path());
        }
    }
    Ok(found)
}

fn module_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.split_once(".ko").map(|(name, _)| name)
}

fn read_module(path: &Path) -> Result<Vec<u8>> {
    if path.extension().is_some_and(|end| end == "ko") {
        return Ok(fs::read(path)?);
    }
    let output = Command::new("xz").arg("-dc").arg(path).output().context("cannot run xz")?;
    ensure!(output.status.success(), "cannot unpack {}", path.display());
    Ok(output.stdout)
}

fn only_child(dir: &Path, prefix: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_wanted = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
    paths.find(is_wanted).with_context(|| format!("{} has no {prefix}*", dir.display()))
}
