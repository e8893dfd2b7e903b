//! The crash matrix of host agents without a hypervisor: the agent, its server, or the QEMU of the machine is killed while an order
//! is carried out. It needs neither QEMU nor root. With `XTASK_LONG=1`, it has all cells.
//!
//! ```text
//!  server ◀── agent ──QMP──▶ fake QEMU, which counts boots
//! ```

use std::fs;
use std::path::PathBuf;
use std::process::Child;

use forewarn_test_support::{free_port, is_long};
use serde_json::Value;

use crate::fake_qemu::{FakeQemu, UUID};
use crate::kill_matrix::{Effect, Machine as _, Matrix, QEMU, Victim, has_entries};
use crate::machine_bench::{ABORT_BEFORE, Bench, has_no_events, wait_until};
use crate::support::clean_command;

const CREATE: &str = "vm create web1 --host host1 --spot --eviction-policy Deallocate --vm-id";

/// A server, and an agent that drives a machine.
struct AgentBench {
    agent: Option<Child>,
    config: PathBuf,
    // Ends after the agent.
    server: Bench,
}

impl AgentBench {
    fn start(qemu: &FakeQemu) -> AgentBench {
        let listener = format!("127.0.0.1:{}", free_port());
        let server = Bench::on_loopback(&["--metadata", "127.0.0.1:0", "--hosts", &listener, "--driver", "agents"]);
        let (data, config, machines) =
            (server.path("agent"), server.path("host.toml"), qemu.write_machines(qemu.name()));
        let text = format!(
            "data = {data:?}\ndriver = \"qemu\"\ndriver_machines = {machines:?}\nmetadata = [\"127.0.0.1:0\"]\n"
        );
        fs::write(&config, text).unwrap();
        let mut bench = AgentBench { agent: None, config, server };
        bench.join();
        bench.start_agent(&[]);
        wait_until("contact", || bench.server.show("host show host1")["reachable"] == true);
        bench.server.run(&format!("{CREATE} {UUID}"));
        bench
    }

    fn join(&self) {
        let token = self.server.show("host token host1")["token"].as_str().unwrap().to_owned();
        let (server, data) = (self.server.management(), self.server.path("agent"));
        self.server.run(&format!("host join http://{server} --token {token} --data {}", data.display()));
    }

    fn start_agent(&mut self, variables: &[(&str, &str)]) {
        let mut command = clean_command();
        command.args(["host", "run", "--config"]).arg(&self.config).envs(variables.iter().copied());
        self.agent = Some(self.server.spawn(&mut command, "agent.log"));
    }

    fn kill_agent(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }

    fn journal(&self) -> PathBuf {
        self.server.path("agent/journal")
    }

    /// The order of the machine, as it is in the journal.
    fn order(&self) -> Option<Value> {
        serde_json::from_slice(&fs::read(self.journal().join(format!("{UUID}.json"))).ok()?).ok()
    }

    /// The outcome of the last event.
    fn last_outcome(&self) -> String {
        let rows = self.server.show("history --kind ended");
        rows.as_array().and_then(|rows| rows.last()).unwrap_or(&Value::Null)["outcome"]
            .as_str()
            .unwrap_or_else(|| panic!("{rows}"))
            .to_owned()
    }
}

impl Drop for AgentBench {
    fn drop(&mut self) {
        self.kill_agent();
    }
}

impl Victim for AgentBench {
    fn bench(&self) -> &Bench {
        &self.server
    }

    fn name(&self) -> &'static str {
        "agent"
    }

    fn restart_until(&mut self, step: &str) {
        self.kill_agent();
        self.start_agent(&[(ABORT_BEFORE, step)]);
    }

    fn wait_for_abort(&mut self) {
        let mut agent = self.agent.take().unwrap();
        wait_until("the end of the agent", || agent.try_wait().unwrap().is_some());
    }

    fn start_again(&mut self) {
        self.start_agent(&[]);
    }

    fn has_orders(&self) -> bool {
        has_entries(&self.journal())
    }
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

    fn name(&self) -> &'static str {
        "server of the agent"
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
            wait_until("the end of the order", || self.bench.order().is_some_and(|order| !order["outcome"].is_null()));
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

    fn name(&self) -> &'static str {
        "QEMU of the machine"
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
        let mut bench = AgentBench::start(&qemu);
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
        let mut agent = AgentBench::start(&qemu);
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
        let mut agent = AgentBench::start(&qemu);
        let mut bench = QemuOfAgent { bench: &mut agent, qemu: &qemu };
        for (words, command, effect, outcome) in [
            ("vm restart web1", "system_reset", Effect::Reboots, Some("completed")),
            ("vm redeploy web1", "system_powerdown", Effect::Reboots, Some("completed")),
            ("vm stop web1", "system_powerdown", Effect::Stops("Stopped"), None),
        ] {
            Matrix::new(&mut bench, &qemu, &QEMU).survive_step(words, command, effect).await;
            if let Some(outcome) = outcome {
                assert_eq!(bench.bench.last_outcome(), outcome, "{words}");
            }
            if matches!(effect, Effect::Stops(_)) {
                start_again(bench.bench(), &qemu).await;
            }
        }

        // A machine that dies while it is frozen is started when the freeze ends, and its event fails.
        let boots = qemu.boot_ids().len();
        bench.bench().try_run("maintenance start --vm web1 --type Freeze --duration 2s");
        wait_until("the freeze", || bench.bench.order().is_some_and(|order| order["stage"] == "held"));
        qemu.kill();
        wait_until("the end of the event", || has_no_events(bench.bench()) && !bench.has_orders());
        qemu.wait_for_boot(boots + 1).await;
        assert_eq!(bench.bench.last_outcome(), "failed");
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
        let mut bench = AgentBench::start(&qemu);
        bench.server.try_run("maintenance start --vm web1 --type Freeze --duration 600s");
        wait_until("the freeze", || bench.order().is_some_and(|order| order["stage"] == "held"));
        bench.kill_agent();
        for statement in statements {
            bench.server.run(statement);
        }
        assert!(qemu.is_paused(), "the agent was cut off, and the host was not off");
        if statements.contains(&"host delete host1") {
            bench.join();
        }
        bench.start_agent(&[]);
        wait_until("the end of the order", || !bench.has_orders());
        assert!(!qemu.is_paused() && qemu.is_on());
        assert_eq!((qemu.boot_ids().len(), bench.last_outcome()), (1, "failed".into()));
    });
}
