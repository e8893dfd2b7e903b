//! Runs one scenario step by step until it ends, an expectation fails, or it is stopped.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use forewarn_api_types::nearest::suggest;
use forewarn_api_types::span::format_span;
use forewarn_api_types::{ActionOptions, FailureOptions, MaintenanceTarget, Operation, ScaleSetChange, Upgrade};
use forewarn_core::{ApprovalScope, Approver, Command, EventId, Guid, MachineId, MachineLookup, OperationId, Region};
use forewarn_engine::{Advance, ClockKind};

use super::file::{FleetResource, Scenario};
use super::runs::Reporter;
use super::step::{EventState, Expectation, MachineAction, MachineState, Step, StepAction};
use super::verdict::{self, Verdict};
use crate::Actions;
use crate::actions::PlainGroup;
use crate::error::ApiError;
use crate::names::{GroupTarget, MachineTarget};

pub(super) struct Run {
    /// The server, as the principal that started the run.
    pub actions: Actions,
    pub scenario: Scenario,
    pub handler: HandlerMode,
    pub operations: HashMap<String, OperationId>,
    pub report: Reporter,
}

/// How the subject's document is requested and its events are approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerMode {
    /// By a handler under test; the run waits for it.
    External,
    /// By the run itself.
    Simulated,
}

/// The reason why a step failed.
type Failure = String;

/// Checks that all machines of a scenario exist or will be created.
pub fn check_run(scenario: &Scenario, actions: &Actions) -> Result<(), Failure> {
    let snapshot = actions.engine().snapshot();
    let steps = scenario.steps.iter();
    steps.flat_map(|step| machines_in(&step.action).map(move |name| (step, name))).try_for_each(|(step, name)| {
        if will_exist(scenario, &snapshot.region, name) {
            return Ok(());
        }
        let fleet = scenario.fleet.iter().map(|resource| resource.name());
        let existing = snapshot.region.machines().map(|machine| &*machine.name).take(CANDIDATES_MAX);
        let near = suggest(name, fleet.chain(existing));
        Err(format!(
            "No machine is named '{name}' (line {} of the file).{near} Use a machine of the file or of the server.",
            step.line
        ))
    })
}

fn will_exist(scenario: &Scenario, region: &Region, name: &str) -> bool {
    let set = name.rsplit_once('_').map(|(set, _)| set);
    let in_file = scenario.fleet.iter().any(|resource| match resource {
        FleetResource::Machine(machine) => machine.name.0.eq_ignore_ascii_case(name),
        FleetResource::ScaleSet(new) => set.is_some_and(|set| set.eq_ignore_ascii_case(&new.name.0)),
        FleetResource::Host(_) | FleetResource::AvailabilitySet(_) | FleetResource::CloudService(_) => false,
    });
    in_file || region.machine_by_name(name, None) != MachineLookup::Nothing
}

impl Run {
    pub async fn execute(mut self) {
        let mut result = self.create_fleet().await;
        let steps = self.scenario.steps.clone();
        for (number, step) in steps.iter().enumerate() {
            if result.is_err() {
                break;
            }
            self.report.begin(number, self.actions.engine().now());
            result = self.execute_step(step).await;
            self.report.end(number, &result);
        }
        self.report.finish(result, self.actions.engine().now());
    }

    /// Creates the fleet. Existing resources are used as they are.
    async fn create_fleet(&self) -> Result<(), Failure> {
        for resource in &self.scenario.fleet {
            let created = match resource.clone() {
                FleetResource::Host(name) => self.actions.register_host(&name.0).await.map(drop),
                FleetResource::AvailabilitySet(new) => {
                    self.actions.create_group(PlainGroup::AvailabilitySet, new).await.map(drop)
                }
                FleetResource::CloudService(new) => {
                    self.actions.create_group(PlainGroup::CloudService, new).await.map(drop)
                }
                FleetResource::ScaleSet(new) => self.actions.create_scale_set(*new).await.map(drop),
                FleetResource::Machine(new) => self.actions.register_machine(*new).await.map(drop),
            };
            match created {
                Ok(()) => {}
                Err(error) if error.code == "NameTaken" => {}
                Err(error) => return Err(error.message),
            }
        }
        Ok(())
    }

