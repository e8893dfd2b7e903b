//! Commands for sets, services, hosts and machines, in every output format.

use crate::support::{Server, check, text};
use serde_json::Value;

const ID: &str = "602D9444-D2CD-49C7-8624-8643E7171297";

fn json(server: &Server, words: &str) -> Value {
    serde_json::from_slice(&server.run(&format!("{words} -o json")).stdout).unwrap()
}

#[test]
fn a_scale_set_is_created_as_with_az() {
    let server = Server::start();
    check(
        &server,
        "vmss create -g rg -n web --instance-count 3 --terminate-notification-time 10 --orchestration-mode uniform \
         --upgrade-policy-mode Automatic --zones 1 2 --tags a=b c=d --image p:o:s:v --vm-sku Standard_D2 \
         --platform-fault-domain-count 2 --placement-group-max none --approve-user-reboot true",
        0,
        "Created scale set web with 3 instances",
        "",
    );
    let set = json(&server, "vmss show -g rg -n web");
    assert_eq!(set["model"]["terminateNotification"]["notBeforeTimeout"], "PT10M");
    assert_eq!(set["model"]["details"]["imageVersion"], "v");
    assert_eq!(set["model"]["details"]["size"], "Standard_D2");
    assert_eq!(set["model"]["tags"]["c"], "d");
    assert_eq!((&set["orchestration"], &set["upgradeMode"]), (&"Uniform".into(), &"Automatic".into()));
    assert_eq!((&set["faultDomains"], &set["placementGroupMax"]), (&2.into(), &Value::Null));
    assert_eq!((&set["zones"][1], &set["policy"]["approveUserReboot"]), (&"2".into(), &true.into()));
    check(&server, "vmss create rg2/web --instance-count 0", 0, "Created scale set web with 0 instances", "");
    check(&server, "vmss list -g rg2 -o tsv", 0, "web\trg2\t0\t[..]", "");
    check(&server, "vmss list -g other", 0, "There are no scale sets.", "");
    check(&server, "vmss show rg/web", 0, "name             web\n…\ndeletion notice  PT10M\n…", "");
}

#[test]
fn instances_are_selected_by_id_name_or_star() {
    let server = Server::start();
    check(&server, "vmss create web --instance-count 3 --orchestration-mode Uniform", 0, "…", "");
    server.document("web_0");
    check(&server, "vmss stop web --instance-ids 1 web_2", 0, "web_1 is stopped\nweb_2 is stopped", "");
    check(&server, "vmss start web --instance-ids *", 0, "web_0 is running\nweb_1 is running\nweb_2 is running", "");
    check(
        &server,
        "vmss deallocate web --instance-ids 9",
        1,
        "",
        "forewarn: scale set 'web' has no instance '9'; list them with `forewarn vmss list-instances`",
    );
    check(
        &server,
        "vmss redeploy web --instance-ids wbe_1",
        1,
        "",
        "forewarn: scale set 'web' has no instance 'wbe_1'; did you mean 'web_1'?",
    );
    check(&server, "vmss restart web --no-wait", 0, "Reboot of web_0: event [..]\n…", "");
    let listed = json(&server, "vmss restart web --instance-ids 0 2 --no-wait");
    assert_eq!(listed["machines"], serde_json::json!(["web_0", "web_2"]));
}

#[test]
fn several_operations_are_waited_for_together() {
    let server = Server::start();
    check(&server, "vmss create web --instance-count 2 --orchestration-mode Uniform --priority Spot", 0, "…", "");
    check(
        &server,
        "vmss simulate-eviction web --instance-ids 0 1",
        0,
        "Preempt of web_0: Started 10:00:00 · Completed 10:00:00 (no handler connected)\n\
         Preempt of web_1: Started 10:00:00 · Completed 10:00:00 (no handler connected)",
        "",
    );
}

