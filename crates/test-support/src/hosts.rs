//! Guests on the two hosts that `cargo xtask accept libvirt` provides.
//!
//! A guest boots Debian's kernel and prints its boot ID, then a line per second, on its console. The console is a file
//! that both hosts append to, so a migration leaves one log.

use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::needs::{Need, can_run};

/// Names the directory with the hosts.
const HOSTS: &str = "XTASK_HOSTS";

/// Names the network namespace in which a server is reached at the metadata address.
const CLOUD: &str = "XTASK_CLOUD";

/// Followed by the number of a host, names its network namespace.
const HOST: &str = "XTASK_HOST";

/// Omits work of the kernel that takes a sixth of the processor time of an emulated boot and that no test needs.
const FAST_BOOT: &str = "mitigations=off nokaslr init_on_alloc=0 cryptomgr.notests";

/// Time limit for a guest to boot. It takes 5 s on an idle machine.
const BOOT_MAX: Duration = Duration::from_secs(240);

/// A wait that takes longer than this is reported past the harness's output capture, with the load of the machine: it tells a guest
/// that hangs from one that gets no processor time.
const SLOW: Duration = Duration::from_secs(30);

/// Interval at which a console is read.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Two hosts with libvirtd.
#[derive(Clone, Debug)]
pub struct Hosts {
    dir: PathBuf,
}

impl Hosts {
    /// None, and a visible skip, if this is not an acceptance run.
    #[track_caller]
    pub fn from_environment() -> Option<Hosts> {
        can_run(&[Need::Variable(HOSTS)]).then(|| Hosts { dir: std::env::var_os(HOSTS).unwrap_or_default().into() })
    }

    /// A command on a host, with its network and its view of `/sys`.
    pub fn host_command(&self, number: usize, program: &str) -> std::process::Command {
        let mut command = std::process::Command::new("nsenter");
        let network = std::env::var(format!("{HOST}{number}")).unwrap_or_default();
        command.arg(format!("--net={network}")).arg(format!("--mount={}", network.replace("/ns/net", "/ns/mnt")));
        command.args(["--", program]);
        command
    }

    /// The socket of the libvirtd of host 1 or 2.
    pub fn socket(&self, number: usize) -> PathBuf {
        self.dir.join(format!("host{number}/libvirt-sock"))
    }

    /// The libvirtd of a host as the other host reaches it.
    pub fn peer_uri(&self, number: usize) -> String {
        format!("qemu+unix:///system?socket={}", self.socket(number).display())
    }

    /// Address for the data of a migration to a host.
    pub fn data_uri(&self, number: usize) -> String {
        format!("tcp://10.99.0.{number}")
    }

    /// Kills the libvirtd of a host with SIGKILL. It starts again by itself.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn kill_libvirtd(&self, number: usize) {
        let stream = UnixStream::connect(self.socket(number)).expect("libvirtd runs");
        let credentials = rustix::net::sockopt::socket_peercred(&stream).expect("a Unix socket has credentials");
        rustix::process::kill_process(credentials.pid, Signal::KILL).expect("libvirtd can be killed");
    }

    /// A guest that is not defined yet. The number makes its UUID.
    pub fn guest(&self, name: &str, number: u32) -> Guest {
        Guest::new(&self.dir, name, number)
    }

    /// A disk image that is a volume of the pool `images` of host 1.
    pub fn pooled_image(&self) -> PathBuf {
        self.dir.join("images/pooled.img")
    }

    /// A disk image that is in no pool.
    pub fn other_image(&self) -> PathBuf {
        self.dir.join("other.img")
    }

    /// A directory for other files of a test.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// A command in the namespace in which a server is reached at the metadata address.
pub fn cloud_command(program: &str) -> std::process::Command {
    let mut command = std::process::Command::new("nsenter");
    let namespace = std::env::var(CLOUD).unwrap_or_default();
    command.arg(format!("--net={namespace}")).args(["--", program]);
    command
}

/// A guest.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The name of the domain.
    pub name: String,
    /// The UUID of the domain.
    pub uuid: String,
    /// Disk images. The guest does not use them.
    pub disks: Vec<PathBuf>,
    /// Its IPv4 address. With one, the guest polls the metadata endpoint and approves events.
    pub address: Option<String>,
    /// Whether it has a network interface even without an address.
    pub has_interface: bool,
    dir: PathBuf,
}

impl Guest {
    pub(crate) fn new(dir: &Path, name: &str, number: u32) -> Guest {
        let uuid = format!("5c4e4f50-0000-4000-8000-{number:012}");
        Guest { name: name.into(), uuid, dir: dir.to_owned(), disks: Vec::new(), address: None, has_interface: false }
    }

    /// The command line of the kernel.
    pub(crate) fn kernel_options(&self) -> String {
        let address = self.address.as_ref().map(|address| format!(" address={address}")).unwrap_or_default();
        format!("console=ttyS0 quiet panic=-1 {FAST_BOOT}{address}")
    }

