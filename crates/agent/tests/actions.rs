//! The built-in actions through whole lives of events: against real nginx, HAProxy and curl, a socket that
//! reads what journald would read, and stand-ins for systemctl and kubectl that record what they are told.

mod support;

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

use forewarn_core::MachineId;
use support::{Guest, PATIENCE, World, until};

/// A machine called `web` with an agent of this configuration, watching.
struct Life {
    world: World,
    machine: MachineId,
    guest: Guest,
}

impl Life {
    fn new(config: impl FnOnce(&Guest) -> String) -> Life {
        let world = World::new();
        let (machine, url) = world.machine("web", |_| {});
        let mut guest = Guest::new(&url);
        guest.config(&config(&guest));
        guest.start();
        world.wait_until_on(machine);
        Life { world, machine, guest }
    }

    fn restart(&self) {
        self.world.restart(self.machine, 0xE1);
    }

    /// It was approved and has started; now it is over.
    fn end(&self) {
        self.world.wait_until_started(0xE1);
        self.world.advance(600);
    }
}

#[track_caller]
fn check_refused(config: &str, words: &str) {
    let guest = Guest::new("http://127.0.0.1:1");
    guest.config(config);
    let output = guest.output("run");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains(words) && text.lines().count() == 1, "{words:?}: {text}");
}

/// The fields of a datagram in journald's native protocol.
fn fields(mut datagram: &[u8]) -> BTreeMap<String, String> {
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
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let next = || {
        let mut buffer = vec![0; 65536];
        let count = socket.recv(&mut buffer).unwrap();
        fields(&buffer[..count])
    };
    let life = Life::new(|_| format!("[[action]]\njournal.socket = '{}'", path.display()));
    life.restart();
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
    life.end();
    assert_eq!(next()["MESSAGE"], "Reboot of web is over");
    life.guest.wait_for_log("action journal.restore succeeded");
    check_refused("[[action]]\njournal.socket = '/no/such'", "the action journal cannot run: the journal's socket");
    check_refused("[[action]]\njournal.socket = '/dev/null'", "/dev/null is not a socket");
}

