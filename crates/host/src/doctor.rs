//! `forewarn host doctor`: checks whether this computer can be a host. Pure: facts go in, findings come out.

mod qemu;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use forewarn_drivers::qemu::SocketProbe;

use qemu::check_qemu;

/// The facts about this computer that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub is_root: bool,
    /// The release of the kernel, such as 6.1.0-18-amd64.
    pub kernel: String,
    pub driver: DriverFact,
    /// Names of bridges.
    pub bridges: Vec<String>,
    /// The interfaces that have the metadata address.
    pub metadata_interfaces: Vec<String>,
    /// `net.ipv4.tcp_fwmark_accept`; None if the kernel does not have it.
    pub fwmark_accept: Option<bool>,
    pub has_nft: bool,
    /// Whether guests are to be identified by their network interfaces.
    pub needs_marks: bool,
    pub enrollment: EnrollmentFact,
    /// How far the clock of this host is ahead of the server's, in milliseconds. None: no agent with a health listener runs,
    /// or it has had no contact.
    pub clock_ahead_ms: Option<i64>,
}

/// The requirements of the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DriverFact {
    /// The driver needs nothing.
    #[default]
    Nothing,
    Libvirt(LibvirtFact),
    Qemu(QemuFact),
}

/// The socket of libvirtd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LibvirtFact {
    #[default]
    Missing,
    /// There is a socket, but nothing that answers, or no permission.
    Refused(String),
    Works,
}

/// The machines of the QEMU driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QemuFact {
    /// The file that names the machines, and what is in it or why it cannot be used. None if no file is configured.
    pub file: Option<PathBuf>,
    pub machines: Result<Vec<QemuMachineFact>, String>,
    pub journal: PathBuf,
    /// Why the journal cannot be written.
    pub journal_problem: Option<String>,
}

/// A machine of the QEMU driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QemuMachineFact {
    pub name: String,
    pub vm_id: String,
    pub qmp: PathBuf,
    pub socket: SocketProbe,
    /// Why a command of the machine cannot run, and how to fix that.
    pub command_problem: Option<(String, String)>,
}

/// Whether the host has joined a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EnrollmentFact {
    #[default]
    Missing,
    Broken(String),
    Joined {
        host: String,
        /// Days until the certificate expires; negative afterwards.
        days_left: i64,
    },
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub check: String,
    pub verdict: Verdict,
    pub detail: String,
    /// How to fix it.
    pub fix: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Good,
    /// The agent works, with limits.
    Limited,
    Bad,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Good => "ok",
            Verdict::Limited => "limited",
            Verdict::Bad => "bad",
        })
    }
}

/// The oldest kernel with the features that agents use: marks on accepted sockets on bridges with nftables.
const KERNEL_MIN: (u32, u32) = (5, 10);

/// All checks, in the order in which problems are best fixed.
pub fn examine(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![check_root(facts), check_kernel(facts)];
    match &facts.driver {
        DriverFact::Nothing => {}
        DriverFact::Libvirt(libvirt) => findings.push(check_libvirt(libvirt)),
        DriverFact::Qemu(qemu) => findings.extend(check_qemu(qemu)),
    }
    findings.extend([check_bridge(facts), check_address(facts), check_nft(facts), check_fwmark(facts)]);
    findings.push(check_enrollment(facts));
    findings.extend(facts.clock_ahead_ms.map(check_clock));
    findings
}

/// A larger difference confuses the readers of logs. Orders are not affected: the agent converts their deadlines.
const CLOCK_AHEAD_MAX: Duration = Duration::from_secs(5);

fn check_clock(ahead_ms: i64) -> Finding {
    let difference = Duration::from_millis(ahead_ms.unsigned_abs());
    let relation = if ahead_ms < 0 { "behind" } else { "ahead of" };
    let detail = format!("{:.1} s {relation} the server's", difference.as_secs_f64());
    if difference <= CLOCK_AHEAD_MAX {
        return good("clock", detail);
    }
    problem("clock", Verdict::Limited, detail, "synchronize the clocks with NTP: apt install systemd-timesyncd")
}

fn good(check: &str, detail: impl Into<String>) -> Finding {
    Finding { check: check.to_owned(), verdict: Verdict::Good, detail: detail.into(), fix: None }
}

fn problem(check: &str, verdict: Verdict, detail: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { check: check.to_owned(), verdict, detail: detail.into(), fix: Some(fix.into()) }
}

