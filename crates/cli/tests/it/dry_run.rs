//! `--dry-run` of every command that creates events: it shows them, and nothing changes.

use crate::support::{Server, check, text};

const COMMANDS: &[(&str, &str)] = &[
    ("vm restart web_0 --dry-run", "Reboot of web_0: would be Scheduled"),
    ("vm redeploy web_0 --dry-run", "Redeploy of web_0: would be Scheduled"),
    ("vm perform-maintenance web_0 --dry-run", "Redeploy of web_0: would be Scheduled"),
    ("vm delete web_0 --dry-run", "Terminate of web_0: would be Scheduled"),
    ("vm simulate-eviction spot --dry-run", "Preempt of spot: would be Scheduled"),
    ("host fail h1 --dry-run", "Reboot of spot: would be Started"),
    ("maintenance start --vm web_0 --dry-run", "Freeze of web_0: would be Scheduled"),
    ("maintenance start --host h1 --type Reboot --dry-run", "Reboot of spot: would be Scheduled"),
    ("maintenance start --set web --type Reboot --dry-run", "Reboot of web_0: would be Scheduled"),
    ("vmss scale web --new-capacity 1 --dry-run", "Terminate of web_1: would be Scheduled"),
    ("vmss restart web --instance-ids 0 --dry-run", "Reboot of web_0: would be Scheduled"),
    ("vmss redeploy web --instance-ids 0 --dry-run", "Redeploy of web_0: would be Scheduled"),
    ("vmss delete-instances web --instance-ids 0 --dry-run", "Terminate of web_0: would be Scheduled"),
    ("vmss delete web --dry-run", "Terminate of web_0: would be Scheduled"),
];

#[test]
fn a_dry_run_shows_the_events_and_changes_nothing() {
    let server = Server::start();
    check(
        &server,
        "vmss create web --instance-count 2 --orchestration-mode Uniform --terminate-notification-time 5",
        0,
        "…",
        "",
    );
    check(&server, "vm create spot --priority Spot --host h1 --no-address", 0, "…", "");
    server.document("web_0");
    server.document("spot");
    let state =
        || ["vm list -o json", "vmss list -o json", "history list -o json"].map(|list| text(&server.run(list).stdout));
    let before = state();
    for (command, expected) in COMMANDS {
        let output = server.run(command);
        let shown = text(&output.stdout);
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
        assert!(shown.contains(expected), "{command} shows:\n{shown}");
        check(&server, "events list", 0, "There are no events.", "");
        assert_eq!(state(), before, "{command}");
    }
}

#[test]
fn a_dry_run_names_the_rollout_that_owns_the_host() {
    let server = Server::start();
    check(&server, "vm create web --host h1 --no-address", 0, "…", "");
    server.document("web");
    check(&server, "rollout start --host h1 --type Reboot --description CHG-1 --no-wait", 0, "…", "");
    let owner = "Host h1 belongs to the rollout 'CHG-1' ([..]), which has reached it.";
    check(&server, "vm restart web --dry-run", 0, &format!("Reboot of web: would be Scheduled[..]\n{owner}"), "");
    check(&server, "host drain h1 --dry-run", 0, &format!("…\n{owner}"), "");
}