    async fn execute_step(&mut self, step: &Step) -> Result<(), Failure> {
        let started = match &step.action {
            StepAction::Act { action, machine } => self.act(*action, machine).await.map(Some),
            StepAction::Maintain(new) => self.actions.start_maintenance((**new).clone()).await.map(Some),
            StepAction::Scale { set, capacity } => {
                let change = ScaleSetChange { capacity: Some(*capacity), ..ScaleSetChange::default() };
                self.actions.change_scale_set(&GroupTarget::named(set), change).await.map(|changed| changed.operation)
            }
            StepAction::Upgrade { set } => {
                self.actions.upgrade_instances(&GroupTarget::named(set), Upgrade::default()).await.map(|_| None)
            }
            StepAction::Power { action, machine } => {
                self.actions.set_power(&MachineTarget::named(machine), action.state()).await.map(|_| None)
            }
            StepAction::Cancel { of } => self.actions.cancel_operation(self.operation(of)?).await.map(Some),
            StepAction::Fault(new) => self.actions.add_fault((**new).clone()).await.map(|_| None),
            StepAction::ClearFaults => self.actions.clear_faults(None).await.map(|_| None),
            StepAction::Approve { of, by, machine } => {
                return self.approve(of, by.as_deref(), machine.as_deref()).await;
            }
            StepAction::Poll { machine } => return self.poll(machine).await,
            StepAction::Wait { span, until: None } => return self.wait(*span).await,
            StepAction::Wait { span, until: Some(expectation) } => return self.wait_until(*span, expectation).await,
            StepAction::Expect { expectation, within } => return self.expect(expectation, *within).await,
        };
        let started = started.map_err(|error| error.message)?;
        if let Some(label) = &step.label {
            let operation = started.ok_or("no operation was started, because there was nothing to do")?;
            self.operations.insert(label.clone(), Guid(operation.id.0));
        }
        Ok(())
    }

    async fn act(&self, action: MachineAction, machine: &str) -> Result<Operation, ApiError> {
        let (actions, target, default) = (&self.actions, MachineTarget::named(machine), ActionOptions::default());
        match action {
            MachineAction::Restart => actions.restart_machine(&target, default).await,
            MachineAction::Redeploy => actions.redeploy_machine(&target, default).await,
            MachineAction::PerformMaintenance => actions.perform_maintenance(&target, default).await,
            MachineAction::Evict => actions.evict_machine(&target, default).await,
            MachineAction::RecommendRebalance => actions.recommend_rebalance(&target, default).await,
            MachineAction::Fail => actions.fail_machine(&target, FailureOptions::default()).await,
            MachineAction::Delete => actions.delete_machine(&target, default).await,
        }
    }

    async fn approve(&self, of: &str, by: Option<&str>, machine: Option<&str>) -> Result<(), Failure> {
        if by.is_some_and(|by| self.is_external(by)) {
            let machine = machine.map(str::to_owned);
            let expectation = Expectation::Event { of: of.into(), machine, state: EventState::Approved };
            return self.expect(&expectation, HANDLER_TIMEOUT).await;
        }
        let snapshot = self.actions.engine().snapshot();
        let region = &snapshot.region;
        let events = self.live_events(region, of, machine)?;
        let (by, within) = match by {
            None => (Approver::Management(self.actions.principal_name()), ApprovalScope::Region),
            Some(guest) => {
                let id = self.machine(region, guest)?;
                let name = region.machine(id).map(|machine| machine.name.clone()).unwrap_or_default();
                (Approver::Guest { machine: id, name }, ApprovalScope::ScopeOf(id))
            }
        };
        self.submit(Command::Approve { by, within, events }).await
    }

    fn live_events(&self, region: &Region, of: &str, machine: Option<&str>) -> Result<Vec<EventId>, Failure> {
        let operation = self.operation(of)?;
        let operation =
            region.operation(operation).ok_or_else(|| format!("the operation '{of}' finished too long ago"))?;
        let is_selected = |name: &str| machine.is_none_or(|machine| machine.eq_ignore_ascii_case(name));
        let events = operation.parts.iter().filter_map(|part| region.event(part.event));
        let events = events.filter(|event| event.is_shown() && event.resources.iter().any(|it| is_selected(&it.name)));
        let events: Vec<EventId> = events.map(|event| event.id).collect();
        match events.is_empty() {
            true => Err(format!("no event of '{of}' is visible")),
            false => Ok(events),
        }
    }

    async fn poll(&self, machine: &str) -> Result<(), Failure> {
        if self.is_external(machine) {
            let expectation = Expectation::Machine { machine: machine.into(), state: MachineState::Polling };
            return self.expect(&expectation, HANDLER_TIMEOUT).await;
        }
        let machine = self.machine(&self.actions.engine().snapshot().region, machine)?;
        self.submit(Command::Seen { machine }).await
    }

    /// Whether a handler under test acts for this machine.
    fn is_external(&self, machine: &str) -> bool {
        self.handler == HandlerMode::External && self.scenario.subject.as_deref() == Some(machine)
    }

    async fn submit(&self, command: Command) -> Result<(), Failure> {
        self.actions.engine().submit(command, None).await.map(drop).map_err(|error| error.to_string())
    }

    /// Waits on the scale of notice periods: a manual clock is advanced, a real wait is divided by the notice scale.
    async fn wait(&self, span: Duration) -> Result<(), Failure> {
        match self.actions.engine().clock_kind() {
            ClockKind::Manual => {
                self.actions.engine().advance(Advance::By(span)).await.map(drop).map_err(|error| error.to_string())
            }
            ClockKind::Real => {
                let span = self.actions.engine().snapshot().region.settings().scaled(span);
                self.report.run_until_stopped(tokio::time::sleep(span)).await
            }
        }
    }

