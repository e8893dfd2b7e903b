//! The form for `scheduledEventsPolicy`: which events are approved automatically.

use askama::Template;
use forewarn_core::EventsPolicy;
use forewarn_widgets::field::{Control, Field, FieldErrors};
use forewarn_widgets::panel::{Fold, Panel};
use forewarn_widgets::words;

use super::page_context::PageContext;
use forewarn_api::Action;

#[derive(Template)]
#[template(path = "policy.html")]
struct PolicyForm<'a> {
    act: &'static str,
    /// The kind of group; empty for a standalone machine.
    kind: &'a str,
    target: &'a str,
    back: &'a str,
    csrf: &'a str,
    fields: Vec<String>,
    allowed: bool,
    role_needed: String,
}

pub fn render_panel(
    context: &PageContext,
    act: &'static str,
    kind: &str,
    target: &str,
    policy: &EventsPolicy,
    back: &str,
) -> Panel {
    let none = FieldErrors::default();
    let checkbox = |name, label, is_on: bool| {
        Field::new(name, label, if is_on { "on" } else { "" }, &none).with_control(Control::Checkbox).render()
    };
    let form = PolicyForm {
        act,
        kind,
        target,
        back,
        csrf: &context.visitor.session.csrf,
        fields: vec![
            checkbox("reboot", "Start user-requested restarts immediately", policy.approve_user_reboot),
            checkbox("redeploy", "Start user-requested redeploys immediately", policy.approve_user_redeploy),
            checkbox(
                "down",
                "Start all events immediately while all machines are down",
                policy.approve_all_instances_down,
            ),
        ],
        allowed: context.visitor.is_allowed(Action::ChangeMachine),
        role_needed: words::role_needed(Action::ChangeMachine.role()),
    };
    let fold = Fold { summary: "Which events start without an approval", is_open: false };
    Panel::with_content("policy", "Automatic approval", &form).folded(fold)
}
