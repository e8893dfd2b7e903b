//! Output that only a terminal shows: the live view, the status line, colors. The terminal is a pseudo-terminal that the
//! test reads.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::support;
use crate::support::{Server, check};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

const ID: &str = "602D9444-D2CD-49C7-8624-8643E7171297";

/// Control sequences that enter and leave the alternate screen.
const SCREEN_TAKEN: &str = "\x1b[?1049h";
const SCREEN_BACK: &str = "\x1b[?1049l";

pub struct Terminal {
    ours: File,
    theirs: Option<OwnedFd>,
    child: Child,
    shown: Receiver<String>,
    seen: String,
}

/// Time limit for expected output.
const PATIENCE: Duration = Duration::from_secs(60);

/// Width of most terminals in these tests.
const COLUMNS: u16 = 100;

/// Width of a terminal that every list must fit.
const COLUMNS_FEW: u16 = 80;

impl Terminal {
    pub fn start(command: Command) -> Terminal {
        Terminal::with_columns(command, COLUMNS)
    }

    pub fn with_columns(mut command: Command, columns: u16) -> Terminal {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs: OwnedFd = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap().into();
        tcsetwinsize(&theirs, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let end = || Stdio::from(theirs.try_clone().unwrap());
        let child = command.env("TERM", "xterm").stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let ours = File::from(ours);
        let shown = read_on(ours.try_clone().unwrap());
        Terminal { ours, theirs: Some(theirs), child, shown, seen: String::new() }
    }

    /// Reads until the text appears.
    #[track_caller]
    pub fn until(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            match self.shown.recv_timeout(PATIENCE) {
                Ok(more) => self.seen += &more,
                Err(_) => panic!("{text:?} is not shown: {:?}", self.seen),
            }
        }
    }

    pub fn press(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(self.theirs.as_ref().unwrap()).unwrap().local_modes.contains(LocalModes::ECHO)
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    pub fn exit_code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// The exit code, and all output that was not read yet.
    pub fn rest(&mut self) -> (Option<i32>, String) {
        let code = self.exit_code();
        // The reading end gets its last bytes, then an error, once no writing end is left.
        self.theirs = None;
        while let Ok(more) = self.shown.recv_timeout(PATIENCE) {
            self.seen += &more;
        }
        (code, std::mem::take(&mut self.seen))
    }
}

fn read_on(mut from: File) -> Receiver<String> {
    let (to, shown) = channel();
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count) = from.read(&mut bytes) {
            if count == 0 || to.send(String::from_utf8_lossy(&bytes[..count]).into_owned()).is_err() {
                return;
            }
        }
    });
    shown
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn server_with_event() -> Server {
    let server = Server::start();
    check(&server, "vm create web_1 --no-address", 0, "…", "");
    server.document("web_1");
    check(&server, &format!("vm restart web_1 --no-wait --event-id {ID}"), 0, "…", "");
    server
}

#[test]
fn the_live_view_follows_changes_and_restores_the_screen() {
    let server = server_with_event();
    let mut view = Terminal::start(server.command("events watch"));
    view.until(SCREEN_TAKEN);
    view.until("15:00");
    assert!(view.is_raw());
    check(&server, "vm create zebra --no-address", 0, "…", "");
    view.until("zebra");
    view.press("a");
    view.until("Approve Reboot of web_1?");
    view.press("y");
    view.until("Approved.");
    check(&server, "events list", 0, "ID[..]\n[..]  Reboot  Started  [..]", "");
    view.press("q");
    view.until(SCREEN_BACK);
    assert_eq!(view.exit_code(), Some(0));
    assert!(!view.is_raw());
}

#[test]
fn a_terminated_view_restores_the_screen() {
    let server = server_with_event();
    let mut view = Terminal::start(server.command("events watch"));
    view.until("15:00");
    view.signal("TERM");
    view.until(SCREEN_BACK);
    assert_eq!(view.exit_code(), Some(0));
    assert!(!view.is_raw());
}

#[test]
fn the_view_reconnects_when_the_server_goes_away() {
    let server = server_with_event();
    let mut view = Terminal::start(server.command("events watch"));
    view.until("15:00");
    drop(server);
    view.until("Reconnecting");
    view.press("\x03");
    view.until(SCREEN_BACK);
    assert_eq!(view.exit_code(), Some(0));
}