fn check_root(facts: &Facts) -> Finding {
    if facts.is_root {
        return good("user", "root");
    }
    problem("user", Verdict::Limited, "not root: some checks are incomplete", "run forewarn host doctor with sudo")
}

fn check_kernel(facts: &Facts) -> Finding {
    let mut numbers = facts.kernel.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= KERNEL_MIN {
        return good("kernel", facts.kernel.clone());
    }
    let needed = format!("install Linux {}.{} or newer", KERNEL_MIN.0, KERNEL_MIN.1);
    problem("kernel", Verdict::Bad, format!("{} is too old", facts.kernel), needed)
}

fn check_libvirt(libvirt: &LibvirtFact) -> Finding {
    let check = "libvirt";
    match libvirt {
        LibvirtFact::Works => good(check, "libvirtd answers"),
        LibvirtFact::Missing => problem(
            check,
            Verdict::Bad,
            "there is no socket of libvirtd",
            "apt install libvirt-daemon-system && systemctl enable --now libvirtd, or name the socket with --libvirt-socket",
        ),
        LibvirtFact::Refused(reason) => problem(
            check,
            Verdict::Bad,
            format!("libvirtd does not answer: {reason}"),
            "systemctl restart libvirtd, and run the agent as root or in the group libvirt",
        ),
    }
}

fn check_bridge(facts: &Facts) -> Finding {
    if !facts.bridges.is_empty() {
        return good("bridge", facts.bridges.join(", "));
    }
    let fix = "virsh net-start default, or create one: ip link add br0 type bridge && ip link set br0 up";
    problem("bridge", Verdict::Bad, "there is no bridge for guests", fix)
}

fn check_address(facts: &Facts) -> Finding {
    let check = "169.254.169.254";
    let bridge = facts.bridges.first().map_or("br0", String::as_str);
    let add =
        format!("ip address add 169.254.169.254/32 dev {bridge}, and make it permanent in the network configuration");
    let Some(interface) = facts.metadata_interfaces.first() else {
        let detail = "no interface has this address, so guests cannot reach the agent";
        return problem(check, Verdict::Bad, detail, add);
    };
    let on_bridge = facts.metadata_interfaces.iter().find(|name| facts.bridges.contains(name));
    match (on_bridge, facts.needs_marks) {
        (Some(bridge), true) => good(check, format!("on {bridge}, whose guests stay at this host")),
        (Some(bridge), false) => good(check, format!("on {bridge}")),
        (None, false) => good(check, format!("on {interface}")),
        (None, true) => {
            let detail = format!(
                "on {interface}, which is not a bridge: if the bridges of several hosts form one network, guests can reach \
                 the endpoint of another host"
            );
            problem(check, Verdict::Limited, detail, add)
        }
    }
}

fn check_nft(facts: &Facts) -> Finding {
    if facts.has_nft {
        return good("nft", "installed");
    }
    let detail = "not installed: guests can only be identified by address";
    problem("nft", verdict_of_marks(facts), detail, "apt install nftables")
}

/// The verdict if guests cannot be identified by their network interfaces.
fn verdict_of_marks(facts: &Facts) -> Verdict {
    if facts.needs_marks { Verdict::Bad } else { Verdict::Limited }
}

fn check_fwmark(facts: &Facts) -> Finding {
    let check = "net.ipv4.tcp_fwmark_accept";
    match facts.fwmark_accept {
        Some(true) => good(check, "1"),
        Some(false) => problem(
            check,
            verdict_of_marks(facts),
            "0: guests can only be identified by address",
            "sysctl -w net.ipv4.tcp_fwmark_accept=1, and write it to /etc/sysctl.d/forewarn.conf",
        ),
        None => {
            let fix = "use a kernel with CONFIG_NET, outside of a container without /proc/sys";
            problem(check, verdict_of_marks(facts), "the kernel does not have this setting", fix)
        }
    }
}

