//! The binary as users run it: a server in one process, commands in others.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};

use crate::support;
use crate::support::{FOREWARN, Server, check, clean_command, document, expect, read_until, text, transcript};
use forewarn_test_support::{Need, can_run};

const ID: &str = "602D9444-D2CD-49C7-8624-8643E7171297";

#[test]
fn the_transcripts_in_cli_md_are_true() {
    let server = Server::start_with(&format!("{} --default-machine web_0", support::THROW_AWAY));
    transcript::run("docs/cli.md", &document("docs/cli.md"), &server);
}

#[test]
fn the_transcripts_in_metadata_md_are_true() {
    let server = Server::start();
    transcript::run("docs/metadata.md", &document("docs/metadata.md"), &server);
}

#[test]
fn the_transcripts_in_api_md_are_true() {
    let server = Server::start();
    transcript::run("docs/api.md", &document("docs/api.md"), &server);
}

#[test]
fn the_transcripts_in_arm_md_are_true() {
    let server = Server::start();
    transcript::run("docs/arm.md", &document("docs/arm.md"), &server);
}

#[test]
fn the_transcripts_in_sign_in_md_are_true() {
    let server = Server::start();
    transcript::run("docs/sign-in.md", &document("docs/sign-in.md"), &server);
}

#[test]
fn the_transcripts_in_check_md_are_true() {
    transcript::run_alone("docs/check.md", &document("docs/check.md"));
}

#[test]
fn the_transcripts_in_scenarios_md_are_true() {
    let server = Server::start();
    transcript::run("docs/scenarios.md", &document("docs/scenarios.md"), &server);
}

#[test]
fn the_transcripts_in_the_readme_are_true() {
    let server = Server::start();
    let readme = document("README.md");
    transcript::run("README.md", &readme, &server);
    let example = readme.lines().find(|line| line.starts_with("forewarn run ")).expect("an example of run");
    assert!(example.contains("--notice-scale 60"), "its event would start after 15 minutes: {example}");
}

#[test]
fn help_and_version_are_commands() {
    let run = |words: &str| clean_command().args(words.split_whitespace()).output().unwrap();
    for (asked, flag) in [("help", "--help"), ("help vm restart", "vm restart --help"), ("help serve", "serve --help")]
    {
        assert_eq!(text(&run(asked).stdout).trim_end(), text(&run(flag).stdout).trim_end(), "{asked}");
    }
    assert_eq!(run("version").stdout, run("--version").stdout);
    for (topic, part) in [("connection", "--server <URL>"), ("exit-codes", "  125  the program was not started")] {
        assert!(text(&run("help").stdout).contains(&format!("\n  {topic}")), "{topic}");
        let printed = run(&format!("help {topic}"));
        assert!(printed.status.success() && text(&printed.stdout).contains(part), "{printed:?}");
    }
    let slip = "error: unrecognized subcommand 'restrat'\n\n  tip: [..]'restart'\n…";
    expect("help vm restrat", &run("help vm restrat"), 2, "", slip);
}

#[test]
fn connection_options_can_precede_the_command() {
    let server = Server::start();
    let before = format!("--server {} -o json vm list", server.management);
    let listed = clean_command().args(before.split_whitespace()).output().unwrap();
    assert_eq!(listed.stdout, server.run("vm list -o json").stdout);
    assert!(listed.status.success());
}