#[test]
fn a_refusal_names_the_operations_that_already_started() {
    let server = Server::start();
    check(&server, "vmss create web --instance-count 2 --orchestration-mode Uniform --priority Spot", 0, "…", "");
    server.document("web_0");
    check(&server, "vmss stop web --instance-ids 1", 0, "…", "");
    check(
        &server,
        "vmss simulate-eviction web --instance-ids 0 1 --no-wait",
        1,
        "",
        "forewarn: web_1: [..]. Already started, and continuing: web_0",
    );
}

#[test]
fn a_restart_of_all_is_one_operation_for_the_running_instances() {
    let server = Server::start();
    check(&server, "vmss create web --instance-count 13 --orchestration-mode Uniform", 0, "…", "");
    server.document("web_0");
    check(&server, "vmss stop web --instance-ids 1", 0, "…", "");
    let operation = json(&server, "vmss restart web --no-wait");
    assert_eq!(operation["machines"].as_array().unwrap().len(), 12);
    check(
        &server,
        "vmss restart web --instance-ids 0 1 --no-wait",
        1,
        "",
        "forewarn: Machine 'web_1' is not running[..]",
    );
}

#[test]
fn capacity_and_model_are_changed() {
    let server = Server::start();
    check(
        &server,
        "vmss create web --instance-count 1 --orchestration-mode Uniform",
        0,
        "Created scale set web with 1 instance",
        "",
    );
    check(&server, "vmss scale web --new-capacity 2", 0, "Scaled web to 2; created web_1", "");
    check(&server, "vmss scale web --new-capacity 1", 0, "Scaled web to 1; deleting web_1\n[..]Completed[..]", "");
    let set = json(&server, "vmss update web --terminate-notification-time 7m30s");
    assert_eq!(set["model"]["terminateNotification"]["notBeforeTimeout"], "PT450S");
    check(&server, "vmss update-instances web", 0, "Updated all instances of web to the latest model", "");
    let set = json(&server, "vmss update web --enable-terminate-notification false");
    assert_eq!(set["model"].get("terminateNotification"), None);
    check(
        &server,
        "vmss update web",
        2,
        "",
        "forewarn: nothing to change: see `forewarn vmss update --help` for the options",
    );
    check(
        &server,
        "vmss update web --enable-terminate-notification false --terminate-notification-time 5",
        2,
        "",
        "forewarn: --enable-terminate-notification false conflicts with --terminate-notification-time[..]",
    );
    check(&server, "vmss update web --terminate-notification-time 20", 1, "", "forewarn: [..]");
    check(&server, "vmss delete web", 0, "[..]Completed[..]", "");
    check(&server, "vmss list", 0, "There are no scale sets.", "");
}

#[test]
fn spot_instances_are_evicted() {
    let server = Server::start();
    check(
        &server,
        "vmss create web --instance-count 2 --orchestration-mode Uniform --priority Spot --eviction-policy Delete",
        0,
        "…",
        "",
    );
    server.document("web_0");
    check(
        &server,
        "vmss simulate-eviction web --instance-id 1 --no-wait",
        0,
        "Preempt of web_1: event [..], Scheduled, NotBefore 2026-07-28 10:00:30\n…",
        "",
    );
    check(&server, "vm create s --no-address --priority spot --eviction-policy deallocate", 0, "…", "");
    check(&server, "vm simulate-eviction -n s", 0, "Started[..]Completed[..]", "…");
}

