//! The crash matrix of host agents without a hypervisor: the agent, its server, or the QEMU of the machine is killed while an order
//! is carried out. It needs neither QEMU nor root. With `XTASK_LONG=1`, it has all cells.
//!
//! ```text
//!  server ◀── agent ──QMP──▶ fake QEMU, which counts boots
//! ```

use std::fs;

use forewarn_test_support::{free_port, is_long};
use serde_json::Value;

use crate::agent_bench::AgentBench;
use crate::fake_qemu::{FakeQemu, UUID};
use crate::kill_matrix::{Effect, Machine as _, Matrix, QEMU, Victim};
use crate::machine_bench::{Bench, has_no_events, wait_until};
use crate::support::clean_command;

const CREATE: &str = "vm create web1 --host host1 --spot --eviction-policy Deallocate --vm-id";

/// A server, and an agent that drives a machine.
fn start_bench(qemu: &FakeQemu) -> AgentBench {
    let listener = format!("127.0.0.1:{}", free_port());
    let server = Bench::on_loopback(&["--metadata", "127.0.0.1:0", "--hosts", &listener, "--driver", "agents"]);
    let machines = qemu.write_machines(qemu.name());
    let config = format!("driver = \"qemu\"\ndriver_machines = {machines:?}\nmetadata = [\"127.0.0.1:0\"]\n");
    let mut bench = AgentBench::new(server);
    bench.add("host1", &config, None, Box::new(clean_command));
    bench.start(0);
    bench.wait_for_contact();
    bench.server.run(&format!("{CREATE} {UUID}"));
    bench
}

/// The order of the machine, as it is in the journal.
fn order(bench: &AgentBench) -> Option<Value> {
    serde_json::from_slice(&fs::read(bench.agents[0].journal().join(format!("{UUID}.json"))).ok()?).ok()
}

/// The outcome of the last event.
fn last_outcome(bench: &AgentBench) -> String {
    let rows = bench.server.show("history --kind ended");
    rows.as_array().and_then(|rows| rows.last()).unwrap_or(&Value::Null)["outcome"]
        .as_str()
        .unwrap_or_else(|| panic!("{rows}"))
        .to_owned()
}

/// The server is killed while the QEMU of the machine holds a command of the agent. The agent finishes the order before or after the
/// server is back, in turn.
struct ServerOfAgent<'b> {
    bench: &'b mut AgentBench,
    qemu: &'b FakeQemu,
    kills: usize,
}

impl Victim for ServerOfAgent<'_> {
    fn bench(&self) -> &Bench {
        &self.bench.server
    }

    fn name(&self) -> String {
        "server of the agent".into()
    }

    fn restart_until(&mut self, step: &str) {
        self.qemu.hold(step);
    }

    fn wait_for_abort(&mut self) {
        self.qemu.wait_for_hold();
        self.bench.server.kill_server();
    }

    fn start_again(&mut self) {
        self.kills += 1;
        if self.kills.is_multiple_of(2) {
            self.bench.server.start_server();
            self.qemu.release();
        } else {
            self.qemu.release();
            wait_until("the end of the order", || order(self.bench).is_some_and(|order| !order["outcome"].is_null()));
            self.bench.server.start_server();
        }
    }

    fn has_orders(&self) -> bool {
        self.bench.has_orders()
    }
}

/// The QEMU of the machine is killed while it holds a command of the agent.
struct QemuOfAgent<'b> {
    bench: &'b mut AgentBench,
    qemu: &'b FakeQemu,
}

impl Victim for QemuOfAgent<'_> {
    fn bench(&self) -> &Bench {
        &self.bench.server
    }

    fn name(&self) -> String {
        "QEMU of the machine".into()
    }

    fn restart_until(&mut self, step: &str) {
        self.qemu.hold(step);
    }

    fn wait_for_abort(&mut self) {
        self.qemu.wait_for_hold();
        self.qemu.kill();
    }

    /// The driver starts it again if the order needs that.
    fn start_again(&mut self) {}

    fn has_orders(&self) -> bool {
        self.bench.has_orders()
    }
}

/// Starts a machine that is off.
async fn start_again(server: &Bench, qemu: &FakeQemu) {
    server.run("vm start web1");
    wait_until("the start", || server.show("vm show web1")["powerChange"].is_null());
    qemu.wait_for_beat().await;
}

fn run(test: impl AsyncFnOnce()) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test());
}

#[test]
fn orders_survive_kills_of_the_agent() {
    run(async || {
        let qemu = FakeQemu::start();
        let mut bench = start_bench(&qemu);
        let mut matrix = Matrix::new(&mut bench, &qemu, &QEMU);
        if is_long() {
            matrix.survive_common().await;
            let is_gone = async || !qemu.is_on() && !qemu.has_disk();
            let create_again = async |server: &Bench| {
                qemu.create_disk();
                qemu.boot();
                server.run(&format!("{CREATE} {UUID}"));
            };
            matrix.survive_deletions(is_gone, create_again).await;
        } else {
            let freeze = "maintenance start --vm web1 --type Freeze --duration 1s";
            matrix.survive(freeze, &["record-held", "resume"], Effect::Continues).await;
            matrix.survive("vm restart web1", &["reset", "record-done"], Effect::Reboots).await;
            matrix.survive("vm stop web1", &["record-down"], Effect::Stops("Stopped")).await;
            matrix.survive("vm redeploy web1", &["await-start"], Effect::Reboots).await;
        }
        println!("{} kills of the agent, one effect each", matrix.cells);
    });
}