/// A web server that gives these answers in turn, the last one for ever, and passes on what it is sent.
fn web_hook(statuses: &'static [&'static str]) -> (String, Receiver<(String, String)>) {
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
fn a_web_hook_is_tried_again_and_its_secrets_are_on_no_command_line() {
    let (url, requests) = web_hook(&["503 Busy", "429 Slow", "204 Fine"]);
    let life = Life::new(|guest| {
        let curl = stand_in(guest, "curl", "exec curl \"$@\"");
        format!(
            "[[action]]\nwebhook.url = '{url}'\nwebhook.timeout = '50s'\nwebhook.curl = '{curl}'\n\
             webhook.headers.Authorization = 'Bearer \\x'"
        )
    });
    life.restart();
    for _attempt in 0..3 {
        let (head, body) = requests.recv_timeout(PATIENCE).unwrap();
        assert!(head.starts_with("POST /hook?a="), "{head}");
        assert!(head.contains("Authorization: Bearer \\x\r\n"), "{head}");
        assert!(head.contains("Content-Type: application/json\r\n"), "{head}");
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&body["phase"], &body["event"]["EventType"]), (&"prepare".into(), &"Reboot".into()), "{body}");
        assert_eq!(body["event"]["Description"].as_str().map(str::is_empty), Some(false), "{body}");
    }
    life.guest.wait_for_log("action webhook.prepare succeeded");
    life.world.wait_until_started(0xE1);
    let marks = life.guest.marks();
    assert!(
        marks.len() >= 3 && marks.iter().all(|mark| !mark.contains("hook") && !mark.contains("Bearer")),
        "{marks:?}"
    );
    assert!(requests.recv_timeout(PATIENCE).unwrap().1.starts_with(r#"{"phase":"started","#));
}

#[test]
fn a_web_hook_that_refuses_is_a_failure_that_holds_nothing() {
    let (url, requests) = web_hook(&["404 No"]);
    let life = Life::new(|_| format!("[[action]]\nwebhook.url = '{url}'\n"));
    life.restart();
    requests.recv_timeout(PATIENCE).unwrap();
    life.guest.wait_for_log("action webhook.prepare: forewarn-agent: the web hook answered 404");
    life.guest.wait_for_log("action webhook.prepare failed, exit status: 1");
    life.world.wait_until_started(0xE1);
    assert_eq!(life.guest.log_count("webhook.prepare begins"), 1);
    check_refused("[[action]]\nwebhook.url = 'ftp://x'", "its url must begin with http:// or https://");
    check_refused("[[action]]\nwebhook = { url = 'http://x', curl = 'no-curl' }", "no-curl is not in PATH");
}

/// A web server with a certificate of its own that passes everything on to this address.
fn tls_before(dir: &Path, port: u16, address: &str) -> Foreign {
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
fn a_web_hook_over_https_is_sent_to_those_whose_certificate_is_known_and_to_nobody_else() {
    let (dir, port) = (tempfile::tempdir().unwrap(), free_port());
    let (url, requests) = web_hook(&["204 Fine"]);
    let address = url.trim_start_matches("http://").split('/').next().unwrap();
    let _nginx = tls_before(dir.path(), port, address);
    let settings = |curl: &str| {
        format!(
            "[[action]]\nwebhook.url = 'https://127.0.0.1:{port}/hook'\nwebhook.timeout = '5s'\nwebhook.curl = '{curl}'"
        )
    };
    let stranger = Life::new(|_| settings("curl"));
    stranger.restart();
    stranger.guest.wait_for_log("action webhook.prepare failed");
    assert!(requests.try_recv().is_err(), "{}", stranger.guest.log());

    let trusting = Life::new(|guest| {
        let certificate = dir.path().join("cert.pem");
        settings(&stand_in(guest, "curl", &format!("exec curl --cacert {} \"$@\"", certificate.display())))
    });
    trusting.restart();
    let (head, body) = requests.recv_timeout(PATIENCE).unwrap();
    assert!(head.starts_with("POST /hook HTTP/1.") && body.starts_with(r#"{"phase":"prepare","#), "{head}{body}");
    trusting.guest.wait_for_log("action webhook.prepare succeeded");
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// A program of somebody else's that ends with the test.
struct Foreign(Child);

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

fn status_of(port: u16, path: &str) -> Option<u16> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

fn nginx(dir: &Path, port: u16) -> Foreign {
    fs::create_dir(dir.join("drain.d")).unwrap();
    let health = format!("location /health {{ include {}/drain.d/*.conf; return 200; }}", dir.display());
    start_nginx(dir, &format!("listen 127.0.0.1:{port}; {health}"), || status_of(port, "/health").map(drop))
}

/// With this server, until it answers.
fn start_nginx(dir: &Path, server: &str, answers: impl FnMut() -> Option<()>) -> Foreign {
    let dir_text = dir.display();
    let config = format!(
        "daemon off; pid {dir_text}/pid; error_log {dir_text}/error.log; worker_processes 1; events {{}}
         http {{ access_log off; client_body_temp_path {dir_text}/t1; proxy_temp_path {dir_text}/t2;
         fastcgi_temp_path {dir_text}/t3; uwsgi_temp_path {dir_text}/t4; scgi_temp_path {dir_text}/t5;
         server {{ {server} }} }}"
    );
    fs::write(dir.join("nginx.conf"), config).unwrap();
    let child = Command::new("nginx").arg("-c").arg(dir.join("nginx.conf")).stderr(Stdio::null()).spawn().unwrap();
    let nginx = Foreign(child);
    until("nginx answers", answers);
    nginx
}

#[test]
fn nginx_is_drained_and_restored() {
    let (dir, port) = (tempfile::tempdir().unwrap(), free_port());
    let _nginx = nginx(dir.path(), port);
    let (file, conf) = (dir.path().join("drain.d/drain.conf"), dir.path().join("nginx.conf"));
    let (file_text, conf_text) = (file.display(), conf.display());
    let life = Life::new(|_| {
        format!(
            "[[action]]\nnginx.file = '{file_text}'\nnginx.command = ['nginx', '-c', '{conf_text}']\nnginx.wait = '10ms'"
        )
    });
    assert_eq!(status_of(port, "/health"), Some(200));
    life.restart();
    life.guest.wait_for_log("action nginx.prepare succeeded");
    until("nginx is drained", || (status_of(port, "/health") == Some(503)).then_some(()));
    life.end();
    life.guest.wait_for_log("action nginx.restore succeeded");
    until("nginx is back", || (status_of(port, "/health") == Some(200)).then_some(()));
    assert!(!file.exists());

    // What nginx cannot read never reaches it.
    fs::write(&file, "# as it was\n").unwrap();
    let life = Life::new(|_| {
        format!(
            "[[action]]\nnginx = {{ file = '{file_text}', drained = 'nonsense;', command = ['nginx', '-c', '{conf_text}'] }}"
        )
    });
    life.restart();
    life.guest.wait_for_log("action nginx.prepare failed, exit status: 1");
    life.guest.wait_for_log("unknown directive \"nonsense\"");
    life.guest.wait_for_log("drain.conf is as it was: ");
    assert_eq!(fs::read_to_string(&file).unwrap(), "# as it was\n");
    assert_eq!(status_of(port, "/health"), Some(200));
    check_refused("[[action]]\nnginx.file = '/no/such/dir/x.conf'", "the directory /no/such/dir is not there");
    check_refused("[[action]]\nnginx.file = 'x.conf'", "its file must be a whole path, not x.conf");
    check_refused(
        "[[action]]\nnginx = { file = '/tmp/x', command = ['/etc/passwd'] }",
        "/etc/passwd is not executable",
    );
}

fn haproxy(dir: &Path, port: u16, server_port: u16) -> Foreign {
    let socket = dir.join("admin.sock");
    let config = format!(
        "global\n stats socket {} level admin\ndefaults\n mode http\n timeout connect 1s\n timeout client 60s\n timeout server 60s\n\
         frontend f\n bind 127.0.0.1:{port}\n default_backend be\nbackend be\n server s1 127.0.0.1:{server_port}\n server s2 127.0.0.1:1 backup\n",
        socket.display()
    );
    fs::write(dir.join("haproxy.cfg"), config).unwrap();
    let mut command = Command::new("haproxy");
    let child = command.arg("-db").arg("-f").arg(dir.join("haproxy.cfg")).stderr(Stdio::null()).spawn().unwrap();
    until("HAProxy answers", || UnixStream::connect(&socket).ok());
    Foreign(child)
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
fn a_server_of_haproxy_is_drained_and_restored() {
    let (dir, port) = (tempfile::tempdir().unwrap(), free_port());
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let _haproxy = haproxy(dir.path(), port, server.local_addr().unwrap().port());
    let socket = dir.path().join("admin.sock");
    let socket_text = socket.display();
    let life = Life::new(|_| {
        format!("[[action]]\nhaproxy = {{ socket = '{socket_text}', servers = ['be/s1'], wait = '10m' }}")
    });
    assert_eq!(haproxy_status(&socket, "s1"), "no check");
    // Somebody is being served, and is waited for.
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    write!(client, "GET / HTTP/1.0\r\n\r\n").unwrap();
    let (session, _) = server.accept().unwrap();
    life.restart();
    until("the server is drained", || (haproxy_status(&socket, "s1") == "DRAIN").then_some(()));
    assert_eq!(life.guest.log_count("haproxy.prepare succeeded"), 0);
    drop((session, client));
    life.guest.wait_for_log("action haproxy.prepare succeeded");
    assert_eq!(life.guest.log_count("still open"), 0, "{}", life.guest.log());
    assert_eq!(haproxy_status(&socket, "s1"), "DRAIN");
    assert_eq!(haproxy_status(&socket, "s2"), "no check");
    life.end();
    life.guest.wait_for_log("action haproxy.restore succeeded");
    assert_eq!(haproxy_status(&socket, "s1"), "no check");

    let config = |servers: &str| format!("[[action]]\nhaproxy = {{ socket = '{socket_text}', servers = [{servers}] }}");
    check_refused(&config("'be/s3'"), "HAProxy has no server be/s3");
    check_refused(&config("'s1'"), "'s1' is not of the form backend/server");
    check_refused(&config("'be/s1;shutdown'"), "is not of the form backend/server");
    check_refused(&config(""), "it has no servers");
    check_refused(
        "[[action]]\nhaproxy = { socket = '/no/such/admin.sock', servers = ['be/s1'] }",
        "the directory /no/such of its socket is not there",
    );
}

/// A program of that name that records its arguments in `$MARKS`, and then does this.
fn stand_in(guest: &Guest, name: &str, script: &str) -> String {
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
    let life = Life::new(|guest| {
        let systemctl = stand_in(guest, "systemctl", "");
        format!("[[action]]\nsystemd = {{ units = ['a.service', 'b@1.service'], systemctl = '{systemctl}' }}")
    });
    life.restart();
    life.world.wait_until_started(0xE1);
    life.guest.wait_for_marks(&["systemctl stop a.service b@1.service"]);
    life.end();
    life.guest.wait_for_marks(&["systemctl stop a.service b@1.service", "systemctl start a.service b@1.service"]);
    check_refused("[[action]]\nsystemd.units = []", "it has no units");
    check_refused("[[action]]\nsystemd.units = ['--now']", "'--now' is not the name of a unit");
    check_refused("[[action]]\nsystemd.units = ['forewarn-agent']", "the agent cannot stop itself");
    check_refused("[[action]]\nsystemd = { units = ['a'], systemctl = '/no/such' }", "/no/such is not there");
}

#[test]
fn a_node_is_cordoned_drained_and_uncordoned() {
    let life = Life::new(|guest| {
        let kubectl = stand_in(guest, "kubectl", "");
        format!("[[action]]\nkubernetes = {{ node = 'web', kubectl = '{kubectl}', kubeconfig = '/dev/../etc/passwd' }}")
    });
    life.restart();
    life.world.wait_until_started(0xE1);
    life.end();
    life.guest.wait_for_log("action kubernetes.restore succeeded");
    let marks = life.guest.marks();
    let file = "kubectl --kubeconfig=/dev/../etc/passwd";
    assert_eq!(marks[0], format!("{file} cordon web"));
    let seconds = marks[1].strip_prefix(&format!("{file} drain web --timeout="));
    let seconds = seconds.and_then(|rest| rest.strip_suffix("s --ignore-daemonsets --delete-emptydir-data"));
    assert!(seconds.is_some_and(|text| (1..=890).contains(&text.parse().unwrap())), "{marks:?}");
    assert_eq!(marks[2..], [format!("{file} uncordon web")]);
    check_refused("[[action]]\nkubernetes.kubectl = 'no-kubectl'", "no-kubectl is not in PATH; install it, or");
    check_refused("[[action]]\nkubernetes.kubeconfig = '/no/such'", "its kubeconfig /no/such is not there");
}

#[test]
fn a_drain_that_fails_holds_the_approval_and_is_undone_at_the_end() {
    let life = Life::new(|guest| {
        let kubectl = stand_in(guest, "kubectl", "[ $1 = drain ] && { echo cannot evict pod >&2; exit 1; }; exit 0");
        format!("[[action]]\nkubernetes = {{ node = 'web', kubectl = '{kubectl}' }}")
    });
    life.guest.hook("prepare", "echo never >> $MARKS");
    life.restart();
    life.guest.wait_for_log("action kubernetes.prepare: cannot evict pod");
    life.guest.wait_for_log("is not approved, because of kubernetes.prepare");
    life.world.cancel(0xE1);
    life.guest.wait_for_log("action kubernetes.restore succeeded");
    assert_eq!(life.world.posts(life.machine), 0);
    assert_eq!(life.guest.marks().last().map(String::as_str), Some("kubectl uncordon web"));
}

#[test]
fn putting_back_is_tried_until_it_works() {
    let life = Life::new(|guest| {
        let gone = guest.path("gone").display().to_string();
        let script = format!("[ $1 != uncordon ] || [ -e {gone} ] || {{ touch {gone}; echo no cluster; exit 1; }}");
        let kubectl = stand_in(guest, "kubectl", &script);
        format!("[[action]]\nkubernetes = {{ node = 'web', kubectl = '{kubectl}' }}")
    });
    life.restart();
    life.world.wait_until_started(0xE1);
    life.end();
    life.guest.wait_for_log("action kubernetes.restore: no cluster");
    life.guest.wait_for_log("uncordon web` ended with exit status: 1; trying again in 1 s");
    life.guest.wait_for_log("action kubernetes.restore succeeded");
    assert_eq!(life.guest.marks()[2..], ["kubectl uncordon web", "kubectl uncordon web"]);
}

#[test]
fn an_action_that_is_late_is_killed_with_what_it_runs_and_one_of_another_type_does_not_run() {
    let life = Life::new(|guest| {
        let slow = stand_in(guest, "slow", "[ $1 = start ] && exec sleep 600; exit 0");
        let never = stand_in(guest, "never", "");
        format!(
            "limit = '1s'\n[[action]]\nname = 'app'\nsystemd = {{ units = ['a'], systemctl = '{slow}' }}\n\
             [[action]]\ntypes = ['Freeze', 'terminate']\nsystemd = {{ units = ['a'], systemctl = '{never}' }}"
        )
    });
    life.restart();
    life.world.wait_until_started(0xE1);
    life.end();
    life.guest.wait_for_log("action app.restore was late and was killed");
    assert_eq!(life.guest.marks(), ["slow stop a", "slow start a"]);
    let status = String::from_utf8(life.guest.output("status").stdout).unwrap();
    assert!(status.ends_with("  app.prepare succeeded\n  app.restore was late and was killed\n"), "{status}");
}

#[test]
fn the_machine_that_comes_back_after_its_reboot_is_put_back_once() {
    let mut life = Life::new(|guest| {
        let kubectl = stand_in(guest, "kubectl", "");
        format!("[[action]]\nkubernetes = {{ node = 'web', kubectl = '{kubectl}' }}")
    });
    life.restart();
    life.world.wait_until_started(0xE1);
    life.guest.wait_for_log("has started");
    life.guest.kill();
    life.end();
    for start in 2..4 {
        life.guest.start();
        life.guest.wait_for_log("action kubernetes.restore succeeded");
        until("it looks", || (life.guest.log_count("watching") == start).then_some(()));
        assert!(life.guest.terminate().success());
    }
    let marks = life.guest.marks();
    assert_eq!(marks.iter().filter(|mark| *mark == "kubectl uncordon web").count(), 1, "{marks:?}");
    assert_eq!(marks.len(), 3, "{marks:?}");
}