#[test]
fn sets_and_services_are_created_updated_and_deleted() {
    let server = Server::start();
    for (noun, title) in [("availability-set", "availability set"), ("cloud-service", "cloud service")] {
        let list_none = format!("There are no {}s.", title);
        check(&server, &format!("{noun} list"), 0, &list_none, "");
        let create = format!("{noun} create -g rg -n {noun} --platform-update-domain-count 3 --fault-domains 2");
        check(&server, &create, 0, &format!("Created {title} {noun}"), "");
        check(&server, &format!("{noun} list -o tsv"), 0, &format!("{noun}\trg\t0\tno\t3\t2"), "");
        let update = format!("{noun} update {noun} --approve-user-redeploy true");
        check(&server, &update, 0, &format!("Updated {title} {noun}"), "");
        let shown =
            format!("name            {noun}\n…\nauto-approved   user redeployments, all events while every[..]");
        check(&server, &format!("{noun} show rg/{noun}"), 0, &shown, "");
        check(&server, &format!("{noun} show {noun}x"), 1, "", &format!("forewarn: [..]Did you mean '{noun}'?"));
        check(
            &server,
            &format!("{noun} update {noun}"),
            2,
            "",
            &format!("forewarn: [..]`forewarn {noun} update --help`[..]"),
        );
        check(&server, &format!("{noun} delete {noun}"), 0, "Deletion[..] finished: Succeeded.", "");
        check(&server, &format!("{noun} list"), 0, &list_none, "");
    }
}

#[test]
fn a_host_failure_affects_its_machines() {
    let server = Server::start();
    check(&server, "host list", 0, "There are no hosts.", "");
    check(&server, "host create -n h1", 0, "Created host h1", "");
    check(&server, "host delete h1", 0, "", "Deleted host h1");
    check(&server, "vm create db --no-address --host h1", 0, "…", "");
    server.document("db");
    check(&server, "host show h1", 0, "name      h1\nstate     Active\npool      default\nmachines  db", "");
    check(&server, "host show h2", 1, "", "forewarn: [..]Did you mean 'h1'?");
    check(
        &server,
        &format!("host fail h1 --no-wait --event-id {ID}"),
        0,
        &format!("Reboot of db: event {ID}, Started\n…"),
        "",
    );
    check(&server, &format!("events show {ID}"), 0, "event        602D[..]\n…\ncause        HardwareFailure\n…", "");
    check(&server, "vm fail db --type Redeploy --no-wait", 0, "Redeploy of db: event [..], Started\n…", "");
    let list = json(&server, "operation list --kind Fail");
    let id = list[0]["id"].as_str().unwrap();
    check(&server, &format!("operation show {id}"), 0, "operation[..]\ntitle[..]\nsimulated by  owner\n…", "");
    check(&server, "host fail h1 --type Freeze", 2, "", "error: invalid value 'Freeze'[..]\n…");
}

#[test]
fn a_host_is_drained_and_activated() {
    let server = Server::start();
    check(&server, "host create h2", 0, "Created host h2", "");
    check(
        &server,
        "host update h2 --pool spare --memory 4096 --label rack=7",
        0,
        "…\npool      spare\nlabels    rack=7\n…",
        "",
    );
    check(
        &server,
        "host update h2 --memory many",
        2,
        "",
        "forewarn: invalid memory 'many': use a number of MiB, or 'none'",
    );
    check(&server, "vm create db --no-address --host h1 --memory 5000", 0, "…", "");
    let full = "MACHINE  EVENT        TO                                 HANDLER\ndb       cannot move  waits for a host with room for db  no";
    check(&server, "host drain h1 --to spare --dry-run", 0, full, "");
    check(&server, "host update h2 --memory none", 0, "…", "");
    let moves = "MACHINE  EVENT   TO  HANDLER\ndb       Freeze  h2  no";
    check(&server, "host drain h1 --to spare --dry-run", 0, moves, "");
    check(&server, "host show h1", 0, "name      h1\nstate     Active\n…", "");
    check(&server, "host drain h1 --to spare --no-wait", 0, "Draining host h1; operation [..]", "");
    check(&server, "host drain h1", 1, "", "forewarn: Host 'h1' is already being drained. [..]");
    check(&server, "clock advance 10m", 0, "…", "");
    check(&server, "host show h1", 0, "name      h1\nstate     Drained\n…", "");
    check(&server, "host show h2", 0, "…\nmachines  db", "");
    check(&server, "host undrain h1", 0, "Host h1 is Active", "");
    check(&server, "host fail h2 --fenced", 0, "Host h2 is Failed; its machines are stopped", "");
    check(
        &server,
        "host show h2",
        0,
        "name      h2\nstate     Failed\npool      spare\nfenced    by [..] at [..]\n…",
        "",
    );
    check(&server, "vm show db", 0, "…\npower[..]Stopped\n…", "");
    check(&server, "host activate h2", 0, "Host h2 is Active with 1 machine: db", "");
}