#[test]
fn orders_survive_kills_of_the_server_of_an_agent() {
    run(async || {
        let qemu = FakeQemu::start();
        let mut agent = start_bench(&qemu);
        let mut bench = ServerOfAgent { bench: &mut agent, qemu: &qemu, kills: 0 };
        let freeze = "maintenance start --vm web1 --type Freeze --duration 1s";
        // Twice each: the order ends without the server, and with it.
        let rows: [(&str, &[&str], Effect); 6] = [
            (freeze, &["stop", "stop", "cont", "cont"], Effect::Continues),
            ("vm restart web1", &["system_reset", "system_reset", "stop", "stop", "cont", "cont"], Effect::Reboots),
            ("vm redeploy web1", &["system_powerdown", "system_powerdown"], Effect::Reboots),
            ("vm stop web1", &["system_powerdown", "system_powerdown"], Effect::Stops("Stopped")),
            ("vm deallocate web1", &["system_powerdown", "system_powerdown"], Effect::Stops("Deallocated")),
            ("vm simulate-eviction web1", &["system_powerdown", "system_powerdown"], Effect::Stops("Deallocated")),
        ];
        let mut cells = 0;
        // The start of a deallocated machine waits until the agent has reported its machines again.
        let rows = rows.iter().filter(|(_, _, effect)| is_long() || *effect != Effect::Stops("Deallocated"));
        for &(words, commands, effect) in rows {
            let commands = if is_long() { commands } else { &commands[..2] };
            for command in commands {
                let mut matrix = Matrix::new(&mut bench, &qemu, &QEMU);
                matrix.survive_step(words, command, effect).await;
                cells += matrix.cells;
                if matches!(effect, Effect::Stops(_)) {
                    start_again(bench.bench(), &qemu).await;
                }
            }
        }
        println!("{cells} kills of the server of an agent, one effect each");
    });
}

#[test]
fn orders_of_an_agent_survive_the_death_of_qemu() {
    run(async || {
        let qemu = FakeQemu::start();
        let mut agent = start_bench(&qemu);
        let mut bench = QemuOfAgent { bench: &mut agent, qemu: &qemu };
        for (words, command, effect, outcome) in [
            ("vm restart web1", "system_reset", Effect::Reboots, Some("completed")),
            ("vm redeploy web1", "system_powerdown", Effect::Reboots, Some("completed")),
            ("vm stop web1", "system_powerdown", Effect::Stops("Stopped"), None),
        ] {
            Matrix::new(&mut bench, &qemu, &QEMU).survive_step(words, command, effect).await;
            if let Some(outcome) = outcome {
                assert_eq!(last_outcome(bench.bench), outcome, "{words}");
            }
            if matches!(effect, Effect::Stops(_)) {
                start_again(bench.bench(), &qemu).await;
            }
        }

        // A machine that dies while it is frozen is started when the freeze ends, and its event fails.
        let boots = qemu.boot_ids().len();
        bench.bench().try_run("maintenance start --vm web1 --type Freeze --duration 2s");
        wait_until("the freeze", || order(bench.bench).is_some_and(|order| order["stage"] == "held"));
        qemu.kill();
        wait_until("the end of the event", || has_no_events(bench.bench()) && !bench.has_orders());
        qemu.wait_for_boot(boots + 1).await;
        assert_eq!(last_outcome(bench.bench), "failed");
    });
}

#[test]
fn an_agent_that_was_killed_abandons_its_order_if_the_host_was_fenced_and_activated_meanwhile() {
    abandons_its_order_after(&["host fail host1 --fenced", "host activate host1"]);
}

#[test]
fn an_agent_that_was_killed_abandons_its_order_if_the_host_was_removed_and_joins_again() {
    abandons_its_order_after(&["host fail host1 --fenced", "vm update web1 --host spare", "host delete host1"]);
}

/// The agent is killed during a freeze, and these commands state that its host is off. It was only cut off.
fn abandons_its_order_after(statements: &[&str]) {
    run(async || {
        let qemu = FakeQemu::start();
        let mut bench = start_bench(&qemu);
        bench.server.try_run("maintenance start --vm web1 --type Freeze --duration 600s");
        wait_until("the freeze", || order(&bench).is_some_and(|order| order["stage"] == "held"));
        bench.agents[0].kill();
        for statement in statements {
            bench.server.run(statement);
        }
        assert!(qemu.is_paused(), "the agent was cut off, and the host was not off");
        if statements.contains(&"host delete host1") {
            bench.agents[0].join(&bench.server);
        }
        bench.start(0);
        wait_until("the end of the order", || !bench.has_orders());
        assert!(!qemu.is_paused() && qemu.is_on());
        assert_eq!((qemu.boot_ids().len(), last_outcome(&bench)), (1, "failed".into()));
    });
}
