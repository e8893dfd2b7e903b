//! Drivers: the duration of simulated impacts, and the input of the operator's executable.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::*;
use forewarn_core::*;
use forewarn_engine::*;
use forewarn_server::*;
use forewarn_store::{HistoryKind, HistoryQuery};

async fn ended(world: &World) -> forewarn_store::HistoryRow {
    let mut revisions = world.engine().subscribe();
    loop {
        let query = HistoryQuery { kinds: vec![HistoryKind::Ended], ..Default::default() };
        if let Some(row) = world.engine().reader().history(&query).unwrap().pop() {
            return row;
        }
        revisions.changed().await.unwrap();
    }
}

// --- simulated -------------------------------------------------------------------------------------------

/// How many seconds an event of this request is Started on a manual clock.
async fn started_secs(scale: u32, request: Request) -> i64 {
    let rules = Settings { notice_scale: scale, ..Settings::default() };
    let world = World::with(Config { rules, ..config() }).await;
    world.ask(&format!("GET {EVENTS}")).await;
    world.request(request, 0xE1).await;
    world.advance(7200).await;
    let rows = world.engine().reader().history(&HistoryQuery::default()).unwrap();
    let at = |kind: &str| rows.iter().find(|row| row.kind == kind).map(|row| row.at.0).unwrap_or_default();
    (at("ended") - at("started")) / 1000
}

#[tokio::test]
async fn simulated_impacts_last_by_cause_and_scale() {
    let restart = Request::Restart { machines: vec![FIRST] };
    assert_eq!(started_secs(1, restart.clone()).await, 600);
    assert_eq!(started_secs(60, restart).await, 10);
    let plan = Plan {
        kind: EventKind::Freeze,
        cause: Cause::LiveMigration,
        at: None,
        notice: None,
        duration_secs: None,
        description: None,
    };
    assert_eq!(started_secs(1, Request::Maintain { target: Target::Machines(vec![FIRST]), plan }).await, 300);
}

#[tokio::test]
async fn an_impact_that_takes_no_time_is_over_when_the_command_is_answered() {
    let world = World::new().await;
    let doomed = world.register("doomed").await;
    world.request(Request::Delete { machines: vec![doomed], group: None }, 0xDE).await;
    assert_eq!(world.engine().snapshot().region.machine(doomed), None);
}

#[tokio::test]
async fn on_a_real_clock_time_passes_by_itself() {
    let rules = Settings { notice_scale: 900, ..Settings::default() };
    let impacts = Impacts { reboot: Duration::ZERO, ..Impacts::default() };
    let driver = DriverChoice::Simulated(impacts);
    let world = World::with(Config { clock: ClockSetting::Real, rules, driver, ..config() }).await;
    world.ask(&format!("GET {EVENTS}")).await;
    world.restart(FIRST, 0xE1).await;
    assert_eq!(ended(&world).await.outcome.as_deref(), Some("completed"));
}

// --- command ---------------------------------------------------------------------------------------------

fn script(directory: &Path, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.join("driver.sh");
    std::fs::write(&path, format!("#!/bin/sh\ncd {}\n{text}\n", directory.display())).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn with_script(directory: &Path, text: &str, timeout: Duration) -> Config {
    let program = script(directory, text);
    Config {
        driver: DriverChoice::Command(CommandDriver { program, arguments: vec!["x".into()], timeout }),
        ..config()
    }
}

async fn run(text: &str, timeout: Duration) -> (tempfile::TempDir, forewarn_store::HistoryRow) {
    let directory = tempfile::tempdir().unwrap();
    let world = World::with(with_script(directory.path(), text, timeout)).await;
    world.ask(&format!("GET {EVENTS}")).await;
    world.restart(FIRST, 0xE1).await;
    assert_eq!(world.approve("", 0xE1).await.status, 200);
    let row = ended(&world).await;
    world.running.stop().await;
    (directory, row)
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_executable_finds_the_event_in_its_environment_and_on_its_input() {
    let text = "echo \"$1 $EVENT_ID $EVENT_TYPE $EVENT_SOURCE $MACHINE_NAME [$FOREWARN_RERUN]\" > said; cat > input";
    let (directory, row) = run(text, LONG).await;
    assert_eq!(row.outcome.as_deref(), Some("completed"), "{row:?}");
    let said = std::fs::read_to_string(directory.path().join("said")).unwrap();
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert_eq!(said, format!("x 00000000-0000-0000-0000-0000000000E1 Reboot User {name} []\n"));
    let input = std::fs::read_to_string(directory.path().join("input")).unwrap();
    let input: serde_json::Value = serde_json::from_str(&input).unwrap();
    assert_eq!(input["event"]["type"], "Reboot");
    assert_eq!(input["machine"]["name"], name);
    assert_eq!(input["rerun"], false);
}

#[tokio::test]
async fn its_failure_is_the_operations_failure_and_its_last_words_the_reason() {
    let (_directory, row) = run("echo first >&2; echo 'the disk is gone' >&2; exit 3", LONG).await;
    let whole = format!("{row:?}");
    assert_eq!(row.outcome.as_deref(), Some("failed"), "{whole}");
    assert!(whole.contains("the disk is gone") && whole.contains("exit status: 3"), "{whole}");
}

#[tokio::test]
async fn an_executable_that_takes_too_long_is_ended_with_its_children() {
    let (_directory, row) = run("sleep 1000 & sleep 1000; echo never >&2", Duration::from_millis(100)).await;
    assert!(format!("{row:?}").contains("timed out after"), "{row:?}");
}

#[tokio::test]
async fn a_missing_executable_is_a_failure() {
    let driver =
        CommandDriver { program: "/does/not/exist".into(), arguments: Vec::new(), timeout: Duration::from_secs(5) };
    let world = World::with(Config { driver: DriverChoice::Command(driver), ..config() }).await;
    world.restart(FIRST, 0xE1).await;
    let row = ended(&world).await;
    assert!(format!("{row:?}").contains("cannot start"), "{row:?}");
}

#[tokio::test]
async fn a_rerun_after_a_stop_is_marked_as_one() {
    let directory = tempfile::tempdir().unwrap();
    let data = StoreChoice::Directory(directory.path().join("data"));
    let text = "if [ \"$FOREWARN_RERUN\" = 1 ]; then exit 0; fi; echo > begun; sleep 1000";
    let config = || Config { store: data.clone(), ..with_script(directory.path(), text, LONG) };
    let world = World::with(config()).await;
    world.restart(FIRST, 0xE1).await;
    while !directory.path().join("begun").exists() {
        tokio::task::yield_now().await;
    }
    world.running.stop().await;
    let world = World::with(config()).await;
    assert_eq!(ended(&world).await.outcome.as_deref(), Some("completed"));
    world.running.stop().await;
}
