//! Creating a scale set, along the steps that people know: Basics, Management, Review + create. What was typed stays; what
//! is wrong is said at its field; nothing is made before the review.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use forewarn_core::settings::MACHINES_PER_GROUP_MAX;
use forewarn_core::{Home, Region, Rejection};
use http::{Method, StatusCode};
use serde_json::json;

use super::Portal;
use super::act::{notification, number};
use super::field::{self, Control, Field, Problems};
use super::page::{self, Drawn, Fragment, Look, Panel, Scene};
use super::sign_in;
use super::visitor::Form;
use forewarn_access::Role;
use forewarn_api::SUBSCRIPTION_DEFAULT;

const HERE: &str = "/scale-sets/add";

#[derive(Template)]
#[template(path = "scale_set_wizard.html")]
struct Wizard<'a> {
    typed: &'a Typed,
    problems: &'a Problems,
    review: bool,
    csrf: &'a str,
    allowed: bool,
}

/// What is in the fields.
#[derive(Clone)]
struct Typed {
    name: String,
    resource_group: String,
    capacity: String,
    orchestration: String,
    upgrade_mode: String,
    priority: String,
    notification: String,
    delay: String,
}

impl Default for Typed {
    fn default() -> Typed {
        Typed {
            name: String::new(),
            resource_group: "default".into(),
            capacity: "2".into(),
            orchestration: "Uniform".into(),
            upgrade_mode: "Manual".into(),
            priority: "Regular".into(),
            notification: "off".into(),
            delay: "5".into(),
        }
    }
}