#[test]
fn startup_errors_name_the_flag_that_helps_and_the_log_is_readable() {
    let server = Server::start();
    let taken = server.management.trim_start_matches("http://");
    let serve = |words: String| clean_command().args(["serve"]).args(words.split_whitespace()).output().unwrap();
    for flag in ["--metadata", "--management", "--management-tls"] {
        let others: String = ["--metadata", "--management", "--management-tls"]
            .iter()
            .filter(|other| **other != flag)
            .map(|other| format!(" {other} 127.0.0.1:0"))
            .collect();
        let complaint = format!(
            "[..]forewarn: cannot open the [..] listener at {taken}: [..]. Another program uses it: stop that program, or choose another address with {flag} ADDR; port 0 selects a free port"
        );
        let output = serve(format!("--memory --no-auth {flag} {taken}{others}"));
        let said = text(&output.stderr);
        assert!(support::transcript::line_matches(&complaint, said.lines().last().unwrap()), "{said}");
    }
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().display().to_string();
    let mut first = clean_command();
    first.args([
        "serve",
        "--metadata",
        "127.0.0.1:0",
        "--management",
        "127.0.0.1:0",
        "--management-tls",
        "127.0.0.1:0",
    ]);
    let mut first = first.args(["--data", &data]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    read_until(&mut BufReader::new(first.stdout.take().unwrap()), "try ");
    let second = serve(format!("--metadata 127.0.0.1:0 --management 127.0.0.1:0 --data {data}"));
    let said = text(&second.stderr);
    assert!(said.trim_end().ends_with("Stop it, or choose another directory with --data DIR."), "{said}");
    Command::new("kill").args(["-TERM", &first.id().to_string()]).status().unwrap();
    let log = text(&first.wait_with_output().unwrap().stderr);
    let serving = log.lines().find(|line| line.contains("serving")).unwrap();
    assert!(serving.contains("https=127.0.0.1:") && serving.contains("metadata=127.0.0.1:"), "{log}");
    for form in ["Some(", "None", "Tcp(", "[Tcp", "=\""] {
        assert!(!log.contains(form), "{form}: {log}");
    }
}

/// Runs the driver in docs/operators.md with a `virsh` that only records its arguments.
#[test]
fn the_driver_in_operators_md_carries_out_events() {
    let dir = tempfile::tempdir().unwrap();
    let script = document("docs/operators.md");
    let script = &script[script.find("#!/bin/sh").unwrap()..];
    let script = &script[..script.find("```").unwrap()];
    let driver = executable(&dir.path().join("driver"), script);
    executable(&dir.path().join("virsh"), &format!("#!/bin/sh\necho \"$@\" >> {}/told\n", dir.path().display()));

    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let server = Server::start_in(
        &format!("--memory --no-auth --driver-command {driver}"),
        &[("PATH", &path), ("FREEZE_SECONDS", "0")],
    );
    check(&server, "vm register web1 --no-address --spot", 0, "Created machine web1", "");
    for (words, end) in [
        ("vm restart web1", "Completed"),
        ("maintenance start --vm web1", "Completed"),
        ("vm delete web1", "Completed"),
    ] {
        let output = server.run(words);
        assert!(text(&output.stdout).contains(end), "{words}: {output:?}");
    }
    let told = std::fs::read_to_string(dir.path().join("told")).unwrap();
    assert_eq!(told, "reset web1\nsuspend web1\nresume web1\ndestroy web1\nundefine web1\n");
}

fn executable(path: &std::path::Path, script: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, script).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn a_restart_is_announced_approved_and_waited_for() {
    let server = Server::start();
    check(&server, "vm register web_1 --no-address", 0, "Created machine web_1", "");
    server.document("web_1");
    check(
        &server,
        &format!("vm restart web_1 --no-wait --event-id {ID}"),
        0,
        &format!("Reboot of web_1: event {ID}, Scheduled, NotBefore 2026-07-28 10:15:00\nOperation [..] is running."),
        "",
    );
    let mut waiting =
        server.command(&format!("operation wait {ID}")).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let told = read_until(&mut BufReader::new(waiting.stderr.take().unwrap()), "Reboot of web_1");
    assert_eq!(told, [format!("Reboot of web_1: event {ID}, Scheduled, NotBefore 2026-07-28 10:15:00")]);
    check(
        &server,
        "clock advance 12s",
        0,
        "2026-07-28 10:00:12 (manual clock; 2026-07-28 10:15:00: NotBefore of a Reboot of web_1)",
        "",
    );
    check(
        &server,
        &format!("events approve {ID}"),
        0,
        "602D[..]: Scheduled 10:00:00 · approved by [..] 10:00:12 · Started 10:00:12",
        "",
    );
    let next = "(manual clock; 2026-07-28 10:10:12: the end of a Reboot of web_1)";
    check(&server, "clock show", 0, &format!("2026-07-28 10:00:12 {next}"), "");
    check(&server, "clock advance 10m", 0, "2026-07-28 10:10:12 (manual clock)", "");
    let over = "Scheduled 10:00:00 · approved by [..] 10:00:12 · Started 10:00:12 · Completed 10:10:12";
    expect("operation wait", &waiting.wait_with_output().unwrap(), 0, over, "");
    check(&server, &format!("operation wait {ID}"), 0, over, "");
    check(&server, "events list", 0, "There are no events.", "");
    check(
        &server,
        "events list --all",
        0,
        &format!("ID[..]\n{ID}  Reboot  Completed  2026-07-28 10:15:00  web_1[..]"),
        "",
    );
}

#[test]
fn an_unused_event_id_is_mentioned() {
    let server = Server::start();
    check(&server, "vm register web_1 --no-address", 0, "…", "");
    server.document("web_1");
    check(&server, &format!("vm restart web_1 --no-wait --event-id {ID}"), 0, "…", "");
    let other = "C7061BAC-AFDC-4513-B24B-AA5F13A16123";
    check(
        &server,
        &format!("vm restart web_1 --no-wait --event-id {other}"),
        0,
        &format!("Reboot of web_1: event {ID}, [..]\n…"),
        &format!("Joined existing event {ID}; event ID {other} is not used"),
    );
}

#[test]
fn notice_and_duration_are_durations_or_seconds() {
    let server = Server::start();
    check(&server, "vm register web_1 --no-address", 0, "…", "");
    server.document("web_1");
    check(
        &server,
        "maintenance start --vm web_1 --notice 1h30m --duration 90 --no-wait",
        0,
        "Freeze of web_1: event [..], Scheduled, NotBefore 2026-07-28 11:30:00\n…",
        "",
    );
    let events: serde_json::Value = serde_json::from_slice(&server.run("events list -o json").stdout).unwrap();
    assert_eq!(events[0]["durationSeconds"], 90);
    check(&server, "clock advance -o json 2h", 0, "{\n…\n}", "");
}

#[test]
fn a_deletion_is_announced_with_a_terminate_notification() {
    let server = Server::start();
    check(&server, "vm register web_1 --no-address --terminate-notice 10m", 0, "…", "");
    for option in ["--terminate-notice 1m", "--terminate-notification-time 1"] {
        let name = option.split(' ').next().unwrap();
        let error = format!("forewarn: {name} must be from 5 to 15 minutes[..]");
        check(&server, &format!("vm register web_2 --no-address {option}"), 1, "", &error);
    }
    check(&server, "cloud-service create service", 0, "…", "");
    let role = "forewarn: A machine of a cloud service needs a role. Use a name such as FrontEnd_IN_0.";
    check(&server, "vm create web_2 --cloud-service service", 1, "", role);
    check(&server, "availability-set create shop", 0, "…", "");
    check(
        &server,
        "vm create web_2 --no-address --availability-set shop --approve-user-redeploy true",
        1,
        "",
        "forewarn: Machine 'web_2' is in a group, so its own --approve-user-redeploy has no effect. [..]",
    );
    server.document("web_1");
    check(
        &server,
        &format!("vm delete web_1 --no-wait --event-id {ID}"),
        0,
        &format!("Terminate of web_1: event {ID}, Scheduled, NotBefore 2026-07-28 10:10:00\n…"),
        "",
    );
}

#[test]
fn a_canceled_operation_is_exit_code_4() {
    let server = Server::start();
    check(&server, "vm register web_1 --no-address", 0, "…", "");
    server.document("web_1");
    check(&server, &format!("vm redeploy web_1 --no-wait --event-id {ID}"), 0, "…", "");
    check(&server, &format!("events cancel {ID}"), 0, "602D[..]: Scheduled 10:00:00 · Canceled by [..] 10:00:00", "");
    check(
        &server,
        &format!("operation wait {ID}"),
        4,
        "Scheduled 10:00:00 · Canceled by [..] 10:00:00",
        "forewarn: operation canceled by owner: Redeploy of web_1",
    );
}

#[test]
fn a_rollout_shows_one_update_domain_after_the_other() {
    let server = Server::start();
    let url = format!("{}/api/v1/cloud-services", server.management);
    ureq::post(url).send_json(serde_json::json!({ "name": "shop" })).unwrap();
    for name in ["Web_IN_0", "Web_IN_1"] {
        check(&server, &format!("vm register {name} --no-address --cloud-service shop"), 0, "…", "");
    }
    server.document("shop/Web_IN_1");
    check(
        &server,
        &format!("maintenance start --group shop --type Reboot --no-wait --event-id {ID}"),
        0,
        "Reboot of Web_IN_0: event [..]\n…",
        "",
    );
    let again = "maintenance start --group shop --type Freeze --no-wait";
    check(&server, again, 1, "", "forewarn: Group 'shop' belongs to rollout [..]");
    check(&server, "clock advance 2h", 0, "…", "");
    check(
        &server,
        &format!("operation wait {ID}"),
        0,
        "Reboot of Web_IN_0: Scheduled 10:00:00 · Started 10:15:00 · Completed 10:25:00\n\
         Reboot of Web_IN_1: Scheduled 10:55:00 · Started 11:10:00 · Completed 11:20:00",
        "",
    );
}

#[test]
fn refusals_are_exit_code_1() {
    let server = Server::start();
    check(&server, "vm restart unknown", 1, "", "forewarn: [..]unknown[..]");
    check(&server, "events approve not-an-id", 1, "", "forewarn: [..]not-an-id[..]");
    check(&server, "operation show 00000000-0000-0000-0000-000000000001", 1, "", "forewarn: [..]");
    check(&server, "clock set 2020-01-01T00:00:00Z", 1, "", "forewarn: [..]");
    check(&server, "maintenance start --host none --no-wait", 1, "", "forewarn: [..]none[..]");
}

#[test]
fn usage_errors_are_exit_code_2() {
    let server = Server::start();
    check(&server, "vm restart", 2, "", "error: the following required arguments[..]\n…");
    check(&server, "clock advance soon", 2, "", "error: invalid value 'soon'[..]\n…");
    let span = "a duration such as 90s, 15m, 1h30m or 2d, at most 400d";
    check(&server, "clock advance -5m", 2, "", &format!("error: invalid value '-5m' for '<DURATION>': {span}\n…"));
    for flag in ["--notice", "--duration"] {
        let sentence = format!("error: invalid value '-1' for '{flag} <DURATION>': {span}\n…");
        check(&server, &format!("maintenance start --vm a {flag} -1"), 2, "", &sentence);
    }
    check(&server, "maintenance start --vm a --host b", 2, "", "error: [..]\n…");
    check(
        &server,
        "vm list --server ftp://x",
        2,
        "",
        "forewarn: invalid server address \"ftp://x\": use an address such as https://forewarn.example:8171 or http://127.0.0.1:8170",
    );
    check(
        &server,
        "serve --clock fake",
        2,
        "",
        "forewarn: --clock: invalid value \"fake\": expected one of: real, manual",
    );
    check(
        &server,
        "serve --memory --no-auth --driver-command /nonexistent/driver",
        2,
        "",
        "forewarn: driver.command: cannot run \"/nonexistent/driver\": No such file or directory; [..]",
    );
    check(
        &server,
        "serve --config /nonexistent/x.toml",
        2,
        "",
        "forewarn: cannot read /nonexistent/x.toml: No such file or directory; choose another file with --config",
    );
}

#[test]
fn an_unreachable_server_is_exit_code_3() {
    let output = clean_command().args(["vm", "list", "--server", "127.0.0.1:1"]).output().unwrap();
    let sentence = "forewarn: cannot reach the server at http://127.0.0.1:1: connection refused; start one with `forewarn serve`[..]";
    expect("vm list", &output, 3, "", sentence);
}

#[test]
fn json_output_is_the_answer_of_the_api() {
    let server = Server::start();
    check(
        &server,
        "vm register web_1 --address 10.1.2.3 --tag a=b -o json",
        0,
        "{\n…\n  \"name\": \"web_1\",\n…\n}",
        "",
    );
    let listed: serde_json::Value = serde_json::from_slice(&server.run("vm list -o json").stdout).unwrap();
    assert_eq!(listed[1]["addresses"][0]["ip"], "10.1.2.3");
    assert_eq!(listed[1]["tags"]["a"], "b");
    let clock: serde_json::Value = serde_json::from_slice(&server.run("clock show -o json").stdout).unwrap();
    assert_eq!(clock["now"], "2026-07-28T10:00:00Z");
}

#[test]
fn machines_are_stopped_started_deleted_and_listed() {
    let server = Server::start();
    check(&server, "vm register web_1 --address 10.1.2.3 --spot --host h1", 0, "Created machine web_1 at 10.1.2.3", "");
    check(&server, "vm stop web_1", 0, "web_1 is stopped", "");
    check(&server, "vm restart web_1", 1, "", "forewarn: [..]");
    check(&server, "vm start web_1", 0, "web_1 is running", "");
    check(&server, "history --vm unknown", 1, "", "forewarn: No machine is named 'unknown'. [..]");
    check(&server, "history --vm web_1 --kind ended", 0, "There are no matching entries.", "");
    check(&server, "history --vm default/web_1 --kind machine-added", 0, "TIME[..]\n[..]machine-added  web_1[..]", "");
    check(&server, "vm list", 0, "NAME[..]\n…\nweb_1  default       Running, Spot  no  [..]  h1  [..]10.1.2.3[..]", "");
    check(&server, "vm evict web_1", 0, "Started 10:00:00 · Completed 10:00:00 (no handler connected)", "…");
    check(&server, "vm delete web_1", 0, "Started 10:00:00 · Completed 10:00:00 (without notice)", "…");
    check(
        &server,
        "history --vm web_1 --kind machine-removed",
        0,
        "TIME[..]\n2026-07-28 10:00:00  machine-removed  web_1[..]",
        "",
    );
}

#[test]
fn watching_prints_changes() {
    let server = Server::start();
    check(&server, "vm register web_1 --no-address", 0, "…", "");
    server.document("web_1");
    let mut watching = server.command("events watch").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap());
    read_until(&mut lines, "There are no events.");
    check(&server, &format!("maintenance start --vm web_1 --type Reboot --no-wait --event-id {ID}"), 0, "…", "");
    check(&server, "clock advance 15m", 0, "…", "");
    let seen = read_until(&mut lines, "2026-07-28 10:15:00");
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(seen[0].starts_with("2026-07-28 10:00:00  appeared Reboot  web_1") && seen[0].ends_with(ID), "{seen:?}");
    assert!(seen[1].starts_with("2026-07-28 10:15:00  started  web_1"), "{seen:?}");
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn watching_in_json_starts_with_open_events() {
    let server = Server::start();
    check(&server, "vm register web_1 --no-address", 0, "…", "");
    server.document("web_1");
    check(&server, &format!("vm restart web_1 --no-wait --event-id {ID}"), 0, "…", "");
    let mut watching = server.command("events watch -o json").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap());
    let mut next = || serde_json::from_str::<serde_json::Value>(&read_until(&mut lines, "{")[0]).unwrap();
    let there = next();
    check(&server, "clock advance 15m", 0, "…", "");
    let happened = loop {
        let row = next();
        if row["kind"] == "started" {
            break row;
        }
    };
    assert_eq!((&there["id"], &there["status"]), (&ID.into(), &"Scheduled".into()));
    assert_eq!(happened["event"], ID);
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn the_printed_curl_command_works_and_sigterm_stops_the_server() {
    if !can_run(&[Need::Program("curl")]) {
        return;
    }
    let mut server = Server::start();
    let curl = server.announced.last().unwrap().strip_prefix("try").unwrap().trim().to_owned();
    let output = Command::new("bash").args(["-c", &curl]).output().unwrap();
    assert_eq!(text(&output.stdout), r#"{"DocumentIncarnation":1,"Events":[]}"#);
    let killed = Command::new("bash").args(["-c", &format!("kill -TERM {}", server.id())]).status().unwrap();
    assert!(killed.success());
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn ctrl_c_stops_the_server_while_a_client_watches() {
    let mut server = Server::start();
    let mut watching = server.command("events watch").stdout(Stdio::piped()).spawn().unwrap();
    read_until(&mut BufReader::new(watching.stdout.take().unwrap()), "There are no events.");
    let killed = Command::new("bash").args(["-c", &format!("kill -INT {}", server.id())]).status().unwrap();
    assert!(killed.success());
    assert_eq!(server.wait().code(), Some(0));
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn startup_errors_say_why() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().display();
    let server = Server::start_with(&format!("--no-auth --data {data}"));
    let taken = server.metadata.strip_prefix("http://").unwrap();
    let serve = "serve --log-level off --no-auth --management 127.0.0.1:0";
    check(&server, &format!("{serve} --memory --metadata {taken}"), 1, "", &format!("forewarn: [..]{taken}[..]"));
    check(
        &server,
        &format!("{serve} --metadata 127.0.0.1:0 --data {data}"),
        1,
        "",
        "forewarn: [..]nother server (process [..]) is using the data directory[..]",
    );
    drop(server);
    let manual = clean_command()
        .args(format!("{serve} --metadata 127.0.0.1:0 --clock manual --data {data}").split(' '))
        .output()
        .unwrap();
    expect("serve --clock manual", &manual, 1, "", "forewarn: this data directory uses the real clock. [..]");
}

#[test]
fn the_token_in_the_data_directory_grants_access() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = Server::start_with(&format!("--data {}", data.display()));
    check(
        &server,
        "vm list",
        1,
        "",
        "forewarn: the server at [..] requires a token, but none was found in [..]; set --data (FOREWARN_DATA) to[..]",
    );
    check(&server, &format!("vm list --data {}", data.display()), 0, "NAME[..]\n[..]", "");
    let old = text(&server.run(&format!("token show --data {}", data.display())).stdout);
    check(&server, &format!("token rotate --data {}", data.display()), 0, "", "Wrote a new token to [..]token");
    check(
        &server,
        &format!("vm list --token {}", old.trim()),
        1,
        "",
        "forewarn: the server at [..] rejected the token from --token or FOREWARN_TOKEN; [..]",
    );
    let empty =
        server.command(&format!("vm list --data {}", data.display())).env("FOREWARN_TOKEN", "").output().unwrap();
    expect("vm list", &empty, 0, "NAME[..]\n[..]", "");
    let other = directory.path().join("other");
    std::fs::create_dir_all(&other).unwrap();
    std::fs::write(other.join("token"), "wrong").unwrap();
    let list_other = format!("vm list --data {}", other.display());
    check(&server, &list_other, 1, "", "forewarn: [..] rejected the token in [..]/other/token; [..]");
    std::fs::remove_file(other.join("token")).unwrap();
    std::fs::create_dir(other.join("token")).unwrap();
    check(&server, &list_other, 1, "", "forewarn: [..] requires a token, but [..]/token cannot be read: [..]");
    check(&server, &format!("vm list --data {}", data.display()), 0, "NAME[..]\n[..]", "");
}

#[test]
fn a_store_is_exported_at_any_time_and_imported_while_no_server_runs() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let (first, second, archive) = (at("first"), at("second"), at("all.jsonl"));
    let server = Server::start_with(&format!("--no-auth --data {first}"));
    check(&server, "vm register web_1 --address 10.1.2.3", 0, "…", "");
    let online = at("online.jsonl");
    check(&server, &format!("export {online} --data {first}"), 0, "", "Exported [..] records[..] history rows");
    assert!(std::fs::read_to_string(&online).unwrap().contains("web_1"));
    assert!(
        std::fs::read_dir(&first).unwrap().all(|file| !file
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with("export-"))
    );
    drop(server);
    let run = |words: String| clean_command().args(words.split_whitespace()).output().unwrap();
    expect(
        "export",
        &run(format!("export {archive} --data {first}")),
        0,
        "",
        "Exported [..] records and [..] history rows",
    );
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&archive).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let again = run(format!("export {archive} --data {first}"));
    expect("export", &again, 1, "", "forewarn: [..]all.jsonl already exists: choose another file name");
    expect("import", &run(format!("import {archive} --data {second}")), 0, "", "Imported [..] into [..]second");
    expect("import", &run(format!("import {archive} --data {second}")), 1, "", "forewarn: [..]");
    expect("export", &run(format!("export - --data {}", at("nowhere"))), 1, "", "forewarn: no data found in [..]");
    let server = Server::start_with(&format!("--no-auth --data {second}"));
    check(&server, "vm list", 0, "NAME[..]\n…\nweb_1[..]10.1.2.3[..]", "");
}