    /// The definition of the domain. Never with KVM, which hangs on machines that only seem to have it.
    pub fn xml(&self) -> String {
        let Guest { name, uuid, dir, disks, address, has_interface } = self;
        let options = self.kernel_options();
        let interface = if address.is_some() || *has_interface { self.interface() } else { String::new() };
        let (dir, console) = (dir.display(), self.console().display().to_string());
        let disk = |(letter, path): (char, &PathBuf)| {
            let path = path.display();
            format!("<disk type='file' device='disk'><source file='{path}'/><target dev='vd{letter}'/></disk>")
        };
        let disks: String = ('a'..).zip(disks).map(disk).collect();
        format!(
            "<domain type='qemu'>
  <name>{name}</name>
  <uuid>{uuid}</uuid>
  <memory unit='MiB'>128</memory>
  <vcpu>1</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>{dir}/kernel</kernel>
    <initrd>{dir}/initrd</initrd>
    <cmdline>{options}</cmdline>
  </os>
  <features><acpi/></features>
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>restart</on_reboot>
  <on_crash>destroy</on_crash>
  <devices>
    {disks}{interface}
    <controller type='usb' model='none'/>
    <serial type='file'><source path='{console}' append='on'/><target port='0'/></serial>
    <memballoon model='none'/>
  </devices>
</domain>"
        )
    }

    /// The MAC address of a guest with an interface.
    pub fn mac(&self) -> String {
        let digits: String = self.uuid.chars().rev().take(4).collect::<Vec<_>>().into_iter().rev().collect();
        format!("52:54:00:ab:{}:{}", &digits[..2], &digits[2..])
    }

    /// The network interface of a guest that has one.
    fn interface(&self) -> String {
        let mac = self.mac();
        format!(
            "<interface type='bridge'><mac address='{mac}'/><source bridge='guests'/><model type='virtio'/>\
             <rom enabled='no'/></interface>"
        )
    }

    pub(crate) fn console(&self) -> PathBuf {
        self.dir.join(format!("{}.console", self.name))
    }

    /// The complete lines on the console.
    pub fn lines(&self) -> Vec<String> {
        let text = fs::read(self.console()).unwrap_or_default();
        // The last line may be incomplete.
        let text = String::from_utf8_lossy(&text).into_owned();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// The boot IDs that the guest has printed, one per boot.
    pub fn boot_ids(&self) -> Vec<String> {
        self.lines().iter().filter_map(|line| line.split_once("boot id ").map(|(_, id)| id.to_owned())).collect()
    }

    /// The number of the line with which the current boot begins.
    pub fn last_boot_line(&self) -> usize {
        self.lines().iter().rposition(|line| line.contains("boot id ")).unwrap_or(0)
    }

    /// The last line that the guest has counted in its current boot.
    pub fn beat(&self) -> Option<u64> {
        let id = self.boot_ids().pop()?;
        let prefix = format!("beat {id} ");
        self.lines().iter().rev().find_map(|line| line.strip_prefix(&prefix)?.parse().ok())
    }

    /// Waits until the guest has booted this often, and returns the last boot ID.
    ///
    /// # Panics
    ///
    /// If that takes too long, or the guest has booted more often.
    pub async fn wait_for_boot(&self, boots: usize) -> String {
        let ids = self.wait(&format!("{boots} boots"), || Some(self.boot_ids()).filter(|ids| ids.len() >= boots)).await;
        assert_eq!(ids.len(), boots, "{} has booted too often", self.name);
        ids.last().cloned().unwrap_or_default()
    }

    /// Waits until the guest has counted on.
    ///
    /// # Panics
    ///
    /// If that takes too long.
    pub async fn wait_for_beat(&self) -> u64 {
        let before = self.beat();
        self.wait("a sign of life", || self.beat().filter(|beat| Some(*beat) != before)).await
    }

    fn report_slow(&self, what: &str) {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let (name, secs, last) = (&self.name, SLOW.as_secs(), self.lines().pop().unwrap_or_default());
        let line =
            format!("slow: {secs} s without {what} of {name}; load {}; last on its console: {last}", load.trim());
        // Not `eprintln!`, which the harness captures.
        let _ = writeln!(std::io::stderr(), "{line}");
    }

    /// Waits until `look` finds something.
    ///
    /// # Panics
    ///
    /// If that takes too long.
    pub async fn wait<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let begun = Instant::now();
        let mut is_reported = false;
        loop {
            if let Some(found) = look() {
                return found;
            }
            let console = || self.lines().join("\n");
            assert!(begun.elapsed() < BOOT_MAX, "timed out waiting for {what} of {}:\n{}", self.name, console());
            if begun.elapsed() > SLOW && !is_reported {
                is_reported = true;
                self.report_slow(what);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}
