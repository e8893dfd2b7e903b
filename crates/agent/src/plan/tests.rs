//! Tests of the plan as tables: input on the left, tasks on the right.
//!
//! Times are seconds from the first line. `see KIND STATUS NOT_BEFORE MACHINES [SOURCE]` is a document with one event,
//! `none` one without events. `ok`, `fail` and `late` end a step. `taken` and `refused` are responses to an approval.
//! `at` sets the time. `restart` starts another run with the same records.

use std::time::UNIX_EPOCH;

use forewarn_client::Version;

use super::*;
use crate::policy::KindPolicy;

const ME: &str = "me";
const ID: &str = "E1";

fn rules(hooks: &str) -> PlanSettings {
    PlanSettings {
        steps: hooks.split_whitespace().map(step).collect(),
        policies: Policies::default(),
        on_failure: FailurePolicy::Hold,
        on_late: FailurePolicy::Hold,
        rerun_interrupted: false,
        margin: Duration::from_secs(10),
        limit: Duration::from_secs(300),
        leader_share_percent: 25,
    }
}

/// Step of a hook, or of an action with this name.
fn step(name: &str) -> Step {
    Step::from_hook_name(name).unwrap_or_else(|| {
        let (action, phase) = name.split_once('.').unwrap();
        Step { name: name.into(), changed_by: Some(action.into()), ..Step::from_hook_name(phase).unwrap() }
    })
}

fn rules_with_policy(hooks: &str, policy: Policy) -> PlanSettings {
    PlanSettings { policies: Policies { default: policy, ..Policies::default() }, ..rules(hooks) }
}

#[track_caller]
fn check(rules: PlanSettings, table: &str) {
    let mut plan = Plan::resume(rules.clone(), []);
    let (mut now, mut found, mut expected) = (UNIX_EPOCH, Vec::new(), Vec::new());
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (step, wanted) = line.split_once("=>").expect("a step has an outcome");
        expected.push(format!("{} => {}", step.trim(), wanted.trim()));
        apply(&mut plan, &rules, step.trim(), &mut now);
        found.push(format!("{} => {}", step.trim(), render_tasks(&mut plan, now)));
    }
    assert_eq!(found, expected, "\nfound:\n{}\n", found.join("\n"));
}

fn apply(plan: &mut Plan, rules: &PlanSettings, step: &str, now: &mut SystemTime) {
    let id = EventId::parse(ID).unwrap();
    let words: Vec<&str> = step.split_whitespace().collect();
    match words[..] {
        ["see", kind, status, not_before, machines, ref rest @ ..] => {
            let source = rest.first().copied().unwrap_or("Platform");
            plan.apply_document(ME, &document(&event(kind, status, not_before, machines, source)), *now);
        }
        ["none"] => plan.apply_document(ME, &document(""), *now),
        ["ok", hook] => plan.record_end(&id, hook, Outcome::Succeeded),
        ["fail", hook] => plan.record_end(&id, hook, Outcome::Failed("exit status: 1".into())),
        ["late", hook] => plan.record_end(&id, hook, Outcome::Late),
        ["taken"] => plan.record_approval(&id, Ok(()), *now),
        ["refused"] => plan.record_approval(&id, Err("no".into()), *now),
        ["at", secs] => *now = UNIX_EPOCH + Duration::from_secs(secs.parse().unwrap()),
        ["restart"] => {
            let records: Vec<Record> = plan.records().cloned().collect();
            *plan = Plan::resume(rules.clone(), records);
        }
        _ => panic!("{step}"),
    }
}

fn event(kind: &str, status: &str, not_before: &str, machines: &str, source: &str) -> String {
    let not_before = match not_before.parse() {
        Ok(secs) => httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(secs)),
        Err(_) => String::new(),
    };
    let machines: Vec<String> = machines.split(',').map(|machine| format!("{machine:?}")).collect();
    let machines = machines.join(",");
    format!(
        r#"{{"EventId":"{ID}","EventStatus":"{status}","EventType":"{kind}","Resources":[{machines}],"NotBefore":"{not_before}","EventSource":"{source}"}}"#
    )
}

