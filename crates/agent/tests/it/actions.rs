//! Tests of the built-in actions: against real nginx, HAProxy and curl, a socket in place of journald, and scripts in
//! place of systemctl and kubectl that record their arguments. `kubernetes` uses the real kubectl.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::support::{Guest, TIMEOUT, World, poll_until};
use forewarn_core::MachineId;
use forewarn_test_support::{Need, can_run};

/// Machine `web` with an agent that is watching.
struct Case {
    world: World,
    machine: MachineId,
    guest: Guest,
}

impl Case {
    fn new(config: impl FnOnce(&Guest) -> String) -> Case {
        let world = World::new();
        let (machine, url) = world.machine("web", |_| {});
        let mut guest = Guest::new(&url);
        guest.config(&config(&guest));
        guest.start();
        world.wait_until_on(machine);
        Case { world, machine, guest }
    }

    fn restart(&self) {
        self.world.restart(self.machine, 0xE1);
    }

    /// Waits until the event has started, then finishes it.
    fn end(&self) {
        self.world.wait_until_started(0xE1);
        self.world.advance(600);
    }
}

#[track_caller]
fn check_rejected(config: &str, message: &str) {
    let guest = Guest::new("http://127.0.0.1:1");
    guest.config(config);
    let output = guest.output("run");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains(message) && text.lines().count() == 1, "{message:?}: {text}");
}

/// Parses a datagram in journald's native protocol.
fn parse_fields(mut datagram: &[u8]) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    while !datagram.is_empty() {
        let end = datagram.iter().position(|byte| *byte == b'\n').expect("a line ends");
        let line = std::str::from_utf8(&datagram[..end]).unwrap();
        datagram = &datagram[end + 1..];
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => {
                let (length, rest) = datagram.split_at(8);
                let length = usize::try_from(u64::from_le_bytes(length.try_into().unwrap())).unwrap();
                datagram = &rest[length + 1..];
                (line, String::from_utf8(rest[..length].to_vec()).unwrap())
            }
        };
        assert_eq!(fields.insert(name.to_owned(), value), None, "{name} comes twice");
    }
    fields
}

#[test]
fn the_journal_gets_the_event_as_fields() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let next = || {
        let mut buffer = vec![0; 65536];
        let count = socket.recv(&mut buffer).unwrap();
        parse_fields(&buffer[..count])
    };
    let case = Case::new(|_| format!("[[action]]\njournal.socket = '{}'", path.display()));
    case.restart();
    let prepare = next();
    assert!(prepare["MESSAGE"].starts_with("Reboot of web not before "), "{prepare:?}");
    for (name, value) in [
        ("PRIORITY", "5"),
        ("SYSLOG_IDENTIFIER", "forewarn-agent"),
        ("FOREWARN_PHASE", "prepare"),
        ("FOREWARN_EVENT_ID", "00000000-0000-0000-0000-0000000000E1"),
        ("FOREWARN_EVENT_TYPE", "Reboot"),
        ("FOREWARN_EVENT_STATUS", "Scheduled"),
        ("FOREWARN_EVENT_RESOURCES", "web"),
        ("FOREWARN_EVENT_SOURCE", "User"),
        ("FOREWARN_EVENT_DURATION_SECONDS", "-1"),
    ] {
        assert_eq!(prepare.get(name).map(String::as_str), Some(value), "{name} of {prepare:?}");
    }
    assert_eq!(prepare["MESSAGE_ID"].len(), 32);
    assert_eq!(next()["MESSAGE"], "Reboot of web has started");
    case.end();
    assert_eq!(next()["MESSAGE"], "Reboot of web has finished");
    case.guest.wait_for_log("action journal.restore succeeded");
    check_rejected(
        "[[action]]\njournal.socket = '/no/such'",
        "cannot run the action journal: cannot use the journal socket",
    );
    check_rejected("[[action]]\njournal.socket = '/dev/null'", "/dev/null is not a socket");
}

/// Web server that sends these statuses in turn, repeating the last one, and passes on the requests.
fn start_webhook(statuses: &'static [&'static str]) -> (String, Receiver<(String, String)>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}/hook?a=\"b", listener.local_addr().unwrap());
    let (sender, requests) = channel();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(reader.read_line(&mut head).unwrap() > 0);
            }
            let length =
                head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.expect("a length")];
            reader.read_exact(&mut body).unwrap();
            let status = statuses[number.min(statuses.len() - 1)];
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
            if sender.send((head, String::from_utf8(body).unwrap())).is_err() {
                return;
            }
        }
    });
    (url, requests)
}

