//! A libvirtd for its test driver, `test:///default`: machines that exist only in memory.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::needs::{Need, can_run};

/// Hides the files of this machine's libvirt. The daemon ends with its namespace.
const SCRIPT: &str = r#"mount -t tmpfs tmpfs /run && mkdir /run/libvirt || exit
for dir in /etc/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt; do
    [ ! -d "$dir" ] || mount -t tmpfs tmpfs "$dir" || exit
done
exec libvirtd --config "$1""#;

/// Time limit for its start.
const START_MAX: Duration = Duration::from_secs(60);

/// Interval between two attempts to connect.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A libvirtd of its own for one test. Ends when dropped.
pub struct TestLibvirtd {
    child: Child,
    dir: TempDir,
}

impl TestLibvirtd {
    /// None, and a visible skip, if libvirtd is not installed.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[track_caller]
    pub fn start() -> Option<TestLibvirtd> {
        if !can_run(&[Need::Program("libvirtd"), Need::Program("unshare"), Need::NetworkNamespaces]) {
            return None;
        }
        let dir = TempDir::new().expect("a temporary directory");
        let conf = dir.path().join("libvirtd.conf");
        let sockets = dir.path().display();
        let text = format!("unix_sock_dir = \"{sockets}\"\nauth_unix_rw = \"none\"\nauth_unix_ro = \"none\"\n");
        fs::write(&conf, text).expect("a configuration file");
        let mut command = Command::new("unshare");
        if fs::metadata("/proc/self").is_ok_and(|process| process.uid() != 0) {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", SCRIPT, "sh"]).arg(conf);
        let log = fs::File::create(dir.path().join("log")).expect("a log");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        let child = command.spawn().expect("unshare runs");
        let daemon = TestLibvirtd { child, dir };
        daemon.wait();
        Some(daemon)
    }

    fn wait(&self) {
        let begun = Instant::now();
        while UnixStream::connect(self.socket()).is_err() {
            let log = || fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            assert!(begun.elapsed() < START_MAX, "libvirtd did not start:\n{}", log());
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("libvirt-sock")
    }

    /// Ends it with SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for TestLibvirtd {
    fn drop(&mut self) {
        self.kill();
    }
}
