//! `forewarn run`, as root and as an unprivileged user, with programs that do not know of it. The metadata address is
//! used only in private networks.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::support::transcript::{self, lines_match};
use crate::support::{FOREWARN, Server, clean_command, document, text};
use forewarn_test_support::{Need, can_run, poll_until};

/// Every test of this file runs programs in a network of their own.
const NEEDS: &[Need] =
    &[Need::NetworkNamespaces, Need::Program("curl"), Need::Program("ip"), Need::Program("/usr/bin/python3")];

const DOCUMENT: &str =
    "curl -sS -m 10 -H Metadata:true http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01";

/// The user that runs `forewarn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum User {
    /// The user that runs the tests.
    Ours,
    /// A user without privileges, if root runs the tests.
    Unprivileged,
}

const USERS: [User; 2] = [User::Ours, User::Unprivileged];

/// `forewarn` for a user; the binary is copied where that user cannot reach it.
struct Forewarn {
    user: User,
    program: PathBuf,
    _copy: Option<tempfile::TempDir>,
}

impl Forewarn {
    fn of(user: User) -> Forewarn {
        let ours = PathBuf::from(FOREWARN);
        if user == User::Ours || ours.ancestors().skip(1).all(others_may_enter) {
            return Forewarn { user, program: ours, _copy: None };
        }
        let copy = tempfile::tempdir().unwrap();
        std::fs::set_permissions(copy.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = copy.path().join("forewarn");
        std::fs::copy(ours, &program).unwrap();
        Forewarn { user, program, _copy: Some(copy) }
    }

    /// Without a home, and in a directory that is not writable.
    fn command(&self, words: &str, program: &[&str]) -> Command {
        let ours = clean_command();
        let is_root = rustix::process::geteuid().is_root();
        let mut command = match (self.user, is_root) {
            (User::Unprivileged, true) => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]).arg(&self.program);
                command
            }
            (User::Unprivileged, false) | (User::Ours, _) => Command::new(&self.program),
        };
        for (name, value) in ours.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.current_dir("/proc").arg("run").args(words.split_whitespace()).arg("--").args(program);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, words: &str, program: &[&str]) -> Output {
        self.command(words, program).output().unwrap()
    }

    fn sh(&self, words: &str, script: &str) -> Output {
        self.run(words, &["sh", "-c", script])
    }
}

fn others_may_enter(directory: &Path) -> bool {
    std::fs::metadata(directory).is_ok_and(|facts| facts.permissions().mode() & 0o001 != 0)
}

#[track_caller]
fn expect(output: &Output, code: i32, stdout: &str, stderr: &str) {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let same = output.status.code() == Some(code)
        && lines_match(&lines(stdout), &lines(&out))
        && lines_match(&lines(stderr), &lines(&err));
    assert!(same, "{}\n--- stdout\n{out}\n--- stderr\n{err}", output.status);
}

const NOTICE: &str = "forewarn: management http://127.0.0.1:[..] (try: forewarn vm restart [..])";

#[test]
fn a_program_reaches_the_metadata_endpoint_as_its_machine() {
    if !can_run(NEEDS) {
        return;
    }
    for user in USERS {
        let forewarn = Forewarn::of(user);
        let name = "curl -sS -H Metadata:true \
            'http://169.254.169.254/metadata/instance/compute/name?api-version=2021-02-01&format=text'";
        let output = forewarn.sh("--vm web_0", &format!("{DOCUMENT}; echo; {name}; echo; uname -n; id -u"));
        let id = if user == User::Unprivileged && rustix::process::geteuid().is_root() {
            "65534".into()
        } else {
            rustix::process::geteuid().to_string()
        };
        expect(&output, 0, &format!("{{\"DocumentIncarnation\":1,\"Events\":[]}}\nweb_0\nweb_0\n{id}"), NOTICE);
        expect(&forewarn.sh("-q", "printf x"), 0, "x", "");
    }
}

#[test]
fn the_transcripts_in_run_md_are_true() {
    transcript::run_alone("docs/run.md", &document("docs/run.md"));
}

