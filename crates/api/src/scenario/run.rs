//! One scenario on one server, step by step, until the end, the first thing that is not as expected, or
//! somebody stops it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use forewarn_core::{Approver, Command, EventId, Found, Guid, MachineId, Name, OperationId, Region, Within};
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::file::{Kind, Made, Scenario};
use super::runs::Reporter;
use super::step::{Action, Does, EventState, Expectation, MachineState, Step};
use super::verdict::{self, Verdict};
use forewarn_api_types::nearest::hint;
use forewarn_engine::clock;
use forewarn_engine::{Advance, Engine};
use forewarn_metadata::EndpointState;

pub(super) struct Run {
    pub engine: Engine,
    pub endpoint: Arc<EndpointState>,
    /// The routes of the management API, without the guard at the door.
    pub routes: Router,
    /// Who runs it.
    pub by: Name,
    pub scenario: Scenario,
    pub handler: Handler,
    pub operations: HashMap<String, OperationId>,
    pub report: Reporter,
}

/// Who asks for the subject's document, and approves in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler {
    /// A handler under test, which is waited for.
    Asks,
    /// Nobody: the run pretends.
    Absent,
}

/// Why a step failed, for people.
type Failed = String;

impl Run {
    /// What is wrong with the scenario on this server, before anything is done.
    pub fn check(&self) -> Result<(), Failed> {
        let snapshot = self.engine.snapshot();
        let steps = self.scenario.steps.iter();
        steps.flat_map(|step| machines_of(&step.does).map(move |name| (step, name))).try_for_each(|(step, name)| {
            if self.will_be_there(&snapshot.region, name) {
                return Ok(());
            }
            let fleet = self.scenario.fleet.iter().map(|made| made.name.as_str());
            let there = snapshot.region.machines().map(|machine| &*machine.name).take(CANDIDATES_MAX);
            let near = hint(name, fleet.chain(there));
            Err(format!(
                "There is no machine '{name}' (line {} of the file).{near} Name one of the file or of the server.",
                step.line
            ))
        })
    }

    fn will_be_there(&self, region: &Region, name: &str) -> bool {
        let set = name.rsplit_once('_').map(|(set, _)| set);
        let in_file = self.scenario.fleet.iter().any(|made| match made.kind {
            Kind::Machine => made.name.eq_ignore_ascii_case(name),
            Kind::ScaleSet => set.is_some_and(|set| set.eq_ignore_ascii_case(&made.name)),
            Kind::Host | Kind::AvailabilitySet | Kind::CloudService => false,
        });
        in_file || region.machine_by_name(name, None) != Found::Nothing
    }

    pub async fn all(mut self) {
        let mut result = self.make_fleet().await;
        let steps = self.scenario.steps.clone();
        for (number, step) in steps.iter().enumerate() {
            if result.is_err() {
                break;
            }
            self.report.begin(number, self.engine.now());
            result = self.step(step).await;
            self.report.end(number, &result);
        }
        self.report.finish(result, self.engine.now());
    }