#[test]
fn a_rollout_is_previewed_started_paused_and_stopped() {
    let server = Server::start();
    check(&server, "rollout list", 0, "There are no rollouts.", "");
    for (machine, host) in [("a", "h1"), ("b", "h2"), ("c", "h3")] {
        check(&server, &format!("vm create {machine} --no-address --host {host}"), 0, "…", "");
        server.document(machine);
    }
    check(&server, "rollout start --host h1 h9 --type Reboot", 1, "", "forewarn: No host is named 'h9'. [..]");
    check(
        &server,
        "rollout start --host h1 --type Reboot --window 22:00",
        2,
        "",
        "error: invalid value '22:00'[..]\n…",
    );
    check(
        &server,
        "rollout start --host h1 h2 h3 --type Reboot --dry-run",
        0,
        "STEP  MACHINES  ANNOUNCED[..]ENDS\nh1    1         [..]\nh2    1         [..]\nh3    1         [..]\n\nExpected to finish at [..]\na: at least 0 of 1 machines available.\n…",
        "",
    );
    let plan = json(&server, "rollout start --host h1 h2 h3 --type Reboot --dry-run");
    assert_eq!((&plan["steps"][0]["state"], &plan["steps"][0]["machineCount"]), (&"Pending".into(), &1.into()));
    check(&server, "rollout list", 0, "There are no rollouts.", "");
    check(
        &server,
        "rollout start --host h1 h2 h3 --type Reboot --description CHG-7 --no-wait",
        0,
        "Started rollout [..] with 3 steps. [..]",
        "",
    );
    check(
        &server,
        "rollout list",
        0,
        "ID[..]DESCRIPTION  REQUESTED BY\n[..]  Reboot  Waiting  0/3    0       CHG-7        owner",
        "",
    );
    check(&server, "operation list", 0, "ID[..]DESCRIPTION[..]\n[..]  CHG-7  [..]", "");
    let list = json(&server, "rollout list");
    let id = list[0]["id"].as_str().expect("an ID").to_owned();
    assert_eq!(list[0]["steps"][0]["host"], "h1");
    assert_eq!(list[0]["steps"][0]["state"], "InProgress");
    assert!(list[0]["steps"][0]["started"].is_string());
    check(&server, "rollout start --host h2 --type Freeze", 1, "", "forewarn: Host 'h2' belongs to rollout [..]");
    check(&server, &format!("rollout pause {}", &id[..8]), 0, "…\nstate         Paused\n…", "");
    check(&server, "clock advance 40m", 0, "…", "");
    assert_eq!(json(&server, &format!("rollout show {id}"))["steps"][0]["state"], "Succeeded");
    assert_eq!(json(&server, &format!("rollout show {id}"))["steps"][1]["state"], "Pending");
    check(&server, &format!("rollout resume {id}"), 0, "…\nstate         Waiting\nwaits for     approvals[..]\n…", "");
    check(&server, &format!("rollout stop {id}"), 0, "…\nstate         Stopped\n…", "");
    check(
        &server,
        &format!("rollout watch {id}"),
        0,
        "…\nRollout [..] stopped by [..]: 1 of 3 steps, 0 failed machines.",
        "",
    );
    check(&server, "rollout start --host h3 --type Reboot --at +2h --no-wait", 0, "Started rollout [..]", "");
    let planned = json(&server, "rollout list")[0].clone();
    assert_eq!((&planned["state"], &planned["waitsFor"]["reason"]), (&"Planned".into(), &"Start".into()));
    let show = format!("rollout show {}", planned["id"].as_str().expect("an ID"));
    check(
        &server,
        &show,
        0,
        "…\nwaits for     its start: the first step is announced at [..]\n…\nstarts at     [..]\n…",
        "",
    );
    check(
        &server,
        "rollout start --vm b a --type Freeze --dry-run",
        0,
        "STEP  MACHINES  ANNOUNCED[..]ENDS\nb     1         [..]\na     1         [..]\n…",
        "",
    );
    let start = "rollout start --host h1 h2 --type Reboot --max-failures 1 --pause 1h --no-wait";
    check(&server, start, 0, "Started rollout [..]", "");
    let id = json(&server, "rollout list")[0]["id"].as_str().expect("an ID").to_owned();
    check(&server, "host fail h1 --fenced", 0, "Host h1 is Failed; its machines are stopped", "");
    let failed =
        "…\nfailures      1 of at most 1\n\nSTEP  STATE[..]\nh1    Failed: HostFailed  [..]\nh2    Pending[..]";
    check(&server, &format!("rollout show {id}"), 0, failed, "");
    let not_failed = "forewarn: The step 'h2' is Pending. Only a failed step can be retried[..]";
    check(&server, &format!("rollout retry {id} --host h2"), 1, "", not_failed);
    check(
        &server,
        &format!("rollout retry {id} --host h1 --update-domain 1"),
        2,
        "",
        "error: the argument '--host[..]cannot be used with[..]\n…",
    );
    check(
        &server,
        &format!("rollout retry {id} --set web"),
        2,
        "",
        "error: the following required arguments[..]\n  --update-domain[..]\n…",
    );
    let repeated = "…\nh1 [..]Failed: HostFailed  [..]\nh2 [..]Pending[..]\nh1 (retry)  Pending[..]";
    check(&server, &format!("rollout retry {} --host h1", &id[..8]), 0, repeated, "");
    check(
        &server,
        &format!("rollout retry {id}"),
        1,
        "",
        "forewarn: Rollout [..] has no failed steps left to retry.[..]",
    );
    assert_eq!(json(&server, &format!("rollout show {id}"))["steps"][2]["retryOf"], 0);
    check(&server, &format!("rollout stop {id}"), 0, "…", "");
    check(&server, &format!("rollout retry {id}"), 1, "", "forewarn: Rollout [..] has ended. [..]");
    check(&server, "rollout show nothing", 1, "", "forewarn: No rollout has the ID 'nothing'[..]");
}