#[test]
fn a_webhook_is_retried_and_its_secrets_are_on_no_command_line() {
    if !can_run(&[Need::Program("curl")]) {
        return;
    }
    let (url, requests) = start_webhook(&["503 Busy", "429 Slow", "204 Fine"]);
    let case = Case::new(|guest| {
        let curl = write_fake(guest, "curl", "exec curl \"$@\"");
        format!(
            "[[action]]\nwebhook.url = '{url}'\nwebhook.timeout = '50s'\nwebhook.curl = '{curl}'\n\
             webhook.headers.Authorization = 'Bearer \\x'"
        )
    });
    case.restart();
    for _attempt in 0..3 {
        let (head, body) = requests.recv_timeout(TIMEOUT).unwrap();
        assert!(head.starts_with("POST /hook?a="), "{head}");
        assert!(head.contains("Authorization: Bearer \\x\r\n"), "{head}");
        assert!(head.contains("Content-Type: application/json\r\n"), "{head}");
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&body["phase"], &body["event"]["EventType"]), (&"prepare".into(), &"Reboot".into()), "{body}");
        assert_eq!(body["event"]["Description"].as_str().map(str::is_empty), Some(false), "{body}");
    }
    case.guest.wait_for_log("action webhook.prepare succeeded");
    case.world.wait_until_started(0xE1);
    let marks = case.guest.marks();
    assert!(
        marks.len() >= 3 && marks.iter().all(|mark| !mark.contains("hook") && !mark.contains("Bearer")),
        "{marks:?}"
    );
    assert!(requests.recv_timeout(TIMEOUT).unwrap().1.starts_with(r#"{"phase":"started","#));
}

#[test]
fn a_webhook_that_refuses_does_not_hold_the_approval() {
    if !can_run(&[Need::Program("curl")]) {
        return;
    }
    let (url, requests) = start_webhook(&["404 No"]);
    let case = Case::new(|_| format!("[[action]]\nwebhook.url = '{url}'\n"));
    case.restart();
    requests.recv_timeout(TIMEOUT).unwrap();
    case.guest.wait_for_log("action webhook.prepare: forewarn-agent: the webhook returned 404");
    case.guest.wait_for_log("action webhook.prepare failed: exit status: 1");
    case.world.wait_until_started(0xE1);
    assert_eq!(case.guest.log_count("starting action webhook.prepare"), 1);
    check_rejected("[[action]]\nwebhook.url = 'ftp://x'", "url must start with http:// or https://");
    check_rejected("[[action]]\nwebhook = { url = 'http://x', curl = 'no-curl' }", "no-curl is not in PATH");
}

/// TLS proxy with a self-signed certificate in front of this address.
fn start_tls_proxy(dir: &Path, port: u16, address: &str) -> Daemon {
    let (dir_text, key) = (dir.display(), dir.join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=hook", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(dir.join("cert.pem"))
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let server = format!(
        "listen 127.0.0.1:{port} ssl; ssl_certificate {dir_text}/cert.pem; ssl_certificate_key {dir_text}/key.pem;
         location / {{ proxy_pass http://{address}; }}"
    );
    start_nginx(dir, &server, || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok().map(drop))
}

#[test]
fn a_webhook_over_https_requires_a_trusted_certificate() {
    if !can_run(&[Need::Program("curl"), Need::Program("nginx"), Need::Program("openssl")]) {
        return;
    }
    let (dir, port) = (tempfile::tempdir().unwrap(), free_port());
    let (url, requests) = start_webhook(&["204 Fine"]);
    let address = url.trim_start_matches("http://").split('/').next().unwrap();
    let _nginx = start_tls_proxy(dir.path(), port, address);
    let settings = |curl: &str| {
        format!(
            "[[action]]\nwebhook.url = 'https://127.0.0.1:{port}/hook'\nwebhook.timeout = '5s'\nwebhook.curl = '{curl}'"
        )
    };
    let untrusted = Case::new(|_| settings("curl"));
    untrusted.restart();
    untrusted.guest.wait_for_log("action webhook.prepare failed");
    assert!(requests.try_recv().is_err(), "{}", untrusted.guest.log());

    let trusting = Case::new(|guest| {
        let certificate = dir.path().join("cert.pem");
        settings(&write_fake(guest, "curl", &format!("exec curl --cacert {} \"$@\"", certificate.display())))
    });
    trusting.restart();
    let (head, body) = requests.recv_timeout(TIMEOUT).unwrap();
    assert!(head.starts_with("POST /hook HTTP/1.") && body.starts_with(r#"{"phase":"prepare","#), "{head}{body}");
    trusting.guest.wait_for_log("action webhook.prepare succeeded");
}

/// Port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// Child process that ends with the test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

fn get_status(port: u16, path: &str) -> Option<u16> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    response.split(' ').nth(1)?.parse().ok()
}

fn nginx(dir: &Path, port: u16) -> Daemon {
    fs::create_dir(dir.join("drain.d")).unwrap();
    let health = format!("location /health {{ include {}/drain.d/*.conf; return 200; }}", dir.display());
    start_nginx(dir, &format!("listen 127.0.0.1:{port}; {health}"), || get_status(port, "/health").map(drop))
}

/// Starts nginx with this server block and waits until it responds.
fn start_nginx(dir: &Path, server: &str, is_ready: impl FnMut() -> Option<()>) -> Daemon {
    let dir_text = dir.display();
    let config = format!(
        "daemon off; pid {dir_text}/pid; error_log {dir_text}/error.log; worker_processes 1; events {{}}
         http {{ access_log off; client_body_temp_path {dir_text}/t1; proxy_temp_path {dir_text}/t2;
         fastcgi_temp_path {dir_text}/t3; uwsgi_temp_path {dir_text}/t4; scgi_temp_path {dir_text}/t5;
         server {{ {server} }} }}"
    );
    fs::write(dir.join("nginx.conf"), config).unwrap();
    let child = Command::new("nginx").arg("-c").arg(dir.join("nginx.conf")).stderr(Stdio::null()).spawn().unwrap();
    let nginx = Daemon(child);
    poll_until("nginx responds", is_ready);
    nginx
}

#[test]
fn nginx_is_drained_and_restored() {
    if !can_run(&[Need::Program("nginx")]) {
        return;
    }
    let (dir, port) = (tempfile::tempdir().unwrap(), free_port());
    let _nginx = nginx(dir.path(), port);
    let (file, conf) = (dir.path().join("drain.d/drain.conf"), dir.path().join("nginx.conf"));
    let (file_text, conf_text) = (file.display(), conf.display());
    let case = Case::new(|_| {
        format!(
            "[[action]]\nnginx.file = '{file_text}'\nnginx.command = ['nginx', '-c', '{conf_text}']\nnginx.wait = '10ms'"
        )
    });
    assert_eq!(get_status(port, "/health"), Some(200));
    case.restart();
    case.guest.wait_for_log("action nginx.prepare succeeded");
    poll_until("nginx is drained", || (get_status(port, "/health") == Some(503)).then_some(()));
    case.end();
    case.guest.wait_for_log("action nginx.restore succeeded");
    poll_until("nginx is back", || (get_status(port, "/health") == Some(200)).then_some(()));
    assert!(!file.exists());

    // An invalid configuration is not loaded.
    fs::write(&file, "# unchanged\n").unwrap();
    let case = Case::new(|_| {
        format!(
            "[[action]]\nnginx = {{ file = '{file_text}', drained = 'nonsense;', command = ['nginx', '-c', '{conf_text}'] }}"
        )
    });
    case.restart();
    case.guest.wait_for_log("action nginx.prepare failed: exit status: 1");
    case.guest.wait_for_log("unknown directive \"nonsense\"");
    case.guest.wait_for_log("nginx rejected the change; restored ");
    assert_eq!(fs::read_to_string(&file).unwrap(), "# unchanged\n");
    assert_eq!(get_status(port, "/health"), Some(200));
    check_rejected("[[action]]\nnginx.file = '/no/such/dir/x.conf'", "the directory /no/such/dir does not exist");
    check_rejected("[[action]]\nnginx.file = 'x.conf'", "file must be an absolute path, not x.conf");
    check_rejected(
        "[[action]]\nnginx = { file = '/tmp/x', command = ['/etc/passwd'] }",
        "/etc/passwd is not executable",
    );
}

fn haproxy(dir: &Path, port: u16, server_port: u16) -> Daemon {
    let socket = dir.join("admin.sock");
    let config = format!(
        "global\n stats socket {} level admin\ndefaults\n mode http\n timeout connect 1s\n timeout client 60s\n timeout server 60s\n\
         frontend f\n bind 127.0.0.1:{port}\n default_backend be\nbackend be\n server s1 127.0.0.1:{server_port}\n server s2 127.0.0.1:1 backup\n",
        socket.display()
    );
    fs::write(dir.join("haproxy.cfg"), config).unwrap();
    let mut command = Command::new("haproxy");
    let child = command.arg("-db").arg("-f").arg(dir.join("haproxy.cfg")).stderr(Stdio::null()).spawn().unwrap();
    poll_until("HAProxy responds", || UnixStream::connect(&socket).ok());
    Daemon(child)
}

fn haproxy_status(socket: &Path, server: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(b"show stat\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("be,{server},"))).expect("the server is there");
    line.split(',').nth(17).unwrap().to_owned()
}

#[test]
fn a_haproxy_server_is_drained_and_restored() {
    if !can_run(&[Need::Program("haproxy")]) {
        return;
    }
    let (dir, port) = (tempfile::tempdir().unwrap(), free_port());
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let _haproxy = haproxy(dir.path(), port, server.local_addr().unwrap().port());
    let socket = dir.path().join("admin.sock");
    let socket_text = socket.display();
    let case = Case::new(|_| {
        format!("[[action]]\nhaproxy = {{ socket = '{socket_text}', servers = ['be/s1'], wait = '10m' }}")
    });
    assert_eq!(haproxy_status(&socket, "s1"), "no check");
    // An open session, which the agent waits for.
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    write!(client, "GET / HTTP/1.0\r\n\r\n").unwrap();
    let (session, _) = server.accept().unwrap();
    case.restart();
    poll_until("the server is drained", || (haproxy_status(&socket, "s1") == "DRAIN").then_some(()));
    assert_eq!(case.guest.log_count("haproxy.prepare succeeded"), 0);
    drop((session, client));
    case.guest.wait_for_log("action haproxy.prepare succeeded");
    assert_eq!(case.guest.log_count("still open"), 0, "{}", case.guest.log());
    assert_eq!(haproxy_status(&socket, "s1"), "DRAIN");
    assert_eq!(haproxy_status(&socket, "s2"), "no check");
    case.end();
    case.guest.wait_for_log("action haproxy.restore succeeded");
    assert_eq!(haproxy_status(&socket, "s1"), "no check");

    let config = |servers: &str| format!("[[action]]\nhaproxy = {{ socket = '{socket_text}', servers = [{servers}] }}");
    check_rejected(&config("'be/s3'"), "HAProxy has no server be/s3");
    check_rejected(&config("'s1'"), "invalid server 's1': use backend/server");
    check_rejected(&config("'be/s1;shutdown'"), "invalid server 'be/s1;shutdown': use backend/server");
    check_rejected(&config(""), "servers is empty");
    check_rejected(
        "[[action]]\nhaproxy = { socket = '/no/such/admin.sock', servers = ['be/s1'] }",
        "the directory /no/such of the socket does not exist",
    );
}

/// Creates a program with this name that records its arguments in the marks file and then runs the script.
fn write_fake(guest: &Guest, name: &str, script: &str) -> String {
    let path = guest.path(name);
    let marks = guest.path("marks");
    let text = format!(
        "#!/bin/sh\nenv | grep -q ^FOREWARN_ACTION && exit 99\necho {name} \"$@\" >> {}\n{script}\n",
        marks.display()
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn units_are_stopped_and_started() {
    let case = Case::new(|guest| {
        let systemctl = write_fake(guest, "systemctl", "");
        format!("[[action]]\nsystemd = {{ units = ['a.service', 'b@1.service'], systemctl = '{systemctl}' }}")
    });
    case.restart();
    case.world.wait_until_started(0xE1);
    case.guest.wait_for_marks(&["systemctl stop a.service b@1.service"]);
    case.end();
    case.guest.wait_for_marks(&["systemctl stop a.service b@1.service", "systemctl start a.service b@1.service"]);
    check_rejected("[[action]]\nsystemd.units = []", "units is empty");
    check_rejected("[[action]]\nsystemd.units = ['--now']", "invalid unit name '--now'");
    check_rejected("[[action]]\nsystemd.units = ['forewarn-agent']", "the agent cannot stop itself");
    check_rejected("[[action]]\nsystemd = { units = ['a'], systemctl = '/no/such' }", "/no/such does not exist");
}

#[test]
fn a_node_is_cordoned_drained_and_uncordoned() {
    let case = Case::new(|guest| {
        let kubectl = write_fake(guest, "kubectl", "");
        format!("[[action]]\nkubernetes = {{ node = 'web', kubectl = '{kubectl}', kubeconfig = '/dev/../etc/passwd' }}")
    });
    case.restart();
    case.world.wait_until_started(0xE1);
    case.end();
    case.guest.wait_for_log("action kubernetes.restore succeeded");
    let marks = case.guest.marks();
    let file = "kubectl --kubeconfig=/dev/../etc/passwd";
    assert_eq!(marks[0], format!("{file} cordon web"));
    let seconds = marks[1].strip_prefix(&format!("{file} drain web --timeout="));
    let seconds = seconds.and_then(|rest| rest.strip_suffix("s --ignore-daemonsets --delete-emptydir-data"));
    assert!(seconds.is_some_and(|text| (1..=890).contains(&text.parse().unwrap())), "{marks:?}");
    assert_eq!(marks[2..], [format!("{file} uncordon web")]);
    check_rejected("[[action]]\nkubernetes.kubectl = 'no-kubectl'", "no-kubectl is not in PATH; install it or");
    check_rejected("[[action]]\nkubernetes.kubeconfig = '/no/such'", "the kubeconfig /no/such does not exist");
}

#[test]
fn a_failed_drain_holds_the_approval_and_is_undone_afterwards() {
    let case = Case::new(|guest| {
        let kubectl = write_fake(guest, "kubectl", "[ $1 = drain ] && { echo cannot evict pod >&2; exit 1; }; exit 0");
        format!("[[action]]\nkubernetes = {{ node = 'web', kubectl = '{kubectl}' }}")
    });
    case.guest.hook("prepare", "echo never >> $MARKS");
    case.restart();
    case.guest.wait_for_log("action kubernetes.prepare: cannot evict pod");
    case.guest.wait_for_log("not approved because of kubernetes.prepare");
    case.world.cancel(0xE1);
    case.guest.wait_for_log("action kubernetes.restore succeeded");
    assert_eq!(case.world.posts(case.machine), 0);
    assert_eq!(case.guest.marks().last().map(String::as_str), Some("kubectl uncordon web"));
}

#[test]
fn restore_is_retried_until_it_succeeds() {
    let case = Case::new(|guest| {
        let gone = guest.path("gone").display().to_string();
        let script = format!("[ $1 != uncordon ] || [ -e {gone} ] || {{ touch {gone}; echo no cluster; exit 1; }}");
        let kubectl = write_fake(guest, "kubectl", &script);
        format!("[[action]]\nkubernetes = {{ node = 'web', kubectl = '{kubectl}' }}")
    });
    case.restart();
    case.world.wait_until_started(0xE1);
    case.end();
    case.guest.wait_for_log("action kubernetes.restore: no cluster");
    case.guest.wait_for_log("uncordon web` failed: exit status: 1; retrying in 1 s");
    case.guest.wait_for_log("action kubernetes.restore succeeded");
    assert_eq!(case.guest.marks()[2..], ["kubectl uncordon web", "kubectl uncordon web"]);
}

#[test]
fn an_action_that_exceeds_its_limit_is_killed_and_one_for_another_type_does_not_run() {
    let case = Case::new(|guest| {
        let slow = write_fake(guest, "slow", "[ $1 = start ] && exec sleep 600; exit 0");
        let never = write_fake(guest, "never", "");
        format!(
            "limit = '1s'\n[[action]]\nname = 'app'\nsystemd = {{ units = ['a'], systemctl = '{slow}' }}\n\
             [[action]]\ntypes = ['Freeze', 'terminate']\nsystemd = {{ units = ['a'], systemctl = '{never}' }}"
        )
    });
    case.restart();
    case.world.wait_until_started(0xE1);
    case.end();
    case.guest.wait_for_log("action app.restore exceeded its time limit and was killed");
    assert_eq!(case.guest.marks(), ["slow stop a", "slow start a"]);
    let status = String::from_utf8(case.guest.output("status").stdout).unwrap();
    assert!(
        status.ends_with("  app.prepare succeeded\n  app.restore exceeded its time limit and was killed\n"),
        "{status}"
    );
}

#[test]
fn a_machine_is_restored_once_after_its_reboot() {
    let mut case = Case::new(|guest| {
        let kubectl = write_fake(guest, "kubectl", "");
        format!("[[action]]\nkubernetes = {{ node = 'web', kubectl = '{kubectl}' }}")
    });
    case.restart();
    case.world.wait_until_started(0xE1);
    case.guest.wait_for_log("has started");
    case.guest.kill();
    case.end();
    for start in 2..4 {
        case.guest.start();
        case.guest.wait_for_log("action kubernetes.restore succeeded");
        poll_until("the agent polls", || (case.guest.log_count("watching") == start).then_some(()));
        assert!(case.guest.terminate().success());
    }
    let marks = case.guest.marks();
    assert_eq!(marks.iter().filter(|mark| *mark == "kubectl uncordon web").count(), 1, "{marks:?}");
    assert_eq!(marks.len(), 3, "{marks:?}");
}
