//! Creating a scale set, along the steps that people know: Basics, Management, Review + create. What was typed stays; what
//! is wrong is said at its field; nothing is made before the review.

use std::collections::HashMap;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use forewarn_core::settings::MACHINES_PER_GROUP_MAX;
use http::{Method, StatusCode};
use serde_json::json;

use super::act::{notification, number};
use super::page::{self, Drawn, Fragment, Look, Panel, Scene};
use super::sign_in;
use super::visitor::Form;
use crate::api::{Service, Word};
use crate::identity::Role;

const HERE: &str = "/scale-sets/add";

#[derive(Template)]
#[template(path = "add_set.html")]
struct Wizard<'a> {
    typed: Typed,
    problems: HashMap<&'static str, String>,
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
    fn problem(&self, field: &str) -> &str {
        self.problems.get(field).map_or("", String::as_str)
    }
}

pub fn draw(scene: &Scene) -> Drawn {
    drawn(scene, Typed::default(), HashMap::new(), false)
}

fn drawn(scene: &Scene, typed: Typed, problems: HashMap<&'static str, String>, review: bool) -> Drawn {
    let csrf = &scene.visitor.session.csrf;
    let wizard = Wizard { typed, problems, review, csrf, allowed: scene.visitor.may(Role::Owner) };
    // Above the list and not in it: a form is not redrawn under somebody's fingers.
    let panel =
        Panel::new("wizard", if review { "Review + create" } else { "Create a scale set" }, Vec::<Fragment>::new());
    let panel = panel.below(sign_in::rendered(&wizard).0);
    let lead = "<p class=\"crumbs\"><a href=\"/scale-sets\">Virtual machine scale sets</a> / Add</p>".to_owned();
    Drawn { title: "Create a virtual machine scale set".into(), lead, panels: vec![panel] }
}

pub async fn submit(State(service): State<Service>, form: Form) -> Response {
    let typed = Typed::of(&form);
    let problems = problems(&form, &typed);
    let step = form.text("step");
    if !problems.is_empty() || step != "create" {
        let status = if problems.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
        let review = problems.is_empty() && step == "review";
        let scene = Scene::now(&service, &form.visitor, Look::First);
        return (status, page::framed(&scene, HERE, &drawn(&scene, typed, problems, review), "")).into_response();
    }
    let body = json!({
        "name": typed.name,
        "resourceGroup": typed.resource_group,
        "capacity": typed.capacity.parse::<u32>().unwrap_or_default(),
        "orchestration": typed.orchestration,
        "upgradeMode": typed.upgrade_mode,
        "model": { "priority": typed.priority, "terminateNotification": notification(&form).unwrap_or_default() },
    });
    match service.call(form.visitor.principal(), Method::POST, "/scale-sets", Some(body)).await {
        Ok(set) => Redirect::to(&format!("/groups/{}", set["id"])).into_response(),
        Err(refused) => {
            let scene = Scene::now(&service, &form.visitor, Look::First);
            let drawn = drawn(&scene, typed, HashMap::new(), false);
            (refused.status, page::framed(&scene, HERE, &drawn, &refused.message)).into_response()
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

fn problems(form: &Form, typed: &Typed) -> HashMap<&'static str, String> {
    let mut problems = HashMap::new();
    let mut check = |field, result: Result<(), String>| {
        result.err().map(|problem| problems.insert(field, problem));
    };
    let word = |text: &str| Word::new(text.to_owned()).map(drop).map_err(|problem| format!("{problem}."));
    check("name", word(&typed.name));
    check("resource_group", word(&typed.resource_group));
    let capacity = number(&typed.capacity, "Instances").and_then(|capacity| match capacity as usize {
        ..=MACHINES_PER_GROUP_MAX => Ok(()),
        _ => Err(format!("A set has at most {MACHINES_PER_GROUP_MAX} instances.")),
    });
    check("capacity", capacity);
    check("delay", notification(form).map(drop));
    if typed.notification == "on" && typed.priority == "Spot" {
        check(
            "notification",
            Err("Spot instances cannot have a terminate notification. Choose Regular, or Off.".into()),
        );
    }
    problems
}
