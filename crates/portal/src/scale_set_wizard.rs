//! The form that creates a scale set, with the steps of the Azure portal: Basics, Management, Review + create. Errors appear
//! next to the field, and input is kept.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use forewarn_core::settings::MACHINES_PER_GROUP_MAX;
use forewarn_core::{GroupType, Region, Rejection, ResourceGroupRef};
use forewarn_widgets::field::{self, Control, Field, FieldErrors};
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::html;
use forewarn_widgets::html::RenderMode;
use forewarn_widgets::panel::{PageContent, Panel};
use http::StatusCode;

use super::flash::Flash;
use super::page_context::PageContext;
use super::refusal::Refusal;
use super::scale_set::parse_notification;
use super::visitor::Form;
use super::{Portal, frame};
use forewarn_api::{Action, SUBSCRIPTION_DEFAULT};
use forewarn_api_types::{MachinePriority, ModelChange, NewScaleSet, OrchestrationMode, UpgradePolicy};

const HERE: &str = "/scale-sets/add";

#[derive(Template)]
#[template(path = "scale_set_wizard.html")]
struct Wizard<'a> {
    fields: &'a NewScaleSetFields,
    problems: &'a FieldErrors,
    review: bool,
    csrf: &'a str,
    allowed: bool,
}

/// The contents of the fields.
#[derive(Clone)]
struct NewScaleSetFields {
    name: String,
    resource_group: String,
    capacity: String,
    orchestration: String,
    upgrade_mode: String,
    priority: String,
    notification: String,
    delay: String,
}

impl Default for NewScaleSetFields {
    fn default() -> NewScaleSetFields {
        NewScaleSetFields {
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
            of("name", "Name", &self.fields.name),
            of("resource_group", "Resource group", &self.fields.resource_group),
            of("capacity", "Instances", &self.fields.capacity).with_control(Control::Number),
            of("orchestration", "Orchestration", &self.fields.orchestration)
                .with_control(word_choice(&["Uniform", "Flexible"])),
            of("priority", "Priority", &self.fields.priority).with_control(word_choice(&["Regular", "Spot"])),
        ];
        fields.iter().map(Field::render).collect()
    }

    fn upgrade_mode(&self) -> String {
        let modes = word_choice(&["Manual", "Automatic", "Rolling"]);
        let hint = "When instances get a changed model. Manual: when you upgrade them; Automatic: immediately; Rolling: in batches.";
        Field::new("upgrade_mode", "Upgrade mode", &self.fields.upgrade_mode, self.problems)
            .with_control(modes)
            .with_hint(hint)
            .render()
    }

    fn delay(&self) -> String {
        let label = "Termination delay (minutes)";
        let hint = "5 to 15. The longest time that a deletion waits for the approval of an instance.";
        Field::new("delay", label, &self.fields.delay, self.problems)
            .with_control(Control::Number)
            .with_hint(hint)
            .render()
    }