    /// Waits until an expectation holds, for at most `span`.
    async fn wait_until(&self, span: Duration, expectation: &Expectation) -> Result<(), Failure> {
        match self.actions.engine().clock_kind() {
            ClockKind::Manual => {
                let end = self.actions.engine().now() + span;
                while self.actions.engine().now() < end && !self.is_decided(expectation)? {
                    let next = Advance::To((self.actions.engine().now() + CLOCK_STEP).min(end));
                    self.actions.engine().advance(next).await.map_err(|error| error.to_string())?;
                }
                self.expect(expectation, Duration::ZERO).await
            }
            // Deadlines are rounded up to whole seconds.
            ClockKind::Real => {
                let scaled = self.actions.engine().snapshot().region.settings().scaled(span);
                self.expect(expectation, scaled + CLOCK_SLACK).await
            }
        }
    }

    fn is_decided(&self, expectation: &Expectation) -> Result<bool, Failure> {
        self.judge(expectation).map(|verdict| !matches!(verdict, Verdict::NotYet(_)))
    }

    async fn expect(&self, expectation: &Expectation, within: Duration) -> Result<(), Failure> {
        let until = Instant::now() + within;
        let mut revisions = self.actions.engine().subscribe();
        loop {
            revisions.mark_unchanged();
            match self.judge(expectation)? {
                Verdict::Holds => return Ok(()),
                Verdict::Never(state) => return Err(format!("{state}, so the expectation can no longer be met")),
                Verdict::NotYet(state) if Instant::now() >= until => {
                    return Err(format!("not met within {}: {state}", format_span(within)));
                }
                Verdict::NotYet(_) => {}
            }
            // Requests of machines make no revision, so they are polled.
            let left = until.saturating_duration_since(Instant::now()).min(POLL_INTERVAL);
            self.report.run_until_stopped(tokio::time::timeout(left, revisions.changed())).await?;
        }
    }

    fn judge(&self, expectation: &Expectation) -> Result<Verdict, Failure> {
        let snapshot = self.actions.engine().snapshot();
        let region = &snapshot.region;
        match expectation {
            Expectation::Event { of, machine, state } => match region.operation(self.operation(of)?) {
                Some(operation) => Ok(verdict::judge_events(region, operation, machine.as_deref(), *state)),
                None => Ok(Verdict::Never("the operation finished too long ago".into())),
            },
            Expectation::Machine { machine, state } => {
                let polls = |machine: MachineId| {
                    self.actions.service().endpoint().requests.log_of(machine, u64::MAX).summary.polls
                };
                Ok(verdict::judge_machine(region, machine, polls, *state))
            }
        }
    }

    fn operation(&self, label: &str) -> Result<OperationId, Failure> {
        self.operations.get(label).copied().ok_or_else(|| format!("no operation is named '{label}'"))
    }

    fn machine(&self, region: &Region, name: &str) -> Result<MachineId, Failure> {
        match region.machine_by_name(name, None) {
            MachineLookup::One(id) => Ok(id),
            MachineLookup::Many(_) => Err(format!("more than one machine is named '{name}'")),
            MachineLookup::Nothing => Err(format!("no machine is named '{name}'")),
        }
    }
}

/// Time limit for a handler's first request or approval. It may have to be started, and its first call may be slow.
const HANDLER_TIMEOUT: Duration = Duration::from_secs(60);

/// Step of a manual clock while waiting for an expectation. States last longer than this.
const CLOCK_STEP: Duration = Duration::from_secs(10);

/// Tolerance for a real clock.
const CLOCK_SLACK: Duration = Duration::from_secs(3);

/// Interval at which requests of machines are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Machine names that are considered for suggestions.
const CANDIDATES_MAX: usize = 10_000;

/// The machines that a step refers to.
fn machines_in(action: &StepAction) -> Box<dyn Iterator<Item = &str> + '_> {
    let (one, other) = match action {
        StepAction::Act { machine, .. } | StepAction::Power { machine, .. } | StepAction::Poll { machine } => {
            (Some(machine.as_str()), None)
        }
        StepAction::Maintain(new) => match &new.target {
            MaintenanceTarget::Machines(names) => return Box::new(names.iter().map(String::as_str)),
            MaintenanceTarget::Host(_) | MaintenanceTarget::Group(_) => (None, None),
        },
        StepAction::Fault(new) => (new.machine.as_deref(), None),
        StepAction::Approve { by, machine, .. } => (by.as_deref(), machine.as_deref()),
        StepAction::Expect { expectation, .. } | StepAction::Wait { until: Some(expectation), .. } => {
            (expectation.machine(), None)
        }
        StepAction::Scale { .. }
        | StepAction::Upgrade { .. }
        | StepAction::Cancel { .. }
        | StepAction::ClearFaults
        | StepAction::Wait { until: None, .. } => (None, None),
    };
    Box::new(one.into_iter().chain(other))
}