#[test]
fn a_machine_is_shown_and_changed() {
    let server = Server::start();
    check(&server, "vm create -g rg -n db --no-address --vm-id 00000000-0000-4000-8000-000000000001", 0, "…", "");
    check(
        &server,
        "vm update -g rg -n db --host h1 --zone 2 --fault-domain 1 --terminate-notification-time 5 --tag a=b --size S \
         --address 10.9.8.7 --approve-user-reboot true",
        0,
        "Updated machine db",
        "",
    );
    let machine = json(&server, "vm show db");
    assert_eq!((&machine["host"], &machine["zone"]), (&"h1".into(), &"2".into()));
    assert_eq!(machine["terminateNotification"]["notBeforeTimeout"], "PT5M");
    assert_eq!(machine["policy"]["approveUserReboot"], true);
    check(
        &server,
        "vm show 00000000-0000-4000-8000-000000000001",
        0,
        "name             db\n…\nzone             2\nhost             h1\naddresses        10.9.8.7\n…\ntag              a=b",
        "",
    );
    assert!(server.run("vm update db --host= --zone= --enable-terminate-notification false").status.success());
    let machine = json(&server, "vm show db");
    let gone = ["host", "zone", "terminateNotification"].map(|key| machine.get(key).is_none());
    assert_eq!(gone, [true; 3], "{machine}");
    check(
        &server,
        "vm perform-maintenance db --no-wait",
        0,
        "Redeploy of db: event [..], Started (no handler connected)\n…",
        "",
    );
    check(&server, "vm deallocate db", 0, "db is deallocated", "");
    check(&server, "vm list -g rg -o tsv", 0, "db\trg\t\tDeallocated\tno\t0\t\t10.9.8.7\t00000000[..]", "");
    check(&server, "vm show db -n db", 2, "", "error: [..]\n…");
}