#[test]
fn an_export_into_a_closed_pipe_ends_without_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().display();
    let server = Server::start_with(&format!("--no-auth --data {data}"));
    // More than a pipe holds.
    check(&server, "vmss create web --instance-count 500", 0, "…", "");
    drop(server);
    let script = format!("set -o pipefail; {FOREWARN} export - --data {data} | head -n 1");
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{output:?}");
    assert_eq!(text(&output.stdout).lines().count(), 1);
}

#[test]
fn the_server_logs_events_approvals_and_operations() {
    let (server, mut log) = Server::start_logged(support::THROW_AWAY);
    check(&server, "vm register web_0 --no-address", 0, "…", "");
    server.document("web_0");
    check(&server, "vm restart web_0 --no-wait --event-id 602d9444-d2cd-49c7-8624-8643e7171297", 0, "…", "");
    check(&server, "events approve 602d", 0, "…", "");
    check(&server, "clock advance 10m", 0, "…", "");
    let mut expected =
        ["Reboot scheduled", "event approved", "event started", "event completed", "operation succeeded"]
            .into_iter()
            .peekable();
    while let Some(message) = expected.peek() {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "the log ended before {message:?}");
        if line.contains(message) {
            assert!(line.contains("INFO") && line.contains("web_0") || line.contains("operation"), "{line}");
            assert!(line.contains("602D9444-D2CD-49C7-8624-8643E7171297") || line.contains("operation"), "{line}");
            expected.next();
        }
    }
}

