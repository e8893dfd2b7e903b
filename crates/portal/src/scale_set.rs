//! Managing a scale set: how many instances, what they are told before they are deleted, who has the latest model. Taking
//! machines away is asked about first.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use forewarn_core::settings::MACHINES_PER_GROUP_MAX;
use forewarn_core::{Group, GroupKind, ScaleSet, UpgradeMode};
use http::StatusCode;
use serde_json::{Value, json};

use super::Portal;
use super::act::{Request, back, notification, number, segment};
use super::action::Tone;
use super::confirm::Confirm;
use super::field::{Control, Field, Problems};
use super::page::{self, Look, Panel, Scene};
use super::preview::Oracle;
use super::visitor::Form;
use super::{group, sign_in, words};
use forewarn_access::Role;
use forewarn_api::CallError;

/// What is in the fields.
#[derive(Clone, Debug)]
pub struct Typed {
    capacity: String,
    notification: String,
    delay: String,
    problems: Problems,
}

#[derive(Template)]
#[template(path = "scale_set_forms.html")]
struct Forms<'a> {
    typed: &'a Typed,
    here: &'a str,
    csrf: &'a str,
    mode: &'static str,
}

#[derive(Template)]
#[template(path = "scale_set_model.html")]
struct Model<'a> {
    target: &'a str,
    back: &'a str,
    csrf: &'a str,
    behind: usize,
    behind_names: String,
    latest: String,
    /// HTML: when the next batch of a rolling upgrade is due.
    next_batch: String,
    allowed: bool,
}

impl Typed {
    fn of_set(set: &ScaleSet) -> Typed {
        let minutes = set.model.terminate.as_ref().map_or(5, |profile| profile.timeout.as_secs() / 60);
        Typed {
            capacity: set.capacity.to_string(),
            notification: if set.model.terminate.is_some() { "on" } else { "off" }.into(),
            delay: minutes.to_string(),
            problems: Problems::default(),
        }
    }

    /// The fields of the form that was sent; the others are as the set is.
    fn of(form: &Form, set: &ScaleSet) -> Typed {
        let text = |name: &str| form.text(name).to_owned();
        match form.text("form") {
            "scale" => Typed { capacity: text("capacity"), ..Typed::of_set(set) },
            _ => Typed { notification: text("notification"), delay: text("delay"), ..Typed::of_set(set) },
        }
    }

    /// What the set is to be changed by.
    fn change(&mut self, form: &Form) -> Option<Value> {
        if form.text("form") != "scale" {
            let notification = self.problems.take("delay", notification(form))?;
            return Some(json!({ "model": { "terminateNotification": notification } }));
        }
        let capacity = self.problems.take("capacity", number(&self.capacity, "Instances"))?;
        if capacity as usize > MACHINES_PER_GROUP_MAX {
            self.problems.add("capacity", format!("A set has at most {MACHINES_PER_GROUP_MAX} instances."));
            return None;
        }
        Some(json!({ "capacity": capacity }))
    }

    fn refused(&mut self, form: &Form, refused: CallError) {
        let field = match (form.text("form"), refused.code.as_str()) {
            ("scale", _) => "capacity",
            (_, "TerminateNotificationOnSpot") => "notification",
            _ => "delay",
        };
        self.problems.add(field, refused.message);
    }
}

impl Forms<'_> {
    fn capacity(&self) -> String {
        let hint = "Scaling in deletes the newest instances that are not protected; what will happen is shown first.";
        let field = Field::new("capacity", "Instances", &self.typed.capacity, &self.typed.problems);
        field.as_(Control::Number).hint(hint).html()
    }

    fn delay(&self) -> String {
        let field = Field::new("delay", "Termination delay (minutes)", &self.typed.delay, &self.typed.problems);
        field.as_(Control::Number).hint("From 5 to 15.").html()
    }
}

/// The forms stand above the list and not in it: they are not redrawn under somebody's fingers.
pub fn panel(scene: &Scene, group: &Group, set: &ScaleSet, here: &str, typed: Option<&Typed>) -> Panel {
    let (allowed, csrf) = (scene.visitor.may(Role::Owner), scene.visitor.session.csrf.as_str());
    let behind = || group::behind(scene, group, set);
    let model = Model {
        target: &group::target(group),
        back: here,
        csrf,
        behind: behind().count(),
        behind_names: words::few_of(behind().map(|machine| machine.name.to_string())),
        latest: group::latest(set),
        next_batch: set.next_batch.map_or_else(String::new, words::time),
        allowed,
    };
    let as_it_is = Typed::of_set(set);
    let forms = Forms { typed: typed.unwrap_or(&as_it_is), here, csrf, mode: mode(set.upgrade_mode) };
    let above =
        if allowed { sign_in::rendered(&forms).0 } else { words::sentence("Changing it needs the role owner.") };
    Panel::one("manage", "Manage", &model).below(above)
}

/// One of the forms.
pub async fn submit(State(service): State<Portal>, form: Form) -> Response {
    let back = back(form.text("back"));
    let scene = Scene::now(&service, &form.visitor, Look::First);
    let found = group::page_group(&scene, &back).and_then(|group| match &group.kind {
        GroupKind::ScaleSet(set) => Some((group, set)),
        GroupKind::AvailabilitySet | GroupKind::CloudService => None,
    });
    let Some((group, set)) = found else {
        return page::at(&service, &form.visitor, &back, Some(&CallError::form("The scale set is gone."))).await;
    };
    let mut typed = Typed::of(&form, set);
    if let Some(change) = typed.change(&form) {
        if let Some(confirm) = asked_before(&scene, group, &change, &form, &back) {
            return page::framed(&scene, &back, &confirm.draw(), "").into_response();
        }
        let path = format!("/scale-sets/{}", segment(&group::target(group)));
        match Request::patch(path, change).send(&service, &form.visitor).await {
            Ok(_) => return Redirect::to(&back).into_response(),
            Err(refused) => typed.refused(&form, refused),
        }
    }
    match group::draw(&scene, group.id, 0, Some(&typed)).await {
        Ok(drawn) => (StatusCode::UNPROCESSABLE_ENTITY, page::framed(&scene, &back, &drawn, "")).into_response(),
        Err(_) => Redirect::to("/").into_response(),
    }
}

/// Scaling in takes machines away.
fn asked_before<'a>(
    scene: &'a Scene,
    group: &Group,
    change: &Value,
    form: &'a Form,
    back: &'a str,
) -> Option<Confirm<'a>> {
    let capacity = u32::try_from(change["capacity"].as_u64()?).ok()?;
    if form.is_ticked("sure") || scene.region().group_members(group).count() <= capacity as usize {
        return None;
    }
    Some(Confirm {
        title: format!("Scale {} to {capacity}?", group.name),
        told: vec![(group.name.to_string(), Oracle::of(scene).scale(group, capacity))],
        action: back,
        fields: vec![("form", "scale"), ("capacity", form.text("capacity"))],
        label: "Scale in",
        tone: Tone::Danger,
        back,
        csrf: &scene.visitor.session.csrf,
    })
}

pub fn mode(mode: UpgradeMode) -> &'static str {
    match mode {
        UpgradeMode::Automatic => "Automatic",
        UpgradeMode::Manual => "Manual",
        UpgradeMode::Rolling => "Rolling",
    }
}
