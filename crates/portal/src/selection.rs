//! What is done with machines that were ticked on the page of their group: asked about first, with what will happen to
//! each, then done: instances of a scale set together, others one by one.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use forewarn_core::{Group, GroupKind, Guid, Machine};
use forewarn_wire::guid;
use serde_json::json;

use super::Portal;
use super::act::{Request, back, segment};
use super::action::Tone;
use super::confirm::Confirm;
use super::page::{self, Look, Scene};
use super::preview::{Asked, Oracle};
use super::visitor::Form;
use super::{group, plan, sign_in, words};
use forewarn_access::Role;
use forewarn_api::CallError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Restart,
    Redeploy,
    Delete,
    Upgrade,
    Protect,
    Unprotect,
}

const CHOICES: [Choice; 6] =
    [Choice::Restart, Choice::Redeploy, Choice::Upgrade, Choice::Protect, Choice::Unprotect, Choice::Delete];

#[derive(Template)]
#[template(path = "selection.html")]
struct Buttons<'a> {
    csrf: &'a str,
    back: &'a str,
    /// Word, label, class.
    buttons: Vec<(&'static str, &'static str, &'static str)>,
}

/// The buttons above the machines that can be ticked.
pub fn form(scene: &Scene, group: &Group, here: &str) -> String {
    let fits = |choice: &Choice| scene.visitor.may(choice.needs()) && (!choice.is_of_sets() || is_set(group));
    let button =
        |choice: Choice| (choice.word(), choice.label(), if choice.tone() == Tone::Danger { "danger" } else { "" });
    let mut buttons: Vec<_> = CHOICES.into_iter().filter(fits).map(button).collect();
    if scene.visitor.may(Role::Operator) {
        buttons.insert(2, ("plan", "Plan maintenance", ""));
    }
    if buttons.is_empty() {
        return String::new();
    }
    sign_in::rendered(&Buttons { csrf: &scene.visitor.session.csrf, back: here, buttons }).0
}

pub async fn submit(State(service): State<Portal>, form: Form) -> Response {
    let back = back(form.text("back"));
    let scene = Scene::now(&service, &form.visitor, Look::First);
    match answer(&service, &scene, &form, &back).await {
        Ok(answer) => answer,
        Err(refused) => page::at(&service, &form.visitor, &back, Some(&refused)).await,
    }
}

async fn answer(service: &Portal, scene: &Scene, form: &Form, back: &str) -> Result<Response, CallError> {
    let group = group::page_group(scene, back).ok_or_else(|| CallError::form("The group is gone."))?;
    let machines = ticked(scene, form)?;
    if form.text("act") == "plan" {
        let names: Vec<String> = machines.iter().map(|machine| plan::name_of(scene.region(), machine)).collect();
        return Ok(Redirect::to(&plan::prefilled("machine", &names.join(","))).into_response());
    }
    let choice = CHOICES.into_iter().find(|choice| choice.word() == form.text("act"));
    let choice = choice.ok_or_else(|| CallError::form("Nothing is called that. Reload the page and try again."))?;
    if !form.is_ticked("sure") {
        let confirm = choice.confirm(scene, group, &machines, form, back);
        return Ok(page::framed(scene, back, &confirm.draw(), "").into_response());
    }
    for (name, request) in choice.requests(group, &machines) {
        let done = request.send(service, &form.visitor).await;
        done.map_err(|refused| CallError { message: format!("{name}: {}", refused.message), ..refused })?;
    }
    Ok(Redirect::to(back).into_response())
}

/// Those that are still there.
fn ticked<'s>(scene: &'s Scene, form: &Form) -> Result<Vec<&'s Machine>, CallError> {
    let region = scene.region();
    let ids = form.all("machine").into_iter().filter_map(guid::parse);
    let machines = ids.filter_map(|id| region.machine(region.machine_by_vm_id(Guid(id))?)).map(|machine| &**machine);
    match machines.collect::<Vec<_>>() {
        machines if machines.is_empty() => Err(CallError::form("Tick the machines first.")),
        machines => Ok(machines),
    }
}

fn is_set(group: &Group) -> bool {
    matches!(group.kind, GroupKind::ScaleSet(_))
}