#[test]
fn the_private_network_has_no_route_out() {
    if !can_run(NEEDS) {
        return;
    }
    let script = "import socket\n\
        lines = open('/proc/net/route').read().splitlines()[1:]\n\
        print('routes', len(lines))\n\
        for line in open('/proc/net/ipv6_route'):\n    assert line.split()[-1] == 'lo', line\n\
        for host in ['192.0.2.1', '10.0.0.1', '169.254.169.253']:\n\
        \x20   try: socket.create_connection((host, 80), 5); print('reached', host)\n\
        \x20   except OSError as error: print(host, error.errno)\n\
        print(sorted(name for _, name in socket.if_nameindex()))\n";
    let unreachable = "101";
    let expected =
        format!("routes 0\n192.0.2.1 {unreachable}\n10.0.0.1 {unreachable}\n169.254.169.253 {unreachable}\n['lo']");
    for user in USERS {
        expect(&Forewarn::of(user).run("-q", &["/usr/bin/python3", "-c", script]), 0, &expected, "");
    }
}

#[test]
fn a_handler_sees_an_event_and_approves_it() {
    if !can_run(NEEDS) {
        return;
    }
    let handler = "import json, sys, time, urllib.request\n\
        url = 'http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01'\n\
        def ask(data=None):\n\
        \x20   return urllib.request.urlopen(urllib.request.Request(url, data, {'Metadata': 'true'})).read()\n\
        print('polls', len(json.loads(ask())['Events']), flush=True)\n\
        while not (events := json.loads(ask())['Events']): time.sleep(0.02)\n\
        ask(json.dumps({'StartRequests': [{'EventId': events[0]['EventId']}]}).encode())\n\
        print(events[0]['EventType'], events[0]['Resources'], json.loads(ask())['Events'][0]['EventStatus'])\n";
    for user in USERS {
        let forewarn = Forewarn::of(user);
        let mut child =
            forewarn.command("--vm web_0 --notice-scale 10", &["/usr/bin/python3", "-c", handler]).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "polls 0\n");
        let server = management(&mut child);
        let restart = ["vm", "restart", "web_0", "--no-wait", "--server", &server];
        let restarted = clean_command().args(restart).output().unwrap();
        assert!(text(&restarted.stdout).starts_with("Reboot of web_0: event "), "{restarted:?}");
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "Reboot ['web_0'] Started\n");
        assert!(child.wait().unwrap().success());
    }
}

/// The management address in the first line on standard error.
fn management(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    line.split_whitespace().nth(2).unwrap_or_else(|| panic!("{line:?}")).to_owned()
}

#[test]
fn the_program_can_schedule_events_itself() {
    if !can_run(NEEDS) {
        return;
    }
    let forewarn = Forewarn::of(User::Unprivileged);
    let program = forewarn.program.display();
    let script = format!("{DOCUMENT} >/dev/null && {program} vm restart web_0 --no-wait && {DOCUMENT}");
    let expected = "Reboot of web_0: event [..]\nOperation [..]\n{\"DocumentIncarnation\":2,[..]\"Reboot\"[..]}";
    expect(&forewarn.sh("-q --vm web_0 --clock manual", &script), 0, expected, "");
}

#[test]
fn an_event_can_be_scheduled_before_the_program_starts() {
    if !can_run(NEEDS) {
        return;
    }
    let scheduled =
        "{\"DocumentIncarnation\":2,\"Events\":[{[..]\"EventStatus\":\"Scheduled\",\"EventType\":\"Redeploy\"[..]";
    expect(&Forewarn::of(User::Unprivileged).sh("-q --schedule redeploy", DOCUMENT), 0, scheduled, "");
    let server = Server::start();
    assert!(server.run("vm register web_1 --no-address").status.success());
    let words = format!("--schedule redeploy --vm web_1 --server {}", server.management);
    expect(&Forewarn::of(User::Unprivileged).sh(&words, DOCUMENT), 0, scheduled, "");
}