fn check_enrollment(facts: &Facts) -> Finding {
    let check = "enrollment";
    let join = "run `forewarn host token NAME` on the server and `forewarn host join URL --token TOKEN` here";
    match &facts.enrollment {
        EnrollmentFact::Missing => problem(check, Verdict::Bad, "this host has not joined a server", join),
        EnrollmentFact::Broken(reason) => problem(check, Verdict::Bad, reason.clone(), join),
        EnrollmentFact::Joined { host, days_left } if *days_left < 0 => {
            problem(check, Verdict::Bad, format!("the certificate of '{host}' has expired"), join)
        }
        EnrollmentFact::Joined { host, days_left } => {
            good(check, format!("joined as '{host}'; the certificate is valid for {days_left} days"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn healthy() -> Facts {
        Facts {
            is_root: true,
            kernel: "6.1.0-18-amd64".into(),
            driver: DriverFact::Libvirt(LibvirtFact::Works),
            bridges: vec!["virbr0".into()],
            metadata_interfaces: vec!["virbr0".into()],
            fwmark_accept: Some(true),
            has_nft: true,
            needs_marks: false,
            enrollment: EnrollmentFact::Joined { host: "node1".into(), days_left: 20 },
            clock_ahead_ms: Some(-40),
        }
    }

    #[track_caller]
    pub fn check(facts: &Facts, name: &str, verdict: Verdict, fix: &str) {
        let findings = examine(facts);
        for finding in &findings {
            assert_eq!(finding.fix.is_some(), finding.verdict != Verdict::Good, "{finding:?}");
            let expected = if finding.check == name { verdict } else { Verdict::Good };
            assert_eq!(finding.verdict, expected, "{finding:?}");
        }
        let found = findings.iter().find(|finding| finding.check == name).unwrap();
        assert!(found.fix.as_deref().unwrap_or_default().contains(fix), "{found:?}");
    }

    #[test]
    fn a_prepared_host_passes() {
        check(&healthy(), "kernel", Verdict::Good, "");
    }

    #[test]
    fn each_problem_has_its_own_fix() {
        let facts = healthy;
        check(&Facts { is_root: false, ..facts() }, "user", Verdict::Limited, "sudo");
        check(&Facts { kernel: "4.19.0".into(), ..facts() }, "kernel", Verdict::Bad, "Linux 5.10");
        let driver = |fact| Facts { driver: DriverFact::Libvirt(fact), ..facts() };
        check(&driver(LibvirtFact::Missing), "libvirt", Verdict::Bad, "apt install libvirt");
        let refused = LibvirtFact::Refused("permission denied".into());
        check(&driver(refused), "libvirt", Verdict::Bad, "restart libvirtd");
        check(&Facts { bridges: vec![], ..facts() }, "bridge", Verdict::Bad, "type bridge");
        let address = Facts { metadata_interfaces: vec![], ..facts() };
        check(&address, "169.254.169.254", Verdict::Bad, "dev virbr0");
        let lo = Facts { metadata_interfaces: vec!["lo".into()], ..facts() };
        check(&lo, "169.254.169.254", Verdict::Good, "");
        check(&Facts { needs_marks: true, ..lo }, "169.254.169.254", Verdict::Limited, "dev virbr0");
        check(&Facts { has_nft: false, ..facts() }, "nft", Verdict::Limited, "nftables");
        check(&Facts { has_nft: false, needs_marks: true, ..facts() }, "nft", Verdict::Bad, "nftables");
        for setting in [None, Some(false)] {
            for (needs_marks, verdict) in [(false, Verdict::Limited), (true, Verdict::Bad)] {
                let fwmark = Facts { fwmark_accept: setting, needs_marks, ..facts() };
                check(&fwmark, "net.ipv4.tcp_fwmark_accept", verdict, "");
            }
        }
        for enrollment in [
            EnrollmentFact::Missing,
            EnrollmentFact::Broken("identity.json is invalid".into()),
            EnrollmentFact::Joined { host: "node1".into(), days_left: -1 },
        ] {
            check(&Facts { enrollment, ..facts() }, "enrollment", Verdict::Bad, "forewarn host join");
        }
    }

    #[test]
    fn a_clock_that_differs_from_the_servers_is_a_limit() {
        for (ahead_ms, detail) in [(65_000, "65.0 s ahead of the server's"), (-5_100, "5.1 s behind the server's")] {
            let facts = Facts { clock_ahead_ms: Some(ahead_ms), ..healthy() };
            check(&facts, "clock", Verdict::Limited, "NTP");
            assert_eq!(check_clock(ahead_ms).detail, detail);
        }
        assert!(examine(&Facts { clock_ahead_ms: None, ..healthy() }).iter().all(|finding| finding.check != "clock"));
    }

    #[test]
    fn kernel_releases_are_compared_by_number() {
        for (kernel, verdict) in
            [("5.10.0", Verdict::Good), ("5.9.16", Verdict::Bad), ("10.0", Verdict::Good), ("", Verdict::Bad)]
        {
            assert_eq!(check_kernel(&Facts { kernel: kernel.into(), ..healthy() }).verdict, verdict, "{kernel}");
        }
    }
}