impl Choice {
    fn word(self) -> &'static str {
        match self {
            Choice::Restart => "restart",
            Choice::Redeploy => "redeploy",
            Choice::Delete => "delete",
            Choice::Upgrade => "upgrade",
            Choice::Protect => "protect",
            Choice::Unprotect => "unprotect",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Choice::Restart => "Restart",
            Choice::Redeploy => "Redeploy",
            Choice::Delete => "Delete",
            Choice::Upgrade => "Upgrade",
            Choice::Protect => "Protect",
            Choice::Unprotect => "Unprotect",
        }
    }

    fn tone(self) -> Tone {
        match self {
            Choice::Delete => Tone::Danger,
            Choice::Restart | Choice::Redeploy | Choice::Upgrade | Choice::Protect | Choice::Unprotect => Tone::Calm,
        }
    }

    fn needs(self) -> Role {
        match self {
            Choice::Restart | Choice::Redeploy => Role::Operator,
            Choice::Delete | Choice::Upgrade | Choice::Protect | Choice::Unprotect => Role::Owner,
        }
    }

    /// Whether only instances of scale sets have it.
    fn is_of_sets(self) -> bool {
        match self {
            Choice::Upgrade | Choice::Protect | Choice::Unprotect => true,
            Choice::Restart | Choice::Redeploy | Choice::Delete => false,
        }
    }

    fn confirm<'a>(
        self,
        scene: &'a Scene,
        group: &Group,
        machines: &[&Machine],
        form: &'a Form,
        back: &'a str,
    ) -> Confirm<'a> {
        let ids = form.all("machine").into_iter().map(|id| ("machine", id));
        Confirm {
            title: format!(
                "{} {}?",
                self.label(),
                words::few_of(machines.iter().map(|machine| machine.name.to_string()))
            ),
            told: self.told(scene, group, machines),
            action: "/portal/chosen",
            fields: [("act", self.word())].into_iter().chain(ids).collect(),
            label: self.label(),
            tone: self.tone(),
            back,
            csrf: &scene.visitor.session.csrf,
        }
    }

    fn told(self, scene: &Scene, group: &Group, machines: &[&Machine]) -> Vec<(String, String)> {
        let asked = match self {
            Choice::Restart => Asked::Restart,
            Choice::Redeploy => Asked::Redeploy,
            Choice::Delete => Asked::Delete,
            Choice::Upgrade | Choice::Protect | Choice::Unprotect => {
                let told = |machine: &&Machine| (machine.name.to_string(), self.without_event(group, machine));
                return machines.iter().map(told).collect();
            }
        };
        let oracle = Oracle::of(scene);
        if is_set(group) { oracle.together(machines, asked) } else { oracle.each(machines, asked) }
    }

    fn without_event(self, group: &Group, machine: &Machine) -> String {
        let (version, latest) = match &group.kind {
            GroupKind::ScaleSet(set) => (set.model_version, group::latest(set)),
            GroupKind::AvailabilitySet | GroupKind::CloudService => return String::new(),
        };
        let applied = words::notification(machine.terminate.as_ref());
        match self {
            Choice::Upgrade if machine.model == version => "It has the latest model already.".into(),
            Choice::Upgrade => format!(
                "Its termination notification is {} then, instead of {}. It keeps running; no event comes of it.",
                words::escaped(latest),
                words::escaped(applied)
            ),
            Choice::Protect => "Scale-in leaves it alone then. It can still be deleted by name.".into(),
            Choice::Unprotect => "Scale-in may take it then.".into(),
            Choice::Restart | Choice::Redeploy | Choice::Delete => String::new(),
        }
    }

    /// What the API is sent, and what a refusal is about.
    fn requests(self, group: &Group, machines: &[&Machine]) -> Vec<(String, Request)> {
        let ids: Vec<String> = machines.iter().map(|machine| machine.vm_id.to_string()).collect();
        let set = format!("/scale-sets/{}", segment(&group::target(group)));
        let all = |request: Request| vec![(group.name.to_string(), request)];
        let each = |request: &dyn Fn(String) -> Request| {
            let paths = ids.iter().map(|id| request(format!("/machines/{id}")));
            machines.iter().map(|machine| machine.name.to_string()).zip(paths).collect()
        };
        match self {
            Choice::Restart | Choice::Redeploy if is_set(group) => {
                all(Request::post(format!("{set}/{}", self.word()), json!({ "instances": ids })))
            }
            Choice::Restart | Choice::Redeploy => {
                each(&|path| Request::post(format!("{path}/{}", self.word()), json!({})))
            }
            Choice::Delete if is_set(group) => {
                all(Request::post(format!("{set}/delete-instances"), json!({ "instances": ids })))
            }
            Choice::Delete => each(&|path| Request::delete(path)),
            Choice::Upgrade => all(Request::post(format!("{set}/upgrade"), json!({ "instances": ids }))),
            Choice::Protect => each(&|path| Request::patch(path, json!({ "protected": true }))),
            Choice::Unprotect => each(&|path| Request::patch(path, json!({ "protected": false }))),
        }
    }
}
