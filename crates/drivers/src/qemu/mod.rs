//! The QEMU driver: carries out orders on machines that run without libvirt, over their QMP sockets.
//!
//! The journal is the only memory. The sequences of steps are those of [`crate::journaled`], and these:
//!
//! ```text
//!  Evict      begun → system_powerdown (quit after 30 s) → down → cleanup → delete disks
//!  Terminate  begun → quit → down → cleanup → delete disks
//! ```
//!
//! Machines do not move: a Redeploy on a single host is a graceful reboot, and any other move fails. If QEMU dies, the
//! order continues with its start command. A QEMU that does not answer is asked again until the deadline, and longer if
//! the order may have paused it. The file that names the machines is never written.

mod driver;
mod file;
mod host;
mod launch;
mod probe;
mod qmp;
mod watch;

pub use driver::{QemuConfig, QemuDriver};
pub use file::{QemuMachine, read_machines};
pub use probe::{SocketProbe, probe};