#[test]
fn every_format_shows_the_same_values() {
    let server = Server::start();
    check(&server, "vm create a --no-address --tag x=yes", 0, "…", "");
    server.document("a");
    check(
        &server,
        &format!("vm restart a --no-wait --event-id {ID} -o tsv"),
        0,
        "[..]\tRestart of a\tRunning\t[..]",
        "",
    );
    check(&server, "events list -o tsv", 0, &format!("{ID}\tReboot\tScheduled\t2026-07-28 10:15:00\ta\t"), "");
    check(
        &server,
        "events list -o yaml",
        0,
        "- appeared: \"2026-07-28T10:00:00Z\"\n…\n  type: Reboot\n  visible: true",
        "",
    );
    check(&server, "vm show a -o yaml", 0, "…\ntags:\n  x: \"yes\"\n…", "");
    check(
        &server,
        "clock show -o tsv",
        0,
        "2026-07-28 10:00:00\tManual\t1\t2026-07-28 10:15:00\tNotBefore of a Reboot of a",
        "",
    );
    check(&server, "clock show -o yaml", 0, "kind: Manual\n…", "");
    check(
        &server,
        "history --kind appeared -o tsv",
        0,
        &format!("2026-07-28 10:00:00\tappeared Reboot\ta\t\t{ID}"),
        "",
    );
    check(&server, "history --kind audit,appeared --limit 1", 0, "TIME[..]\n[..]", "");
    check(&server, "operation list", 0, "ID[..]\n[..]  Restart of a  Running  [..]", "");
    check(&server, "events list -o xml", 2, "", "error: invalid value 'xml'[..]\n…");
    assert!(!text(&server.run("vm list").stdout).contains('\x1b'));
}

#[test]
fn the_columns_of_a_list_are_valid_arguments() {
    let server = Server::start();
    check(&server, "cloud-service create east/shop", 0, "…", "");
    check(&server, "vm create east/web_IN_0 --cloud-service shop --no-address", 0, "…", "");
    check(&server, "vmss create west/web --instance-count 1 --orchestration-mode Uniform", 0, "…", "");
    let listed = text(&server.run("vm list -o tsv").stdout);
    let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split('\t').collect()).collect();
    let columns: Vec<_> = rows.iter().skip(1).map(|row| (row[0], row[1], row[2])).collect();
    assert_eq!(columns, [("web_IN_0", "shop", "shop"), ("web_0", "west", "web")]);
    for (name, group, set) in columns {
        assert!(server.run(&format!("vm show {group}/{name}")).status.success());
        let both = text(&server.run(&format!("vm list -g {group} -o tsv")).stdout);
        assert!(both.starts_with(name), "{both}");
        assert!(server.run(&format!("maintenance start --group {set} --no-wait")).status.success());
    }
}

#[test]
fn ambiguous_and_unknown_names_are_reported_as_given() {
    let server = Server::start();
    for group in ["east", "west"] {
        check(&server, &format!("vm create {group}/web --no-address"), 0, "Created machine web", "");
    }
    let which =
        "forewarn: More than one machine is named 'web': east/web ([..]), west/web ([..]). Use group/name or the ID.";
    check(&server, "vm restart web", 1, "", which);
    check(&server, "vm show east/web", 0, "name             web\n…\nresource group   east\n…", "");
    check(&server, "vm show -g west -n web", 0, "…\nresource group   west\n…", "");
    let missing = "forewarn: No machine is named 'east/wbe'. [..] Did you mean 'east/web'?";
    check(&server, "vm show -g east -n wbe", 1, "", missing);
    check(&server, "maintenance start --vm east/wbe", 1, "", missing);
    check(&server, "fault add --reset --vm east/web", 0, "Added fault 1: Reset for web, until cleared", "");
    check(&server, "vmss show east/web", 1, "", "forewarn: No scale set is named 'east/web'. [..]");
}

