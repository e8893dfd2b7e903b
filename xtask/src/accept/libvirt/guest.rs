//! The guest: Debian's cloud kernel and an initramfs with busybox. It prints its boot ID on the serial console, then a
//! line per second, and powers off when the power button is pressed. With `address=` on its kernel command line, its handler
//! is the static `forewarn-agent` with a hook that prints each event before the agent approves it. Beside that, two loops print what
//! they see: one polls the metadata endpoint, the other always holds a request until the document changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::cpio::Archive;
use crate::setup::Download;
use crate::sh;

pub const KERNEL: Download = Download::Newest("linux-image-cloud-amd64");
pub const BUSYBOX: Download = Download::Unpacked("busybox-static");

/// The modules for network and power button. Those they need are found in the modules: that differs between kernels, even
/// between updates of one release.
const MODULES: &[&str] = &["virtio_pci", "virtio_net", "evdev", "button"];

const DIRECTORIES: [&str; 14] = [
    "bin",
    "dev",
    "etc",
    "etc/acpi",
    "etc/acpi/PWRF",
    "etc/forewarn-agent",
    "etc/forewarn-agent/hooks",
    "modules",
    "proc",
    "sys",
    "var",
    "var/lib",
    "var/log",
    "var/run",
];

/// The interface and the power button appear some time after their modules were loaded. The button has no effect before acpid
/// listens, and acpid opens only devices that exist when it starts.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do insmod "/modules/$module" 2>/dev/null; done
printf '#!/bin/sh\npoweroff -f\n' > /etc/acpi/PWRF/00000080
chmod +x /etc/acpi/PWRF/00000080
button() { sed -n '/Power Button/,/^$/s/.*\(event[0-9]*\).*/\1/p' /proc/bus/input/devices | head -n 1; }
until [ -e "/dev/input/$(button)" ] && [ -n "$(button)" ]; do sleep 0.1; done
acpid
until ls -l "/proc/$(pidof acpid)/fd" 2>/dev/null | grep -q "/dev/input/$(button)"; do sleep 0.1; done
id=$(cat /proc/sys/kernel/random/boot_id)
echo "boot id $id"
address=$(sed -n 's/.* address=\([^ ]*\).*/\1/p' /proc/cmdline)
url='http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01'
handle() { forewarn-agent 2>&1 | while read -r line; do echo "agent: $line"; done; }
observe() {
    while :; do
        document=$(timeout 3 wget -q -O - --header 'Metadata: true' "$url")
        if [ -n "$document" ] && [ "$document" != "$last" ]; then echo "document $document"; last=$document; fi
        sleep 0.3
    done
}
hold() {
    etag=0
    while :; do
        document=$(timeout 20 wget -q -O - --header 'Metadata: true' --header "If-None-Match: $etag" "$url&wait=15")
        case $document in
        '{'*) etag=${document#*'"DocumentIncarnation":'} etag=${etag%%,*}; echo "held $document" ;;
        *) sleep 0.3 ;;
        esac
    done
}
if [ -n "$address" ]; then
    until ip link set eth0 up 2>/dev/null; do sleep 0.1; done
    ip address add "$address/24" dev eth0
    ip route add 169.254.169.254 dev eth0
    handle &
    observe &
    hold &
fi
n=0
while :; do n=$((n + 1)); echo "beat $id $n"; sleep 1; done
"#;

/// The hook of the guest's agent. It prints past the agent's log.
const HOOK: &str = "#!/bin/sh\necho \"notice $EVENT_TYPE $EVENT_ID\" > /dev/console\n";

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
    for name in DIRECTORIES {
        archive.dir(name);
    }
    archive.program("etc/forewarn-agent/hooks/prepare", HOOK.as_bytes());
    archive.program("init", INIT.as_bytes());
    archive.program("bin/busybox", &fs::read(BUSYBOX.path()?.join("bin/busybox"))?);
    archive.program("bin/forewarn-agent", &fs::read(sh::built("forewarn-agent")?)?);
    let files = modules(kernel)?;
    let mut loaded: Vec<(String, Vec<u8>)> = Vec::new();
    for name in MODULES {
        load(name, &files, &mut loaded)?;
    }
    ensure!(loaded.iter().any(|(name, _)| name == "virtio_net"), "the kernel package has no module virtio_net");
    for (name, bytes) in &loaded {
        archive.file(&format!("modules/{name}.ko"), bytes);
    }
    let order: String = loaded.iter().map(|(name, _)| format!("{name}.ko\n")).collect();
    archive.file("modules/order", order.as_bytes());
    Ok(archive.finish())
}

/// Adds a module after those it needs. A module without a file is built into the kernel.
fn load(name: &str, files: &[PathBuf], loaded: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    let Some(path) = files.iter().find(|path| module_name(path).is_some_and(|found| is_same_module(found, name)))
    else {
        return Ok(());
    };
    if loaded.iter().any(|(other, _)| other == name) {
        return Ok(());
    }
    let bytes = read_module(path)?;
    for needed in needed_modules(&bytes) {
        load(&needed, files, loaded)?;
    }
    loaded.push((name.to_owned(), bytes));
    Ok(())
}

/// File names may have hyphens where module names have underscores.
fn is_same_module(file: &str, name: &str) -> bool {
    file.replace('-', "_") == name
}

/// The names in the field `depends` of a module, which is a text that ends with a zero byte.
fn needed_modules(module: &[u8]) -> Vec<String> {
    const FIELD: &[u8] = b"\0depends=";
    let Some(start) = module.windows(FIELD.len()).position(|window| window == FIELD) else { return Vec::new() };
    let text = module[start + FIELD.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(text).into_owned();
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_after_those_they_need() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, needed: &str| {
            let path = dir.path().join(format!("{name}.ko"));
            fs::write(&path, format!("license=GPL\0depends={needed}\0name={name}\0")).unwrap();
            path
        };
        let files = [file("virtio_net", "virtio,built_in"), file("virtio", "virtio_ring"), file("virtio_ring", "")];
        let mut loaded = Vec::new();
        for name in ["virtio_net", "virtio"] {
            load(name, &files, &mut loaded).unwrap();
        }
        let names: Vec<&str> = loaded.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["virtio_ring", "virtio", "virtio_net"]);
        assert_eq!(needed_modules(b"no such field"), Vec::<String>::new());
    }
}
