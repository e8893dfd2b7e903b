//! The forms on the page of a scale set: capacity, terminate notification, upgrade to the latest model. Scaling in asks for
//! confirmation.

use std::sync::Arc;

use askama::Template;
use axum::response::{IntoResponse, Redirect, Response};
use forewarn_core::settings::MACHINES_PER_GROUP_MAX;
use forewarn_core::{Group, GroupKind, Machine, Region, ScaleSet, UpgradeMode};
use forewarn_widgets::field::{Control, Field, FieldErrors, parse_number};
use forewarn_widgets::panel::{Fold, Panel};
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::{address, html, words};

use super::action::ButtonStyle;
use super::confirm::Confirmation;
use super::flash::Flash;
use super::frame;
use super::page_context::PageContext;
use super::refusal::Refusal;
use super::visitor::Form;
use forewarn_api::{Action, GroupTarget};
use forewarn_api_types::{ModelChange, Nullable, ScaleSetChange, TerminateNotification, count_of, join_names};

/// The name and the value that open the settings, in the address of the page.
pub const SETTINGS: &str = "settings";
pub const OPEN: &str = "open";

/// The contents of the fields, with their errors.
#[derive(Clone, Debug)]
pub struct ScaleSetFields {
    capacity: String,
    notification: String,
    delay: String,
    problems: FieldErrors,
}

#[derive(Template)]
#[template(path = "scale_set_forms.html")]
struct ScaleSetForms<'a> {
    fields: &'a ScaleSetFields,
    here: &'a str,
    csrf: &'a str,
    mode: &'static str,
}

#[derive(Template)]
#[template(path = "scale_set_model.html")]
struct ModelForm<'a> {
    target: &'a str,
    back: &'a str,
    csrf: &'a str,
    outdated: usize,
    outdated_names: String,
    latest: String,
    /// HTML: the time of the next batch of a rolling upgrade.
    next_batch: String,
    allowed: bool,
}

impl ScaleSetFields {
    fn of_set(set: &ScaleSet) -> ScaleSetFields {
        let minutes = set.model.terminate.as_ref().map_or(5, |profile| profile.timeout.as_secs() / 60);
        ScaleSetFields {
            capacity: set.capacity.to_string(),
            notification: if set.model.terminate.is_some() { "on" } else { "off" }.into(),
            delay: minutes.to_string(),
            problems: FieldErrors::default(),
        }
    }

    /// The fields of the form that was sent. The other fields have the values of the scale set.
    fn from_form(form: &Form, set: &ScaleSet) -> ScaleSetFields {
        let text = |name: &str| form.text(name).to_owned();
        let current = ScaleSetFields::of_set(set);
        match form.text("form") {
            "scale" => ScaleSetFields { capacity: text("capacity"), ..current },
            _ => ScaleSetFields { notification: text("notification"), delay: text("delay"), ..current },
        }
    }

    /// The change, or `None` if a field has an error.
    fn build_change(&mut self, form: &Form) -> Option<ScaleSetChange> {
        if form.text("form") != "scale" {
            let notification = self.problems.take("delay", parse_notification(form))?;
            let model = ModelChange { terminate_notification: notification, ..ModelChange::default() };
            return Some(ScaleSetChange { model: Some(model), ..ScaleSetChange::default() });
        }
        let capacity = self.problems.take("capacity", parse_number(&self.capacity, "Instances"))?;
        if capacity as usize > MACHINES_PER_GROUP_MAX {
            self.problems.add("capacity", format!("A scale set has at most {MACHINES_PER_GROUP_MAX} instances."));
            return None;
        }
        Some(ScaleSetChange { capacity: Some(capacity), ..ScaleSetChange::default() })
    }

    /// Adds the API's message to the field that it is about.
    fn add_refusal(&mut self, form: &Form, refused: Refusal) {
        let field = match (form.text("form"), refused.code) {
            ("scale", _) => "capacity",
            (_, "TerminateNotificationOnSpot") => "notification",
            _ => "delay",
        };
        self.problems.add(field, refused.message);
    }
}

impl ScaleSetForms<'_> {
    fn capacity(&self) -> String {
        let hint = "Scaling in deletes the newest unprotected instances, after a preview.";
        let field = Field::new("capacity", "Instances", &self.fields.capacity, &self.fields.problems);
        field.with_control(Control::Number).with_hint(hint).render()
    }

    fn delay(&self) -> String {
        let field = Field::new("delay", "Termination delay (minutes)", &self.fields.delay, &self.fields.problems);
        field.with_control(Control::Number).with_hint("5 to 15.").render()
    }
}