#[test]
fn the_effective_configuration_can_be_printed() {
    let output = clean_command()
        .args(["serve", "--print-config", "--data", "/srv/x"])
        .env("FOREWARN_NOTICE_SCALE", "60")
        .output()
        .unwrap();
    let expected =
        "data = \"/srv/x\"\n…\nnotice_scale = 60\n…\n[[metadata]]\naddress = \"127.0.0.1:8169\"\n…\n[pool]\n…";
    expect("serve --print-config", &output, 0, expected, "");
}

#[test]
fn a_second_restart_says_that_it_joins_the_first() {
    let server = Server::start();
    check(&server, "vm create web_1 --no-address", 0, "…", "");
    server.document("web_1");
    check(&server, &format!("vm restart web_1 --no-wait --event-id {ID}"), 0, "…", "");
    let joined = format!("Joined existing event {ID}, which was already Scheduled");
    check(&server, "vm restart web_1 --no-wait", 0, "…", &joined);
}

#[test]
fn the_first_characters_of_an_id_and_printed_times_are_accepted() {
    let server = Server::start();
    check(&server, "vm create web_1 --no-address", 0, "…", "");
    server.document("web_1");
    check(&server, &format!("vm restart web_1 --no-wait --event-id {ID}"), 0, "…", "");
    let short = &ID[..6].to_lowercase();
    for line in ["events show", "operation show", "history --since 1h --event"] {
        let output = server.run(&format!("{line} {short}"));
        assert!(output.status.success() && text(&output.stdout).contains(ID), "{line}: {output:?}");
    }
    let output = server.run("events show abcd");
    assert!(text(&output.stderr).contains("no ID of a current event begins with 'abcd'"), "{output:?}");
    let planned = "Freeze of web_1: event [..], Scheduled, NotBefore 2026-07-28 12:00:00\n…";
    check(&server, "maintenance start --vm web_1 --at +2h --no-wait", 0, planned, "");
}