#[test]
fn invalid_values_are_reported_without_mentioning_the_request_body() {
    let server = Server::start();
    check(
        &server,
        "vm create a --address nonsense",
        1,
        "",
        "forewarn: 'nonsense' is not an IP address. Use the form 10.0.0.4 or fd00::4.",
    );
    check(&server, "vm create a+b", 1, "", "forewarn: 'a+b' is not a valid name. Use 1 to 128 letters, [..]");
    check(&server, "vm restart vm --event-id x", 1, "", "forewarn: [..]x[..]");
    for words in ["vm create a --address nonsense", "vm create a+b", "vm restart vm --event-id x"] {
        let said = text(&server.run(words).stderr);
        assert!(!said.contains("column") && !said.contains("body"), "{said}");
    }
}

#[test]
fn the_closest_name_is_suggested() {
    let server = Server::start();
    check(&server, "vm create database --no-address", 0, "…", "");
    check(
        &server,
        "vm restart databsae",
        1,
        "",
        "forewarn: No machine is named 'databsae'. [..]Did you mean 'database'?",
    );
    check(
        &server,
        "vm restart quite-another",
        1,
        "",
        "forewarn: No machine is named 'quite-another'. [..]register it first.",
    );
    check(
        &server,
        "maintenance start --group databse",
        1,
        "",
        "forewarn: No [..] is named 'databse'. [..]create it first.",
    );
    check(&server, "history --kind startd", 2, "", "error: [..]\n…\n  tip: a similar value exists: 'started'\n…");
    check(&server, "vmss scael web", 2, "", "error: [..]\n…\n  tip: a similar subcommand exists: 'scale'\n…");
    check(
        &server,
        "serve --clock manul",
        2,
        "",
        "forewarn: --clock: invalid value \"manul\"[..](did you mean manual?)",
    );
}

#[test]
fn an_operation_shows_what_it_waits_for_and_is_approved_as_a_whole() {
    let server = Server::start();
    check(&server, "vmss create web --instance-count 3 --orchestration-mode Uniform", 0, "…", "");
    server.document("web_0");
    check(&server, "vmss restart web --no-wait", 0, "…", "…");
    let operations = json(&server, "operation list --state Running --set web");
    let id = operations[0]["id"].as_str().unwrap().to_owned();
    let waiting = "…\nprogress      0 of 3 events finished, 0 of 3 machines ready\nwaits for     approvals missing from 3 of 3 machines: web_0, web_1 and web_2; [..]\n\nweb (handler connected)\n  [..]  Reboot  Scheduled  web_0\n…";
    check(&server, &format!("operation show {id}"), 0, waiting, "");
    let parts = "…\n\nnot ready\n  web_0 in web: Has read the event but has not approved it yet. Last poll: [..]\n  web_1 in web: Has never polled; [..]\n  web_2 in web: [..]\n\ncapacity\n  default/web: 3 up now, 0 up during the impact, floor 2, below its floor";
    check(&server, &format!("operation show {id}"), 0, parts, "");
    check(
        &server,
        "operation list --vm web_1",
        0,
        "ID[..]\n[..]  approvals missing from 3 of 3 machines: web_0[..]",
        "",
    );
    check(&server, "operation list --state Failed", 0, "There are no operations.", "");
    check(&server, "operation list --host h9", 1, "", "forewarn: No host is named 'h9'. [..]");
    let approved = "…\nprogress      0 of 3 events finished, 3 in progress\n…\n  [..]  Reboot  Started  web_0  approved by management:owner\n…";
    check(&server, &format!("operation approve {id}"), 0, approved, "");
    check(&server, &format!("operation cancel {id}"), 1, "", "forewarn: [..]");
}