    fn hidden_fields(&self) -> [(&'static str, &str); 8] {
        let NewScaleSetFields {
            name,
            resource_group,
            capacity,
            orchestration,
            upgrade_mode,
            priority,
            notification,
            delay,
        } = self.fields;
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

    /// Whether a field of this step has an error.
    fn has_errors(&self, step: &str) -> bool {
        let fields: &[&str] = match step {
            "basics" => &["name", "resource_group", "capacity", "orchestration", "priority"],
            _ => &["upgrade_mode", "notification", "delay"],
        };
        fields.iter().any(|field| !self.problems.of(field).is_empty())
    }

    /// Labels and values for the review.
    fn summary(&self) -> [(&'static str, String); 7] {
        let notification = match self.fields.notification.as_str() {
            "on" => format!("On, {} minutes", self.fields.delay),
            _ => "Off".into(),
        };
        [
            ("Name", self.fields.name.clone()),
            ("Resource group", self.fields.resource_group.clone()),
            ("Instances", self.fields.capacity.clone()),
            ("Orchestration", self.fields.orchestration.clone()),
            ("Upgrade mode", self.fields.upgrade_mode.clone()),
            ("Priority", self.fields.priority.clone()),
            ("Instance termination notification", notification),
        ]
    }
}

/// Options whose labels are their values.
fn word_choice(words: &[&'static str]) -> Control<'static> {
    Control::Choice(words.iter().map(|word| (*word, *word)).collect())
}

pub fn render(context: &PageContext) -> PageContent {
    render_step(context, &NewScaleSetFields::default(), &FieldErrors::default(), false)
}

fn render_step(context: &PageContext, fields: &NewScaleSetFields, problems: &FieldErrors, review: bool) -> PageContent {
    let csrf = &context.visitor.session.csrf;
    let wizard = Wizard { fields, problems, review, csrf, allowed: context.visitor.is_allowed(Action::CreateScaleSet) };
    // Above the list and not in it, so that live updates do not replace the form while it is being filled in.
    let panel =
        Panel::new("wizard", if review { "Review + create" } else { "Create a scale set" }, Vec::<Fragment>::new());
    let panel = panel.with_html_before(html::render(&wizard));
    let lead = "<p class=\"crumbs\"><a href=\"/scale-sets\">Virtual machine scale sets</a> / Add</p>".to_owned();
    PageContent { title: "Create a virtual machine scale set".into(), lead, panels: vec![panel], aside: Vec::new() }
}

pub async fn submit(State(portal): State<Portal>, form: Form) -> Response {
    let fields = NewScaleSetFields::from_form(&form);
    let context = PageContext::now(&portal, &form.visitor, RenderMode::Page);
    let problems = check(context.region(), &form, &fields);
    let step = form.text("step");
    if !problems.is_empty() || step != "create" {
        let status = if problems.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
        let review = problems.is_empty() && step == "review";
        return (status, frame::render(&context, HERE, &render_step(&context, &fields, &problems, review), ""))
            .into_response();
    }
    let created = match fields.build(&form) {
        Ok(new) => portal.actions(form.visitor.principal()).create_scale_set(new).await.map_err(Refusal::from),
        Err(message) => Err(Refusal::form(message)),
    };
    match created {
        Ok(set) => {
            let flash =
                Flash::new(format!("Created scale set {}.", set.group.name)).with_link("/scale-sets", "All scale sets");
            portal.shared.flashes.set(&form.visitor.cookie, flash);
            Redirect::to(&format!("/groups/{}", set.group.id)).into_response()
        }
        Err(refused) => {
            let context = PageContext::now(&portal, &form.visitor, RenderMode::Page);
            let mut problems = FieldErrors::default();
            let message = match refused.code {
                "NameTaken" => {
                    problems.add("name", &*refused.message);
                    ""
                }
                _ => &refused.message,
            };
            let content = render_step(&context, &fields, &problems, false);
            (refused.status, frame::render(&context, HERE, &content, message)).into_response()
        }
    }
}

impl NewScaleSetFields {
    fn from_form(form: &Form) -> NewScaleSetFields {
        let text = |name: &str| form.text(name).to_owned();
        NewScaleSetFields {
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

    /// The scale set to create. `check` has found no errors, so only a forged form gets an error here.
    fn build(&self, form: &Form) -> Result<NewScaleSet, String> {
        let capacity = field::parse_number(&self.capacity, "Instances")?;
        let model = ModelChange {
            priority: Some(self.choice(MachinePriority::parse, &self.priority)?),
            terminate_notification: parse_notification(form)?,
            ..ModelChange::default()
        };
        Ok(NewScaleSet {
            resource_group: Some(field::parse_name(&self.resource_group)?),
            orchestration: Some(self.choice(OrchestrationMode::parse, &self.orchestration)?),
            upgrade_mode: Some(self.choice(UpgradePolicy::parse, &self.upgrade_mode)?),
            model,
            ..NewScaleSet::new(field::parse_name(&self.name)?, capacity)
        })
    }

    fn choice<T>(&self, parse: fn(&str) -> Option<T>, word: &str) -> Result<T, String> {
        parse(word).ok_or_else(|| format!("Unknown value '{word}'. Select one from the list."))
    }
}

fn is_name_taken(region: &Region, fields: &NewScaleSetFields) -> bool {
    let is_there = |home: &ResourceGroupRef| {
        home.resource_group.eq_ignore_ascii_case(&fields.resource_group) && &*home.subscription == SUBSCRIPTION_DEFAULT
    };
    let mut sets = region.groups_named(&fields.name).filter(|group| GroupType::of(group) == GroupType::ScaleSet);
    sets.any(|group| is_there(&group.home))
}

fn check(region: &Region, form: &Form, fields: &NewScaleSetFields) -> FieldErrors {
    let mut problems = FieldErrors::default();
    let is_named = problems.take("name", field::parse_name(&fields.name)).is_some();
    if is_named && is_name_taken(region, fields) {
        problems.add("name", Rejection::NameTaken(fields.name.as_str().into()).to_string());
    }
    problems.take("resource_group", field::parse_name(&fields.resource_group));
    let capacity = problems.take("capacity", field::parse_number(&fields.capacity, "Instances"));
    if capacity.is_some_and(|capacity| capacity as usize > MACHINES_PER_GROUP_MAX) {
        problems.add("capacity", format!("A scale set has at most {MACHINES_PER_GROUP_MAX} instances."));
    }
    if fields.notification == "on" && fields.priority == "Spot" {
        problems.add("notification", "Spot instances cannot have a terminate notification. Select the priority Regular, or turn the notification off.");
    }
    problems.take("delay", parse_notification(form));
    problems
}