#[test]
fn evictions_and_deletions_can_be_scheduled_too() {
    if !can_run(NEEDS) {
        return;
    }
    for (kind, seen) in [("preempt", "Preempt"), ("Terminate", "Terminate")] {
        let document = format!("{{\"DocumentIncarnation\":2,\"Events\":[[..]\"EventType\":\"{seen}\"[..]");
        expect(&Forewarn::of(User::Unprivileged).sh(&format!("-q --schedule {kind}"), DOCUMENT), 0, &document, "");
    }
    let server = Server::start();
    assert!(server.run("vm register web_1 --no-address").status.success());
    let without = format!("-q --schedule terminate --vm web_1 --server {}", server.management);
    let sentence = "forewarn: web_1 has no terminate notification, [..] `forewarn vm update web_1 --terminate-notification-time 5`";
    expect(&Forewarn::of(User::Unprivileged).sh(&without, DOCUMENT), 125, "", sentence);
    assert!(server.run("vm show web_1").status.success(), "it is still there");
}

#[test]
fn exit_codes_are_the_programs_own() {
    if !can_run(NEEDS) {
        return;
    }
    for user in USERS {
        let forewarn = Forewarn::of(user);
        for code in [0, 1, 77] {
            expect(&forewarn.sh("-q", &format!("exit {code}")), code, "", "");
        }
        assert_eq!(forewarn.sh("-q", "kill -KILL $$").status.signal(), Some(9));
        expect(
            &forewarn.run("-q", &["/nonexistent/program"]),
            127,
            "",
            "forewarn: cannot run '/nonexistent/program': No such file or directory",
        );
        let hint = "make it executable with: chmod +x '/etc/passwd'";
        let message = format!("forewarn: cannot run '/etc/passwd': Permission denied; {hint}");
        expect(&forewarn.run("-q", &["/etc/passwd"]), 126, "", &message);
    }
}

#[test]
fn signals_reach_the_program() {
    if !can_run(NEEDS) {
        return;
    }
    let program = "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n\
        print('ready', flush=True)\nsignal.pause()\n";
    for user in USERS {
        let forewarn = Forewarn::of(user);
        let mut child = forewarn.command("-q", &["/usr/bin/python3", "-c", program]).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(3));
    }
}