#[test]
fn without_colors_the_selected_row_is_still_visible() {
    let server = server_with_event();
    let mut plain = server.command("events watch");
    plain.env("NO_COLOR", "1");
    let shown = Terminal::start(plain).until("15:00");
    assert!(shown.contains("\x1b[7m  Reboot") && !shown.contains("\x1b[38"), "{shown:?}");
    let shown = Terminal::start(server.command("events watch")).until("15:00");
    assert!(shown.contains("\x1b[38"), "{shown:?}");
}

#[test]
fn lines_can_be_printed_on_a_terminal() {
    let server = server_with_event();
    let mut lines = Terminal::start(server.command("events watch --lines"));
    let shown = lines.until("web_1");
    assert!(!shown.contains(SCREEN_TAKEN) && shown.contains("\x1b[33mScheduled\x1b[0m"), "{shown:?}");
    let mut plain = server.command("events list");
    plain.env("NO_COLOR", "1");
    let shown = Terminal::start(plain).until("web_1");
    assert!(!shown.contains('\x1b'), "{shown:?}");
}

#[test]
fn waiting_shows_the_remaining_time_and_the_approver() {
    let server = server_with_event();
    let mut waiting = Terminal::start(server.command(&format!("operation wait {ID}")));
    waiting.until("The clock is manual: run `forewarn clock advance 15m` to let time pass.");
    waiting.until("Reboot of web_1: 15:00 left");
    check(&server, "clock advance 1m", 0, "…", "");
    waiting.until("Reboot of web_1: 14:00 left");
    check(&server, &format!("events approve {ID}"), 0, "…", "");
    waiting.until("Reboot of web_1 is Started, approved by owner");
    check(&server, "clock advance 1h", 0, "…", "");
    waiting.until("Scheduled 10:00:00 · approved by owner 10:01:00 · Started 10:01:00 · Completed 10:11:00");
    assert_eq!(waiting.exit_code(), Some(0));
}

#[test]
fn the_server_prints_a_sign_in_link_only_on_a_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let serve = |name: &str| {
        let mut command = support::clean_command();
        command.args(["serve", "--metadata", "127.0.0.1:0", "--management", "127.0.0.1:0", "--management-tls", "off"]);
        command.args(["--log-level", "trace", "--data"]).arg(directory.path().join(name));
        command
    };
    let mut terminal = Terminal::start(serve("terminal"));
    terminal.until("portal      http://127.0.0.1:");
    terminal.until("/portal/sign-in?code=");
    let log = directory.path().join("log");
    let (file, errors) = (File::create(&log).unwrap(), File::options().append(true).open(&log).unwrap());
    let mut journal = serve("journal").stdout(file).stderr(errors).spawn().unwrap();
    let read = || std::fs::read_to_string(&log).unwrap();
    let begun = std::time::Instant::now();
    while !read().contains("try  ") && begun.elapsed() < PATIENCE {
        thread::yield_now();
    }
    journal.kill().unwrap();
    journal.wait().unwrap();
    let text = read();
    assert!(text.contains("(sign in with: forewarn portal)") && !text.contains("code="), "{text}");
}

#[test]
fn a_deletion_is_previewed_and_confirmed_on_a_terminal() {
    let server = Server::start();
    check(&server, "vm create web_1 --no-address", 0, "…", "");
    let mut asked = Terminal::start(server.command("vm delete web_1"));
    asked.until("Terminate of web_1: would be Started (without notice)");
    asked.until("Delete? [y/N] ");
    asked.press("n\n");
    asked.until("nothing was deleted");
    assert_eq!(asked.exit_code(), Some(1));
    check(&server, "vm show web_1", 0, "…", "");
    let mut asked = Terminal::start(server.command("vm delete web_1"));
    asked.until("Delete? [y/N] ");
    asked.press("y\n");
    asked.until("Completed");
    assert_eq!(asked.exit_code(), Some(0));
    check(&server, "vmss create set --instance-count 1", 0, "…", "");
    let mut asked = Terminal::start(server.command("vmss delete set"));
    asked.until("Terminate of set_");
    asked.until("Delete? [y/N] ");
    asked.press("n\n");
    asked.until("nothing was deleted");
    assert_eq!(asked.exit_code(), Some(1));
    check(&server, "vmss show set", 0, "…", "");
    let mut not_asked = Terminal::start(server.command("vmss delete set --yes"));
    let shown = not_asked.until("Completed");
    assert!(!shown.contains("[y/N]"), "{shown}");
    assert_eq!(not_asked.exit_code(), Some(0));
}