impl Wizard<'_> {
    fn basics(&self) -> Vec<String> {
        let of = |name, label, value| Field::new(name, label, value, self.problems);
        let fields = [
            of("name", "Name", &self.typed.name),
            of("resource_group", "Resource group", &self.typed.resource_group),
            of("capacity", "Instances", &self.typed.capacity).as_(Control::Number),
            of("orchestration", "Orchestration", &self.typed.orchestration).as_(words(&["Uniform", "Flexible"])),
            of("priority", "Priority", &self.typed.priority).as_(words(&["Regular", "Spot"])),
        ];
        fields.iter().map(Field::html).collect()
    }

    fn upgrade_mode(&self) -> String {
        let modes = words(&["Manual", "Automatic", "Rolling"]);
        let hint = "When instances get a changed model: when they are upgraded, at once, or in batches.";
        Field::new("upgrade_mode", "Upgrade mode", &self.typed.upgrade_mode, self.problems).as_(modes).hint(hint).html()
    }

    fn delay(&self) -> String {
        let label = "Termination delay (minutes)";
        let hint = "From 5 to 15: how long a deletion waits for an instance that does not say that it is ready.";
        Field::new("delay", label, &self.typed.delay, self.problems).as_(Control::Number).hint(hint).html()
    }

    fn fields(&self) -> [(&'static str, &str); 8] {
        let Typed { name, resource_group, capacity, orchestration, upgrade_mode, priority, notification, delay } =
            self.typed;
        [
            ("name", name),
            ("resource_group", resource_group),
            ("capacity", capacity),
            ("orchestration", orchestration),
            ("upgrade_mode", upgrade_mode),
            ("priority", priority),
            ("notification", notification),
            ("delay", delay),
        ]
    }

    /// Whether something is wrong in this step.
    fn is_wrong(&self, step: &str) -> bool {
        let fields: &[&str] = match step {
            "basics" => &["name", "resource_group", "capacity", "orchestration", "priority"],
            _ => &["upgrade_mode", "notification", "delay"],
        };
        fields.iter().any(|field| !self.problems.of(field).is_empty())
    }

    /// What will be made, for the review.
    fn reviewed(&self) -> [(&'static str, String); 7] {
        let notification = match self.typed.notification.as_str() {
            "on" => format!("On, {} minutes", self.typed.delay),
            _ => "Off".into(),
        };
        [
            ("Name", self.typed.name.clone()),
            ("Resource group", self.typed.resource_group.clone()),
            ("Instances", self.typed.capacity.clone()),
            ("Orchestration", self.typed.orchestration.clone()),
            ("Upgrade mode", self.typed.upgrade_mode.clone()),
            ("Priority", self.typed.priority.clone()),
            ("Instance termination notification", notification),
        ]
    }
}

/// Words that stand for themselves.
fn words(words: &[&'static str]) -> Control<'static> {
    Control::Choice(words.iter().map(|word| (*word, *word)).collect())
}

pub fn draw(scene: &Scene) -> Drawn {
    drawn(scene, &Typed::default(), &Problems::default(), false)
}

fn drawn(scene: &Scene, typed: &Typed, problems: &Problems, review: bool) -> Drawn {
    let csrf = &scene.visitor.session.csrf;
    let wizard = Wizard { typed, problems, review, csrf, allowed: scene.visitor.may(Role::Owner) };
    // Above the list and not in it: a form is not redrawn under somebody's fingers.
    let panel =
        Panel::new("wizard", if review { "Review + create" } else { "Create a scale set" }, Vec::<Fragment>::new());
    let panel = panel.below(sign_in::rendered(&wizard).0);
    let lead = "<p class=\"crumbs\"><a href=\"/scale-sets\">Virtual machine scale sets</a> / Add</p>".to_owned();
    Drawn { title: "Create a virtual machine scale set".into(), lead, panels: vec![panel] }
}

pub async fn submit(State(service): State<Portal>, form: Form) -> Response {
    let typed = Typed::of(&form);
    let scene = Scene::now(&service, &form.visitor, Look::First);
    let problems = problems(scene.region(), &form, &typed);
    let step = form.text("step");
    if !problems.is_empty() || step != "create" {
        let status = if problems.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
        let review = problems.is_empty() && step == "review";
        return (status, page::framed(&scene, HERE, &drawn(&scene, &typed, &problems, review), "")).into_response();
    }
    let body = json!({
        "name": typed.name,
        "resourceGroup": typed.resource_group,
        "capacity": typed.capacity.parse::<u32>().unwrap_or_default(),
        "orchestration": typed.orchestration,
        "upgradeMode": typed.upgrade_mode,
        "model": { "priority": typed.priority, "terminateNotification": notification(&form).unwrap_or_default() },
    });
    match service.client(form.visitor.principal()).call(Method::POST, "/scale-sets", Some(body)).await {
        Ok(set) => Redirect::to(&format!("/groups/{}", set["id"])).into_response(),
        Err(refused) => {
            let scene = Scene::now(&service, &form.visitor, Look::First);
            let mut problems = Problems::default();
            let above = match refused.code.as_str() {
                "NameTaken" => {
                    problems.add("name", &*refused.message);
                    ""
                }
                _ => &refused.message,
            };
            let drawn = drawn(&scene, &typed, &problems, false);
            (refused.status, page::framed(&scene, HERE, &drawn, above)).into_response()
        }
    }
}

impl Typed {
    fn of(form: &Form) -> Typed {
        let text = |name: &str| form.text(name).to_owned();
        Typed {
            name: text("name"),
            resource_group: text("resource_group"),
            capacity: text("capacity"),
            orchestration: text("orchestration"),
            upgrade_mode: text("upgrade_mode"),
            priority: text("priority"),
            notification: text("notification"),
            delay: text("delay"),
        }
    }
}

fn is_taken(region: &Region, typed: &Typed) -> bool {
    let is_there = |home: &Home| {
        home.resource_group.eq_ignore_ascii_case(&typed.resource_group) && &*home.subscription == SUBSCRIPTION_DEFAULT
    };
    region.groups_named(&typed.name).any(|group| is_there(&group.home))
}

fn problems(region: &Region, form: &Form, typed: &Typed) -> Problems {
    let mut problems = Problems::default();
    let is_named = problems.take("name", field::name(&typed.name)).is_some();
    if is_named && is_taken(region, typed) {
        problems.add("name", Rejection::NameTaken(typed.name.as_str().into()).to_string());
    }
    problems.take("resource_group", field::name(&typed.resource_group));
    let capacity = problems.take("capacity", number(&typed.capacity, "Instances"));
    if capacity.is_some_and(|capacity| capacity as usize > MACHINES_PER_GROUP_MAX) {
        problems.add("capacity", format!("A set has at most {MACHINES_PER_GROUP_MAX} instances."));
    }
    if typed.notification == "on" && typed.priority == "Spot" {
        problems.add("notification", "Spot instances cannot have a terminate notification. Choose Regular, or Off.");
    }
    problems.take("delay", notification(form));
    problems
}