fn document(events: &str) -> Document {
    let text = format!(r#"{{"DocumentIncarnation":1,"Events":[{events}]}}"#);
    Document::parse(Version::V2020_07_01, text.as_bytes()).unwrap()
}

fn render_tasks(plan: &mut Plan, now: SystemTime) -> String {
    let tasks: Vec<String> = plan
        .next(now)
        .into_iter()
        .filter_map(|task| match task {
            Task::Log(_) => None,
            Task::Run(job) => Some(format!("{} {}", job.step, job.limit.as_secs())),
            Task::Approve(_) => Some("approve".into()),
        })
        .collect();
    if tasks.is_empty() { "-".into() } else { tasks.join(", ") }
}

#[test]
fn an_event_is_prepared_approved_and_restored() {
    check(
        rules("prepare reboot.prepare started reboot.restore restore"),
        "see Reboot Scheduled 900 me => prepare 890
         at 100 => -
         ok prepare => reboot.prepare 790
         ok reboot.prepare => approve
         see Reboot Scheduled 900 me => -
         taken => -
         see Reboot Started - me => started 300
         none => -
         ok started => reboot.restore 300
         fail reboot.restore => restore 300
         ok restore => -
         restart => -
         none => -",
    );
}

#[test]
fn events_of_other_machines_are_ignored_and_events_without_notice_skip_prepare() {
    check(rules("prepare started restore"), "see Reboot Scheduled 900 other,_me => -\n none => -");
    check(
        rules("prepare started restore"),
        "see Reboot Started - other,ME => started 300\n ok started => -\n none => restore 300",
    );
}

#[test]
fn without_hooks_events_are_only_approved() {
    check(rules(""), "see Freeze Scheduled 900 me => approve\n taken => -\n restart => -\n none => -");
    check(rules("redeploy.prepare"), "see Freeze Scheduled 900 me => approve");
}

#[test]
fn a_canceled_event_is_restored_after_its_running_step() {
    check(
        rules("prepare restore"),
        "see Reboot Scheduled 900 me => prepare 890\n none => -\n ok prepare => restore 300\n ok restore => -",
    );
}

#[test]
fn each_policy_approves_at_its_own_time() {
    check(
        rules_with_policy("prepare", Policy::AtOnce),
        "see Reboot Scheduled 900 me => prepare 890, approve\n taken => -",
    );
    check(rules_with_policy("prepare", Policy::Never), "see Reboot Scheduled 900 me => prepare 890\n ok prepare => -");
    check(
        rules_with_policy("prepare", Policy::Leader),
        "see Reboot Scheduled 900 me,b => prepare 890\n ok prepare => approve",
    );
}

#[test]
fn a_follower_approves_only_after_the_leaders_share_of_the_notice() {
    let table = "see Reboot Scheduled 900 a,b,me => -
                 at 225 => -
                 at 449 => -
                 restart => -
                 see Reboot Scheduled 900 a,b,me => -
                 at 450 => approve
                 taken => -";
    check(rules_with_policy("", Policy::Leader), table);
    let started = "see Reboot Scheduled 900 a,me => -\n see Reboot Started - a,me => -\n at 800 => -";
    check(rules_with_policy("", Policy::Leader), started);
    check(rules_with_policy("", Policy::Leader), "see Terminate Scheduled 300 a,b,me => approve");
    let mut plan = Plan::resume(rules_with_policy("", Policy::Leader), []);
    plan.apply_document(ME, &document(&event("Reboot", "Scheduled", "900", "a,me", "User")), UNIX_EPOCH);
    assert_eq!(plan.deadline(UNIX_EPOCH), Some(UNIX_EPOCH + Duration::from_secs(225)));
}

#[test]
fn the_most_specific_policy_applies() {
    let kinds = [
        ("reboot", KindPolicy { any: Some(Policy::Never), platform: None, user: Some(Policy::AtOnce) }),
        ("freeze", KindPolicy { any: Some(Policy::Never), ..KindPolicy::default() }),
    ];
    let policies = Policies { default: Policy::AtOnce, platform: None, user: Some(Policy::Never), kinds: kinds.into() };
    for (kind, source, expected) in [
        ("Reboot", "User", "approve"),
        ("Reboot", "Platform", "-"),
        ("Freeze", "Platform", "-"),
        ("Redeploy", "User", "-"),
        ("Redeploy", "Platform", "approve"),
        ("Upgrade", "Robot", "approve"),
    ] {
        let rules = PlanSettings { policies: policies.clone(), ..rules("") };
        check(rules, &format!("see {kind} Scheduled 900 me {source} => {expected}"));
    }
}

#[test]
fn a_hook_that_fails_or_exceeds_its_limit_holds_the_approval_unless_configured_otherwise() {
    let hooks = "prepare reboot.prepare restore";
    for ending in ["fail", "late"] {
        let held = format!(
            "see Reboot Scheduled 900 me => prepare 890\n {ending} prepare => -
             see Reboot Started - me => -\n none => restore 300"
        );
        check(rules(hooks), &held);
        let approved = format!(
            "see Reboot Scheduled 900 me => prepare 890\n {ending} prepare => reboot.prepare 890
             {ending} reboot.prepare => approve"
        );
        let lenient = match ending {
            "fail" => PlanSettings { on_failure: FailurePolicy::Approve, ..rules(hooks) },
            _ => PlanSettings { on_late: FailurePolicy::Approve, ..rules(hooks) },
        };
        check(lenient, &approved);
    }
}

#[test]
fn the_time_limit_of_prepare_depends_on_not_before() {
    check(rules("prepare"), "see Preempt Scheduled 30 me => prepare 20");
    check(rules("prepare"), "see Preempt Scheduled 9 me => prepare 6");
    check(rules("prepare"), "at 100 => -\n see Reboot Scheduled 50 me => prepare 1");
    check(rules("prepare"), "see Reboot Scheduled - me => prepare 300");
}

#[test]
fn an_interrupted_hook_runs_again_only_if_configured() {
    let begin = "see Reboot Scheduled 900 me => prepare 890\n restart => -\n see Reboot Scheduled 900 me =>";
    check(rules("prepare restore"), &format!("{begin} -\n none => restore 300\n restart => -\n none => -"));
    let again = PlanSettings { rerun_interrupted: true, ..rules("prepare restore") };
    check(again.clone(), &format!("{begin} prepare 890\n ok prepare => approve"));
    check(
        again,
        "see Reboot Scheduled 900 me => prepare 890\n ok prepare => approve\n taken => -\n restart => -
                  see Reboot Started - me => -\n none => restore 300\n restart => restore 300",
    );
    let lenient = PlanSettings { on_failure: FailurePolicy::Approve, ..rules("prepare") };
    check(lenient, &format!("{begin} approve"));
}

#[test]
fn an_event_that_finished_while_the_agent_was_down_is_restored() {
    check(
        rules("prepare started restore"),
        "see Reboot Scheduled 900 me => prepare 890
         ok prepare => approve
         taken => -
         restart => -
         at 2000 => -
         none => restore 300
         ok restore => -
         restart => -
         none => -",
    );
}

#[test]
fn a_failed_approval_is_retried_and_logged_once() {
    check(
        rules(""),
        "see Reboot Scheduled 900 me => approve\n refused => -\n at 4 => -\n at 5 => approve\n refused => -
         at 10 => approve\n taken => -\n at 60 => -",
    );
    let mut plan = Plan::resume(rules(""), []);
    plan.apply_document(ME, &document(&event("Reboot", "Scheduled", "900", "me", "User")), UNIX_EPOCH);
    let id = EventId::parse(ID).unwrap();
    (0..5).for_each(|_| plan.record_approval(&id, Err("no".into()), UNIX_EPOCH));
    assert_eq!(plan.take_messages().iter().filter(|text| text.contains("approval failed")).count(), 1);
}

#[test]
fn an_event_that_reappears_runs_no_hook_twice() {
    check(
        rules("prepare restore"),
        "see Reboot Scheduled 900 me => prepare 890\n ok prepare => approve\n taken => -\n none => restore 300
         ok restore => -\n see Reboot Scheduled 900 me => -\n none => -",
    );
}

#[test]
fn an_event_that_reappears_after_restore_is_not_approved() {
    let life = "see Reboot Scheduled 900 me => prepare 890\n none => -\n ok prepare => restore 300\n ok restore => -
         see Reboot Scheduled 900 me => ";
    check(rules("prepare restore"), &format!("{life}-\n at 60 => -"));
    check(PlanSettings { on_failure: FailurePolicy::Approve, ..rules("prepare restore") }, &format!("{life}approve"));
    check(
        rules("restore"),
        "see Reboot Scheduled 900 me => approve\n refused => -\n none => restore 300\n ok restore => -
         see Reboot Scheduled 900 me => approve",
    );
}

#[test]
fn an_action_that_is_no_longer_configured_is_logged_until_its_event_finishes() {
    let mut plan = Plan::resume(rules("nginx.prepare nginx.restore prepare"), []);
    plan.apply_document(ME, &document(&event("Reboot", "Scheduled", "900", "me", "User")), UNIX_EPOCH);
    let id = EventId::parse(ID).unwrap();
    for step in ["nginx.prepare", "prepare"] {
        plan.next(UNIX_EPOCH);
        plan.record_end(&id, step, Outcome::Succeeded);
    }
    let messages = |rules, plan: &Plan| Plan::resume(rules, plan.records().cloned()).take_messages();
    assert_eq!(messages(rules("nginx.prepare nginx.restore"), &plan), Vec::<String>::new());
    let orphaned = "event E1: action nginx.prepare ran and is no longer configured; undo its changes by hand";
    assert_eq!(messages(rules("prepare"), &plan), [orphaned]);
    plan.apply_document(ME, &document(""), UNIX_EPOCH);
    assert_eq!(messages(rules("prepare"), &plan), Vec::<String>::new());
}

#[test]
fn only_the_newest_finished_events_are_kept() {
    let mut plan = Plan::resume(rules(""), []);
    for number in 0..FINISHED_MAX as u64 + 10 {
        let text = event("Reboot", "Scheduled", "900", ME, "User").replace(ID, &format!("E{number}"));
        plan.apply_document(ME, &document(&text), UNIX_EPOCH + Duration::from_secs(number));
    }
    plan.apply_document(ME, &document(""), UNIX_EPOCH);
    assert_eq!(plan.records().count(), FINISHED_MAX);
}

#[test]
fn an_action_undoes_only_its_own_changes() {
    check(
        rules("nginx.prepare nginx.restore restore"),
        "see Reboot Started - me => -
         none => restore 300",
    );
    check(
        rules("nginx.prepare prepare restore nginx.restore"),
        "see Reboot Scheduled 900 me => nginx.prepare 890
         fail nginx.prepare => -
         none => restore 300
         ok restore => nginx.restore 300",
    );
}

#[test]
fn a_step_can_fail_without_holding_the_approval() {
    let mut rules = rules("webhook.prepare nginx.prepare");
    rules.steps[0].on_failure = Some(FailurePolicy::Approve);
    let table = "see Reboot Scheduled 900 me => webhook.prepare 890
                 fail webhook.prepare => nginx.prepare 890
                 ok nginx.prepare => approve";
    check(rules.clone(), table);
    rules.on_failure = FailurePolicy::Approve;
    rules.steps[0].on_failure = Some(FailurePolicy::Hold);
    check(rules, "see Reboot Scheduled 900 me => webhook.prepare 890\nfail webhook.prepare => -");
}

/// Plan with two events, E1 and E2.
struct Two {
    plan: Plan,
}

impl Two {
    fn see(&mut self, first: Option<&str>, second: Option<&str>) -> String {
        let events = [(ID, first), ("E2", second)];
        let events: Vec<String> = events
            .into_iter()
            .filter_map(|(id, status)| Some((id, status?)))
            .map(|(id, status)| event("Reboot", status, "900", "me", "Platform").replace(ID, id))
            .collect();
        self.plan.apply_document(ME, &document(&events.join(",")), UNIX_EPOCH);
        self.next()
    }

    fn ok(&mut self, id: &str, step: &str) -> String {
        self.plan.record_end(&EventId::parse(id).unwrap(), step, Outcome::Succeeded);
        self.next()
    }

    fn next(&mut self) -> String {
        let tasks = self.plan.next(UNIX_EPOCH).into_iter();
        let jobs = tasks.filter_map(|task| match task {
            Task::Run(job) => Some(format!("{} {}", job.event.id, job.step)),
            Task::Log(_) | Task::Approve(_) => None,
        });
        jobs.collect::<Vec<_>>().join(", ")
    }
}

#[test]
fn a_change_for_two_events_is_undone_after_the_last_one() {
    let rules = rules_with_policy("nginx.prepare restore nginx.restore", Policy::Never);
    let mut two = Two { plan: Plan::resume(rules, []) };
    assert_eq!(two.see(Some("Scheduled"), Some("Scheduled")), "E1 nginx.prepare");
    assert_eq!(two.ok("E1", "nginx.prepare"), "E2 nginx.prepare", "not both at the same time");
    assert_eq!(two.ok("E2", "nginx.prepare"), "");
    assert_eq!(two.see(None, Some("Scheduled")), "E1 restore", "the second still needs it drained");
    assert_eq!(two.ok("E1", "restore"), "");
    assert_eq!(two.see(None, None), "E1 nginx.restore, E2 restore");
    assert_eq!(two.ok("E2", "restore"), "", "not both at the same time");
    assert_eq!(two.ok("E1", "nginx.restore"), "E2 nginx.restore");
}