#[test]
fn a_view_without_a_server_is_an_ordinary_error() {
    let mut command = support::clean_command();
    command.args(["events", "watch", "--server", "127.0.0.1:1"]);
    let mut view = Terminal::start(command);
    let shown = view.until("connection refused");
    assert!(!shown.contains(SCREEN_TAKEN), "{shown:?}");
    assert_eq!(view.exit_code(), Some(3));
}

#[test]
fn an_interrupted_command_says_what_continues() {
    let server = server_with_event();
    let mut terminal = Terminal::start(server.command("vm redeploy web_1"));
    terminal.until("waiting for");
    terminal.signal("INT");
    terminal.until("Stopped waiting; the Redeploy of web_1 continues. Show it with `forewarn operation show ");
    assert_eq!(terminal.exit_code(), Some(130));
}

#[test]
fn an_interrupted_drain_says_that_it_continues() {
    let server = Server::start();
    check(&server, "vm create web_1 --no-address --host h1", 0, "…", "");
    check(&server, "host create h2", 0, "…", "");
    server.document("web_1");
    let mut drain = Terminal::start(server.command("host drain h1"));
    drain.until("Freeze of web_1: event ");
    drain.until("15:00 left, waiting for approval");
    drain.signal("INT");
    drain.until("Stopped waiting; the ");
    let said = drain.until("Show it with `forewarn operation show ");
    assert!(said.contains("continues"), "{said}");
    assert_eq!(drain.exit_code(), Some(130));
    check(&server, "host show h1", 0, "name      h1\nstate     Draining\n…", "");
    check(&server, "clock advance 1h", 0, "…", "");
    check(&server, "host show h1", 0, "name      h1\nstate     Drained\n…", "");
}

#[test]
fn an_interrupted_rollout_or_scenario_says_what_continues() {
    let server = server_with_event();
    let mut rollout = Terminal::start(server.command("rollout start --vm web_1 --type Redeploy"));
    rollout.until("0 of 1 steps");
    rollout.signal("INT");
    rollout.until("Stopped watching; the rollout continues. Show it with `forewarn rollout show ");
    let id = rollout.until("`").replace('`', "");
    rollout.until(&format!("stop it with `forewarn rollout stop {id}`."));
    assert_eq!(rollout.exit_code(), Some(130));
    let mut watch = Terminal::start(server.command(&format!("rollout watch {id}")));
    watch.until("0 of 1 steps");
    watch.signal("INT");
    watch.until(&format!("`forewarn rollout show {id}`"));
    assert_eq!(watch.exit_code(), Some(130));
    check(&server, &format!("rollout stop {id}"), 0, "…", "");

    let mut scenario = Terminal::start(server.command("scenario run user-reboot --handler"));
    scenario.until("Ctrl-C: stop waiting");
    scenario.signal("INT");
    scenario.until("Stopped waiting; run 1 continues. List runs with `forewarn scenario runs`, or stop it with ");
    scenario.until("`forewarn scenario stop 1`.");
    assert_eq!(scenario.exit_code(), Some(130));
    check(&server, "scenario runs", 0, "RUN[..]\n1    user-reboot  Running  [..]", "");
    check(&server, "scenario stop 1", 0, "Stopped run 1", "");
}

#[test]
fn a_restart_shows_its_steps_while_it_waits() {
    let server = Server::start();
    check(&server, "vm create web_1 --no-address", 0, "…", "");
    server.document("web_1");
    let mut restart = Terminal::start(server.command("vm restart web_1"));
    restart.until("Reboot of web_1: event ");
    let id = restart.until(",").replace(',', "");
    restart.until("Reboot of web_1: 15:00 left, waiting for approval");
    check(&server, &format!("events approve {id}"), 0, "…", "");
    restart.until("10:00:00  Reboot of web_1 approved by owner");
    restart.until("10:00:00  Reboot of web_1 started");
    check(&server, "clock advance 1h", 0, "…", "");
    restart.until("Scheduled 10:00:00 · approved by owner 10:00:00 · Started 10:00:00 · Completed 10:10:00");
    assert_eq!(restart.exit_code(), Some(0));
}