#[test]
fn standard_input_reaches_the_program() {
    if !can_run(NEEDS) {
        return;
    }
    let forewarn = Forewarn::of(User::Unprivileged);
    let mut child = forewarn.command("-q", &["cat"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    expect(&child.wait_with_output().unwrap(), 0, "one\ntwo", "");
}

/// The program is the foreground process group of the terminal, gets Ctrl-C alone, and the server keeps running.
#[test]
fn the_terminal_belongs_to_the_program() {
    if !can_run(NEEDS) {
        return;
    }
    let program = "import os, signal, subprocess, sys\n\
        signal.signal(signal.SIGINT, signal.default_int_handler)\n\
        assert os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()\n\
        try: print('ready', flush=True); signal.pause()\n\
        except KeyboardInterrupt: print('interrupted', flush=True)\n\
        print(subprocess.check_output(sys.argv[1].split()).decode(), input(), flush=True)\n\
        sys.exit(5)\n";
    let terminal = "import os, pty, sys\n\
        pid, master = pty.fork()\n\
        if pid == 0: os.execvp(sys.argv[1], sys.argv[1:])\n\
        seen = b''\n\
        def until(text):\n\
        \x20   global seen\n\
        \x20   while text not in seen: seen += os.read(master, 1000)\n\
        until(b'ready'); os.write(master, b'\\x03')\n\
        until(b'interrupted'); os.write(master, b'typed\\n')\n\
        until(b'[]} typed')\n\
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n";
    for user in USERS {
        let forewarn = Forewarn::of(user);
        let inner = forewarn.command("-q", &["/usr/bin/python3", "-c", program, DOCUMENT]);
        let mut outer = Command::new("/usr/bin/python3");
        outer.args(["-c", terminal]).arg(inner.get_program()).args(inner.get_args()).env("HOME", "/nonexistent");
        expect(&outer.env_remove("FOREWARN_SERVER").output().unwrap(), 0, "5", "");
    }
}

#[test]
fn reach_makes_ports_of_the_host_reachable() {
    if !can_run(NEEDS) {
        return;
    }
    let outside = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = outside.local_addr().unwrap().port();
    let script = format!("curl -sS -m 10 http://127.0.0.1:{port}/");
    let served = std::thread::spawn(move || {
        let (mut stream, _) = outside.accept().unwrap();
        let mut head = [0; 4096];
        assert!(stream.read(&mut head).unwrap() > 0);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\noutside").unwrap();
    });
    let forewarn = Forewarn::of(User::Unprivileged);
    expect(&forewarn.sh("-q", &script), 7, "", "curl: (7) [..]");
    expect(&forewarn.sh(&format!("-q --reach {port}"), &script), 0, "outside", "");
    served.join().unwrap();
}

#[test]
fn nothing_keeps_running_after_the_program_is_killed() {
    if !can_run(NEEDS) {
        return;
    }
    for user in USERS {
        let forewarn = Forewarn::of(user);
        let mut child = forewarn.command("", &["sh", "-c", "sleep 1000 & echo $!; wait"]).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let server = management(&mut child);
        let address = server.strip_prefix("http://").unwrap();
        assert!(TcpStream::connect(address).is_ok());
        child.kill().unwrap();
        child.wait().unwrap();
        poll_until("the end of what the program started", || is_gone(line.trim()).then_some(()));
        poll_until("the end of the server", || TcpStream::connect(address).is_err().then_some(()));
    }
}

/// A zombie counts as gone.
fn is_gone(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .map_or(true, |stat| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z')))
}

/// A shell that waits for all its children would otherwise wait forever.
#[test]
fn the_program_has_no_unexpected_children() {
    if !can_run(NEEDS) {
        return;
    }
    let program = "import os\ntry: os.wait()\nexcept ChildProcessError: print('none')\n";
    expect(&Forewarn::of(User::Unprivileged).run("-q", &["/usr/bin/python3", "-c", program]), 0, "none", "");
}

#[test]
fn an_existing_server_can_be_used() {
    if !can_run(NEEDS) {
        return;
    }
    let server = Server::start();
    for name in ["web_1", "web_2"] {
        assert!(server.run(&format!("vm register {name} --no-address")).status.success());
    }
    let forewarn = Forewarn::of(User::Unprivileged);
    let named = format!("--server {}", server.management);
    expect(&forewarn.sh(&format!("{named} --vm web_1"), DOCUMENT), 0, "{\"DocumentIncarnation\":1,\"Events\":[]}", "");
    let list = text(&server.run("vm list").stdout);
    let has_handler = |name: &str| list.lines().any(|line| line.starts_with(name) && line.contains("yes"));
    assert!(has_handler("web_1") && !has_handler("web_2"), "{list}");

    expect(
        &forewarn.sh(&format!("{named} --vm web_9"), "echo never"),
        125,
        "",
        "forewarn: [..]web_9[..] Choose another machine with --vm, or create it with `forewarn vm create web_9 --no-address`",
    );
    expect(
        &forewarn.sh(&format!("{named} --vm web_1 --metadata http://127.0.0.1:1"), "echo never"),
        125,
        "",
        "forewarn: cannot reach the metadata endpoint at http://127.0.0.1:1: [..]; set its address with --metadata",
    );
    let by_environment =
        forewarn.command("--vm web_2", &["sh", "-c", DOCUMENT]).env("FOREWARN_SERVER", &server.management).output();
    expect(&by_environment.unwrap(), 0, "{\"DocumentIncarnation\":1,\"Events\":[]}", "");
}

#[test]
fn the_program_does_not_get_our_secrets() {
    if !can_run(NEEDS) {
        return;
    }
    let server = Server::start();
    let forewarn = Forewarn::of(User::Ours);
    assert!(server.run("vm register web_1 --no-address").status.success());
    let named = format!("--vm web_1 --server {}", server.management);
    let script = "env | grep -c 'hush'; env | grep FOREWARN_ | sort";
    let mut command = forewarn.command(&named, &["sh", "-c", script]);
    for name in ["FOREWARN_TOKEN", "FOREWARN_CLIENT_SECRET", "FOREWARN_MANAGEMENT_TLS_KEY"] {
        command.env(name, "hush");
    }
    let expected = format!("0\nFOREWARN_SERVER={}", server.management);
    expect(&command.output().unwrap(), 0, &expected, "");
}

#[test]
fn errors_are_reported_before_the_program_runs() {
    let forewarn = Forewarn::of(User::Ours);
    for (words, code, stderr) in [
        (
            "--server http://127.0.0.1:1 --clock manual",
            2,
            "forewarn: --clock configures a temporary server and cannot be used with --server or FOREWARN_SERVER",
        ),
        (
            "--server http://127.0.0.1:1",
            125,
            "forewarn: cannot reach the server at http://127.0.0.1:1: connection refused; [..]",
        ),
        (
            "--vm a/b",
            2,
            "forewarn: invalid machine name \"a/b\" for --vm: use 1 to 128 letters, digits, '_', '.', '(', ')' or '-'",
        ),
        (
            "--notice-scale 0",
            2,
            "forewarn: --notice-scale: invalid value \"0\": expected a whole number from 1 to 100000",
        ),
        ("--reach 0", 2, "error: invalid value '0' for '--reach <PORT>': [..]\n…"),
    ] {
        expect(&forewarn.sh(words, "echo never"), code, "", stderr);
    }
}

/// Simulates forbidden namespaces by a limit of zero.
#[test]
fn a_system_without_namespaces_is_offered_alternatives() {
    if !can_run(NEEDS) {
        return;
    }
    let forbid = "echo 0 > /proc/sys/user/max_net_namespaces && exec \"$@\"";
    let inner = Forewarn::of(User::Ours).command("", &["echo", "never"]);
    let mut outer = Command::new("unshare");
    outer.args(["--user", "--map-root-user", "sh", "-c", forbid, "sh"]).arg(inner.get_program()).args(inner.get_args());
    let expected = "forewarn: cannot set up a private network ([..]): [..]; run as root (`sudo forewarn run …`), or allow user \
        namespaces[..]; alternatively, run the program next to `forewarn serve` with the metadata address \
        http://127.0.0.1:8169/vm/NAME; see docs/run.md";
    expect(&outer.env_remove("FOREWARN_SERVER").output().unwrap(), 125, "", expected);
}

/// Runs in a private network.
#[test]
fn link_local_adds_and_removes_the_address() {
    if !can_run(NEEDS) {
        return;
    }
    let script = r#"set -eu
        ip link set lo up
        set -- serve --memory --no-auth --link-local --metadata 127.0.0.1:0 --management 127.0.0.1:0 --log-level warn
        mkfifo "$DIR/announced"
        "$FOREWARN" "$@" > "$DIR/announced" & server=$!
        while read -r what rest; do [ "$what" != try ] || break; done < "$DIR/announced"
        curl -sS -m 10 -H Metadata:true 'http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01'; echo
        "$FOREWARN" "$@" 2>&1 || echo "exit code $?"
        kill $server; wait $server && echo ended
        ip -4 -o address show dev lo | wc -l
        ip address add 169.254.169.254/32 dev lo
        "$FOREWARN" "$@" 2>&1 || echo "exit code $?""#;
    let directory = tempfile::tempdir().unwrap();
    let mut outer = Command::new("unshare");
    outer.args(["--user", "--map-root-user", "--net", "sh", "-c", script]);
    outer.env("FOREWARN", FOREWARN).env("DIR", directory.path()).env_remove("FOREWARN_SERVER");
    let refused = "forewarn: 169.254.169.254 is already in use, so --link-local does not add it: [..]\nexit code 1";
    let expected = format!("{{\"DocumentIncarnation\":1,\"Events\":[]}}\n{refused}\nended\n1\n{refused}");
    expect(&outer.output().unwrap(), 0, &expected, "");
}