    /// What is there already is taken as it is.
    async fn make_fleet(&self) -> Result<(), Failed> {
        for Made { kind, name, body } in &self.scenario.fleet {
            let body = body.clone();
            let made = match kind {
                Kind::Host => self.call(Method::PUT, &format!("/hosts/{name}"), Value::Null).await,
                Kind::AvailabilitySet => self.call(Method::POST, "/availability-sets", body).await,
                Kind::CloudService => self.call(Method::POST, "/cloud-services", body).await,
                Kind::ScaleSet => self.call(Method::POST, "/scale-sets", body).await,
                Kind::Machine => self.call(Method::POST, "/machines", body).await,
            };
            match made {
                Ok(_) => {}
                Err(refused) if refused.code == "NameTaken" => {}
                Err(refused) => return Err(refused.message),
            }
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Result<(), Failed> {
        let answer = match &step.does {
            Does::Act { action: Action::Delete, machine } => {
                self.call(Method::DELETE, &format!("/machines/{}", machine), Value::Null).await
            }
            Does::Act { action, machine } => {
                let path = format!("/machines/{}/{}", machine, action.word());
                self.call(Method::POST, &path, Value::Null).await
            }
            Does::Maintain(body) => self.call(Method::POST, "/maintenance", body.clone()).await,
            Does::Scale { set, capacity } => {
                let path = format!("/scale-sets/{set}");
                let changed = self.call(Method::PATCH, &path, json!({ "capacity": capacity })).await;
                changed.map(|mut changed| changed["operation"].take())
            }
            Does::Upgrade { set } => self.call(Method::POST, &format!("/scale-sets/{set}/upgrade"), Value::Null).await,
            Does::Power { switch, machine } => {
                let path = format!("/machines/{}/{}", machine, switch.word());
                self.call(Method::POST, &path, Value::Null).await
            }
            Does::Cancel { of } => {
                let operation = self.operation(of)?;
                self.call(Method::POST, &format!("/operations/{operation}/cancel"), Value::Null).await
            }
            Does::Fault(body) => self.call(Method::POST, "/faults", body.clone()).await,
            Does::ClearFaults => self.call(Method::DELETE, "/faults", Value::Null).await,
            Does::Approve { of, by, machine } => return self.approve(of, by.as_deref(), machine.as_deref()).await,
            Does::Poll { machine } => return self.poll(machine).await,
            Does::Wait { span, until: None } => return self.wait(*span).await,
            Does::Wait { span, until: Some(what) } => return self.wait_until(*span, what).await,
            Does::Expect { what, within } => return self.expect(what, *within).await,
        };
        let answer = answer.map_err(|refused| refused.message)?;
        if let Some(label) = &step.label {
            let id = answer["id"].as_str().and_then(forewarn_wire::guid::parse).map(Guid);
            let id = id.ok_or("no operation came of it, because there was nothing to do")?;
            self.operations.insert(label.clone(), id);
        }
        Ok(())
    }

    async fn approve(&self, of: &str, by: Option<&str>, machine: Option<&str>) -> Result<(), Failed> {
        if by.is_some_and(|by| self.is_handlers(by)) {
            let machine = machine.map(str::to_owned);
            let what = Expectation::Event { of: of.into(), machine, state: EventState::Approved };
            return self.expect(&what, HANDLER_WITHIN).await;
        }
        let snapshot = self.engine.snapshot();
        let region = &snapshot.region;
        let events = self.live_events(region, of, machine)?;
        let (by, within) = match by {
            None => (Approver::Management(self.by.clone()), Within::Region),
            Some(guest) => {
                let id = self.machine(region, guest)?;
                let name = region.machine(id).map(|machine| machine.name.clone()).unwrap_or_default();
                (Approver::Guest { machine: id, name }, Within::ScopeOf(id))
            }
        };
        self.submit(Command::Approve { by, within, events }).await
    }

    fn live_events(&self, region: &Region, of: &str, machine: Option<&str>) -> Result<Vec<EventId>, Failed> {
        let operation = self.operation(of)?;
        let operation = region.operation(operation).ok_or_else(|| format!("'{of}' is over and forgotten"))?;
        let concerns = |name: &str| machine.is_none_or(|machine| machine.eq_ignore_ascii_case(name));
        let events = operation.parts.iter().filter_map(|part| region.event(part.event));
        let events = events.filter(|event| event.is_shown() && event.resources.iter().any(|it| concerns(&it.name)));
        let events: Vec<EventId> = events.map(|event| event.id).collect();
        match events.is_empty() {
            true => Err(format!("no event of '{of}' is in the document")),
            false => Ok(events),
        }
    }

    async fn poll(&self, machine: &str) -> Result<(), Failed> {
        if self.is_handlers(machine) {
            let what = Expectation::Machine { machine: machine.into(), state: MachineState::Polling };
            return self.expect(&what, HANDLER_WITHIN).await;
        }
        let machine = self.machine(&self.engine.snapshot().region, machine)?;
        self.submit(Command::Seen { machine }).await
    }

    /// Whether what this machine does is left to a handler under test.
    fn is_handlers(&self, machine: &str) -> bool {
        self.handler == Handler::Asks && self.scenario.subject.as_deref() == Some(machine)
    }

    async fn submit(&self, command: Command) -> Result<(), Failed> {
        self.engine.submit(command, None).await.map(drop).map_err(|error| error.to_string())
    }

    /// Time as notice counts it: a manual clock is moved, and on a real one it is divided by the scale.
    async fn wait(&self, span: Duration) -> Result<(), Failed> {
        match self.engine.clock_kind() {
            clock::Kind::Manual => {
                self.engine.advance(Advance::By(span)).await.map(drop).map_err(|error| error.to_string())
            }
            clock::Kind::Real => {
                let span = self.engine.snapshot().region.settings().scaled(span);
                self.report.unless_stopped(tokio::time::sleep(span)).await
            }
        }
    }

    /// Lets time pass until something is so, but not more than `span` of it.
    async fn wait_until(&self, span: Duration, what: &Expectation) -> Result<(), Failed> {
        match self.engine.clock_kind() {
            clock::Kind::Manual => {
                let end = self.engine.now() + span;
                while self.engine.now() < end && !self.is_settled(what)? {
                    let next = Advance::To((self.engine.now() + TURN).min(end));
                    self.engine.advance(next).await.map_err(|error| error.to_string())?;
                }
                self.expect(what, Duration::ZERO).await
            }
            // Deadlines are whole seconds, rounded up.
            clock::Kind::Real => self.expect(what, self.engine.snapshot().region.settings().scaled(span) + SLACK).await,
        }
    }

    fn is_settled(&self, what: &Expectation) -> Result<bool, Failed> {
        self.verdict(what).map(|verdict| !matches!(verdict, Verdict::NotYet(_)))
    }

    async fn expect(&self, what: &Expectation, within: Duration) -> Result<(), Failed> {
        let until = Instant::now() + within;
        let mut revisions = self.engine.subscribe();
        loop {
            revisions.mark_unchanged();
            match self.verdict(what)? {
                Verdict::Holds => return Ok(()),
                Verdict::Never(how) => return Err(format!("{how}, and cannot become so any more")),
                Verdict::NotYet(how) if Instant::now() >= until => {
                    return Err(format!("after {} it is not so: {how}", forewarn_api_types::span::span_text(within)));
                }
                Verdict::NotYet(_) => {}
            }
            // What machines ask makes no revision, so it is looked at now and then.
            let left = until.saturating_duration_since(Instant::now()).min(LOOK_AGAIN);
            self.report.unless_stopped(tokio::time::timeout(left, revisions.changed())).await?;
        }
    }

    fn verdict(&self, what: &Expectation) -> Result<Verdict, Failed> {
        let snapshot = self.engine.snapshot();
        let region = &snapshot.region;
        match what {
            Expectation::Event { of, machine, state } => match region.operation(self.operation(of)?) {
                Some(operation) => Ok(verdict::of_events(region, operation, machine.as_deref(), *state)),
                None => Ok(Verdict::Never("it is over and forgotten".into())),
            },
            Expectation::Machine { machine, state } => {
                let polls = |machine: MachineId| self.endpoint.requests.log_of(machine, u64::MAX).summary.polls;
                Ok(verdict::of_machine(region, machine, polls, *state))
            }
        }
    }

    fn operation(&self, label: &str) -> Result<OperationId, Failed> {
        self.operations.get(label).copied().ok_or_else(|| format!("nothing is called '{label}'"))
    }

    fn machine(&self, region: &Region, name: &str) -> Result<MachineId, Failed> {
        match region.machine_by_name(name, None) {
            Found::One(id) => Ok(id),
            Found::Many(_) => Err(format!("more than one machine is named '{name}'")),
            Found::Nothing => Err(format!("there is no machine '{name}'")),
        }
    }

    async fn call(&self, method: Method, path: &str, body: Value) -> Result<Value, Refused> {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", crate::PREFIX))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(bytes))
            .map_err(|_| Refused::plain(format!("'{path}' cannot be asked for")))?;
        let response = self.routes.clone().oneshot(request).await.map_err(|never| match never {})?;
        let status = response.status();
        let bytes = response.into_body().collect().await.map_err(|error| Refused::plain(error.to_string()))?.to_bytes();
        if status == StatusCode::NO_CONTENT {
            return Ok(Value::Null);
        }
        let answer: Value = serde_json::from_slice(&bytes).map_err(|error| Refused::plain(error.to_string()))?;
        if status.is_success() {
            return Ok(answer);
        }
        let text = |key: &str| answer["error"][key].as_str().unwrap_or_default().to_string();
        Err(Refused { code: text("code"), message: text("message") })
    }
}

/// What a handler has to ask for the first time, or to approve: it may have to be started, and its first call may
/// be slow.
const HANDLER_WITHIN: Duration = Duration::from_secs(60);

/// How far a manual clock is moved at a time: what is looked for lasts longer.
const TURN: Duration = Duration::from_secs(10);

/// What a real clock may be late by.
const SLACK: Duration = Duration::from_secs(3);

/// How often requests of machines are looked at while an expectation waits for one.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Names of machines that are looked at for the one that was meant.
const CANDIDATES_MAX: usize = 10_000;

/// An answer of the API that is not the wanted one.
struct Refused {
    code: String,
    message: String,
}

impl Refused {
    fn plain(message: String) -> Refused {
        Refused { code: String::new(), message }
    }
}

/// The machines that a step names.
fn machines_of(does: &Does) -> impl Iterator<Item = &str> {
    let (one, other) = match does {
        Does::Act { machine, .. } | Does::Power { machine, .. } | Does::Poll { machine } => {
            (Some(machine.as_str()), None)
        }
        Does::Maintain(body) => (body["target"]["machine"].as_str(), None),
        Does::Fault(body) => (body["machine"].as_str(), None),
        Does::Approve { by, machine, .. } => (by.as_deref(), machine.as_deref()),
        Does::Expect { what, .. } | Does::Wait { until: Some(what), .. } => (what.machine(), None),
        Does::Scale { .. }
        | Does::Upgrade { .. }
        | Does::Cancel { .. }
        | Does::ClearFaults
        | Does::Wait { until: None, .. } => (None, None),
    };
    one.into_iter().chain(other)
}
