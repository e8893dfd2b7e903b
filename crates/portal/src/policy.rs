//! `scheduledEventsPolicy`: what is approved without asking anybody.

use askama::Template;
use forewarn_core::EventsPolicy;

use super::field::{Control, Field, Problems};
use super::page::{Panel, Scene};
use super::words;
use forewarn_access::Role;

#[derive(Template)]
#[template(path = "policy.html")]
struct PolicyForm<'a> {
    act: &'static str,
    /// The kind of group; empty for a machine on its own.
    kind: &'a str,
    target: &'a str,
    back: &'a str,
    csrf: &'a str,
    fields: Vec<String>,
    allowed: bool,
    needed: String,
}

/// `act` says whose it is.
pub fn panel(scene: &Scene, act: &'static str, kind: &str, target: &str, policy: &EventsPolicy, back: &str) -> Panel {
    let none = Problems::default();
    let tick = |name, label, is_on: bool| {
        Field::new(name, label, if is_on { "on" } else { "" }, &none).as_(Control::Tick).html()
    };
    let form = PolicyForm {
        act,
        kind,
        target,
        back,
        csrf: &scene.visitor.session.csrf,
        fields: vec![
            tick("reboot", "Restarts by users start at once", policy.approve_user_reboot),
            tick("redeploy", "Redeploys by users start at once", policy.approve_user_redeploy),
            tick("down", "Everything starts at once while all machines are down", policy.approve_all_instances_down),
        ],
        allowed: scene.visitor.may(Role::Owner),
        needed: words::role_needed(Role::Owner),
    };
    Panel::one("policy", "Approved without asking", &form)
}