#[test]
fn a_rebalance_is_recommended_only_in_the_preview_version() {
    let document = |server: &Server, version: &str| {
        let url = format!("{}/vm/spot_1/metadata/scheduledevents?api-version={version}", server.metadata);
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
        let mut response = agent.get(url).header("Metadata", "true").call().unwrap();
        (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
    };
    let server = Server::start();
    check(&server, "vm create spot_1 --no-address --spot", 0, "…", "");
    assert_eq!(document(&server, "2024-07-09").0, 404);
    check(&server, "vm simulate-rebalance spot_1", 1, "", "forewarn: [..]Start it with --preview-version.");
    let server = Server::start_with(&format!("{} --preview-version", support::THROW_AWAY));
    check(&server, "vm create spot_1 --no-address --spot", 0, "…", "");
    assert_eq!(document(&server, "2024-07-09").0, 200);
    check(&server, "vm simulate-rebalance spot_1 --no-wait", 0, "…", "");
    let (_, shown) = document(&server, "2024-07-09");
    assert!(shown.contains("\"EventType\":\"SpotRebalanceRecommendation\""), "{shown}");
    assert!(server.document("spot_1").contains("\"Events\":[]"));
}

#[test]
fn instance_metadata_shows_the_given_mac_address() {
    let server = Server::start();
    check(&server, "vm create web --no-address --mac 52:54:00:ab:34:56", 0, "…", "");
    let interface = "metadata/instance/network/interface/0";
    let url = format!("{}/vm/web/{interface}/macAddress?api-version=2021-02-01&format=text", server.metadata);
    let mac = ureq::get(url).header("Metadata", "true").call().unwrap().body_mut().read_to_string().unwrap();
    assert_eq!(mac, "525400AB3456");
}

#[test]
fn a_running_server_is_backed_up_and_restored() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let copy = directory.path().join("copy.db");
    let restored = directory.path().join("restored");
    let server = Server::start_with(&format!("--no-auth --data {}", data.display()));
    check(&server, "vm create web_1 --no-address", 0, "…", "");
    let run = |line: &str| clean_command().args(line.split_whitespace()).output().unwrap();
    let backup = format!("backup {} --data {}", copy.display(), data.display());
    let output = run(&backup);
    assert!(output.status.success(), "{output:?}");
    assert!(text(&run(&backup).stderr).contains("already exists"));
    let output = run(&format!("restore {} --data {}", copy.display(), restored.display()));
    assert!(output.status.success() && text(&output.stderr).starts_with("Restored "), "{output:?}");
    let again = run(&format!("restore {} --data {}", copy.display(), restored.display()));
    assert!(again.status.code() == Some(1) && text(&again.stderr).contains("already has data"), "{again:?}");
    let server = Server::start_with(&format!("--no-auth --data {}", restored.display()));
    check(&server, "vm show web_1 -o tsv", 0, "web_1[..]", "");
    drop(server);
    for left in ["forewarn.db-wal", "forewarn.db-shm"] {
        let mixed = tempfile::tempdir().unwrap();
        std::fs::write(mixed.path().join(left), "of another database").unwrap();
        let refused = text(&run(&format!("restore {} --data {}", copy.display(), mixed.path().display())).stderr);
        assert!(refused.contains(&format!("already has data ({left})")), "{refused}");
        assert!(refused.contains("remove forewarn.db, forewarn.db-wal and forewarn.db-shm"), "{refused}");
        assert_eq!(std::fs::read_dir(mixed.path()).unwrap().count(), 1, "nothing is written");
    }
    std::fs::write(&copy, "no database").unwrap();
    let wrong = run(&format!("restore {} --data {}/new", copy.display(), directory.path().display()));
    assert!(text(&wrong.stderr).contains("is not a backup"), "{wrong:?}");
}