/// Names that are longer than their columns.
fn server_with_long_names() -> Server {
    let server = Server::start();
    for line in [
        "vmss create -g production-of-the-shop -n workers-of-the-shop --instance-count 2 --orchestration-mode Flexible",
        "vmss update -g production-of-the-shop -n workers-of-the-shop --terminate-notification-time 7m30s",
        "vmss update-instances -g production-of-the-shop -n workers-of-the-shop",
        "vmss create -g production-of-the-shop -n uniform-of-the-shop --instance-count 1 --orchestration-mode Uniform",
        "vm create -g production-of-the-shop -n database-of-the-shop --spot --host host-number-01-of-the-shop --zone zone-1-of-the-shop",
        "vm create -g production-of-the-shop -n frontend-of-the-shop --vmss workers-of-the-shop --host host-number-01-of-the-shop --zone zone-1-of-the-shop",
        "vm create -g production-of-the-shop -n database-on-two-networks --address 10.1.2.100 --address storage-network=10.1.2.101",
        "availability-set create -g production-of-the-shop -n availability-of-the-shop",
        "cloud-service create -g production-of-the-shop -n service-of-the-shop",
        "host update host-number-01-of-the-shop --pool pool-number-01-of-the-shop",
        "webhook create notifications-of-the-shop --url http://127.0.0.1:1/a/long/path/of/a/receiver/of/messages/of/the/shop",
        "fault add --vm production-of-the-shop/database-of-the-shop --status 503 --retry-after 30s --count 1000 --for 10m",
        "maintenance start --vm frontend-of-the-shop --type Redeploy --description maintenance-of-the-shop --no-wait",
        "rollout start --vm database-on-two-networks --type Reboot --no-wait",
        "scenario run user-reboot --handler --no-wait",
    ] {
        let output = server.run(line);
        assert!(output.status.success(), "{line}: {}", support::text(&output.stderr));
        if line.contains("-n frontend") {
            server.document("production-of-the-shop/frontend-of-the-shop");
        }
    }
    server
}

#[test]
fn lists_fit_80_columns() {
    let server = server_with_long_names();
    for (list, columns) in [
        ("vm list", "NAME GROUP SET POWER HANDLER UD HOST ADDRESSES"),
        ("vm requests frontend-of-the-shop", "NO TIME METHOD PATH VERSION STATUS NOTES"),
        ("vmss list", "NAME GROUP CAPACITY COUNT HANDLER MODE UPGRADE PRIORITY"),
        ("vmss list-instances workers-of-the-shop", "ID NAME POWER HANDLER UD ZONE LATEST PROTECTED NOTICE"),
        ("vmss list-instances uniform-of-the-shop", "ID NAME POWER HANDLER UD ZONE LATEST PROTECTED NOTICE"),
        ("availability-set list", "NAME RESOURCE GROUP MACHINES HANDLER UPDATE DOMAINS FAULT DOMAINS"),
        ("cloud-service list", "NAME RESOURCE GROUP MACHINES HANDLER UPDATE DOMAINS FAULT DOMAINS"),
        ("host list", "NAME STATE POOL COUNT MACHINES"),
        ("host drain host-number-01-of-the-shop --dry-run", "MACHINE EVENT TO HANDLER"),
        ("events list", "ID TYPE STATUS NOT BEFORE RESOURCES APPROVED"),
        ("events list --all", "ID TYPE STATUS NOT BEFORE RESOURCES APPROVED"),
        ("operation list", "ID OPERATION STATE DESCRIPTION WAITS FOR REQUESTED REQUESTED BY"),
        ("rollout list", "ID TYPE STATE STEPS FAILED DESCRIPTION REQUESTED BY"),
        ("rollout start --vm database-of-the-shop --type Reboot --dry-run", "STEP MACHINES ANNOUNCED ENDS"),
        ("history", "TIME CHANGE MACHINES ACTOR EVENT"),
        ("fault list", "ID MACHINE FAULT LIFE MET"),
        ("webhook list", "NAME URL STATE DELIVERED BEHIND GIVEN UP"),
        ("scenario list", "NAME MACHINE TITLE"),
        ("scenario runs", "RUN SCENARIO STATE STEPS STARTED"),
    ] {
        let mut command = server.command(list);
        command.env("NO_COLOR", "1");
        let (code, shown) = Terminal::with_columns(command, COLUMNS_FEW).rest();
        assert_eq!(code, Some(0), "{list}: {shown}");
        let head = shown.lines().next().unwrap_or_default();
        assert_eq!(head.split_whitespace().collect::<Vec<_>>().join(" "), columns, "{list}: {shown}");
        for line in shown.lines() {
            assert!(line.trim_end().chars().count() <= usize::from(COLUMNS_FEW), "{list}: {line:?}");
        }
    }
}