/// Forms are above the list and not in it, so that live updates do not replace them while they are being filled in.
pub fn render_panel(
    context: &PageContext,
    group: &Group,
    set: &ScaleSet,
    here: &str,
    fields: Option<&ScaleSetFields>,
) -> Panel {
    let (allowed, csrf) = (context.visitor.is_allowed(Action::ChangeScaleSet), context.visitor.session.csrf.as_str());
    let outdated = || outdated(context, group, set);
    let model = ModelForm {
        target: &address::group_target(group),
        back: here,
        csrf,
        outdated: outdated().count(),
        outdated_names: join_names(outdated().map(|machine| machine.name.to_string())),
        latest: latest_notification(set),
        next_batch: set.next_batch.map_or_else(String::new, words::time),
        allowed,
    };
    let current = ScaleSetFields::of_set(set);
    let forms = ScaleSetForms { fields: fields.unwrap_or(&current), here, csrf, mode: mode_name(set.upgrade_mode) };
    let above = if allowed { html::render(&forms) } else { words::paragraph("Changes require the owner role.") };
    let is_open = fields.is_some() || model.outdated > 0;
    let fold = Fold { summary: "Instances, termination notification, latest model", is_open };
    Panel::with_content("manage", "Settings of the scale set", &model).with_html_before(above).folded(fold)
}

/// The field with the number of instances, in open settings.
pub fn address_of_scaling(group: &Group) -> String {
    let page = PageQuery::default().with(SETTINGS, OPEN).address(&address::of_group(group.id));
    page + "#field-capacity"
}

/// The scale set that the page at this address shows.
pub fn find<'r>(region: &'r Region, here: &str) -> Option<(&'r Arc<Group>, &'r ScaleSet)> {
    let group = address::find_group(region, here)?;
    match &group.kind {
        GroupKind::ScaleSet(set) => Some((group, set)),
        GroupKind::AvailabilitySet | GroupKind::CloudService => None,
    }
}

/// Applies one of the forms. Returns the fields if they contain errors.
pub async fn change(
    context: &PageContext,
    group: &Group,
    set: &ScaleSet,
    form: &Form,
    back: &str,
) -> Result<Response, ScaleSetFields> {
    let mut fields = ScaleSetFields::from_form(form, set);
    let Some(change) = fields.build_change(form) else { return Err(fields) };
    if let Some(confirmation) = confirm_scale_in(context, group, &change, form, back) {
        return Ok(frame::render(context, back, &confirmation.render(), "").into_response());
    }
    let actions = context.portal.actions(form.visitor.principal());
    let capacity = change.capacity;
    match actions.change_scale_set(&GroupTarget::Id(group.id), change).await {
        Ok(_) => {
            let flash = match capacity {
                Some(capacity) => {
                    Flash::new(format!("Scaled {} to {}.", group.name, count_of(capacity as usize, "instance")))
                        .with_link("/operations", "Open operations")
                }
                None => Flash::new(format!("Changed the terminate notification of {}.", group.name))
                    .with_link("/history", "Show history"),
            };
            context.portal.shared.flashes.set(&form.visitor.cookie, flash);
            Ok(Redirect::to(back).into_response())
        }
        Err(error) => {
            fields.add_refusal(form, error.into());
            Err(fields)
        }
    }
}

/// The confirmation page for a change that deletes machines, unless it was confirmed.
fn confirm_scale_in<'a>(
    context: &'a PageContext,
    group: &Group,
    change: &ScaleSetChange,
    form: &'a Form,
    back: &'a str,
) -> Option<Confirmation<'a>> {
    let capacity = change.capacity?;
    if form.is_checked("confirmed") || context.region().group_members(group).count() <= capacity as usize {
        return None;
    }
    Some(Confirmation {
        title: format!("Scale {} to {capacity}?", group.name),
        previews: vec![(group.name.to_string(), context.preview().describe_scaling(group, capacity))],
        action: back,
        fields: vec![("form", "scale"), ("capacity", form.text("capacity"))],
        label: "Scale in".into(),
        tone: ButtonStyle::Danger,
        back,
        csrf: &context.visitor.session.csrf,
    })
}

/// Instances without the latest model.
pub fn outdated<'s>(
    context: &'s PageContext,
    group: &'s Group,
    set: &ScaleSet,
) -> impl Iterator<Item = &'s Arc<Machine>> {
    let latest = set.model_version;
    context.region().group_members(group).filter(move |machine| machine.model != latest)
}

/// The terminate notification of the latest model.
pub fn latest_notification(set: &ScaleSet) -> String {
    words::notification(set.model.terminate.as_deref())
}

pub fn mode_name(mode: UpgradeMode) -> &'static str {
    match mode {
        UpgradeMode::Automatic => "Automatic",
        UpgradeMode::Manual => "Manual",
        UpgradeMode::Rolling => "Rolling",
    }
}

/// The terminate notification in a form: null if it is off.
pub fn parse_notification(form: &Form) -> Result<Nullable<TerminateNotification>, String> {
    if form.text("notification") != "on" {
        return Ok(Nullable::Null);
    }
    let minutes = parse_number(form.text("delay"), "Termination delay (minutes)")?;
    if !(5..=15).contains(&minutes) {
        return Err("Termination delay (minutes) must be a whole number from 5 to 15.".into());
    }
    Ok(Nullable::Value(TerminateNotification { not_before_timeout: format!("PT{minutes}M") }))
}