/// As `sudo forewarn restore` does for the user of the service.
#[test]
fn a_backup_restored_by_root_belongs_to_the_owner_of_the_directory() {
    if !can_run(&[Need::Root]) {
        return;
    }
    const USER: u32 = 65534;
    let directory = tempfile::tempdir().unwrap();
    let (data, copy) = (directory.path().join("data"), directory.path().join("copy.db"));
    let _server = Server::start_with(&format!("--no-auth --data {}", data.display()));
    let run = |line: &str| clean_command().args(line.split_whitespace()).output().unwrap();
    assert!(run(&format!("backup {} --data {}", copy.display(), data.display())).status.success());
    let (existing, new) = (directory.path().join("existing"), directory.path().join("new"));
    std::fs::create_dir(&existing).unwrap();
    std::os::unix::fs::chown(&existing, Some(USER), Some(USER)).unwrap();
    for (target, owner) in [(existing, USER), (new, 0)] {
        let output = run(&format!("restore {} --data {}", copy.display(), target.display()));
        assert!(output.status.success(), "{output:?}");
        let mut names = Vec::new();
        for file in std::fs::read_dir(&target).unwrap().map(Result::unwrap) {
            let found = file.metadata().unwrap();
            assert_eq!((found.uid(), found.gid(), found.mode() & 0o077), (owner, owner, 0), "{file:?}");
            names.push(file.file_name());
        }
        names.sort();
        assert_eq!(names, ["forewarn.db", "lock"]);
        let mode = std::fs::metadata(&target).unwrap().mode() & 0o777;
        assert!(owner == USER || mode == 0o700, "{mode:o}");
    }
}

#[test]
fn a_command_after_run_without_a_separator_gets_a_hint() {
    let output = clean_command().args(["run", "./handler"]).output().unwrap();
    let err = text(&output.stderr);
    assert!(output.status.code() == Some(2) && err.contains("forewarn run -- ./handler"), "{err}");
}
