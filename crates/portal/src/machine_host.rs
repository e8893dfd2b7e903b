//! The form that states which host a machine is on. Nothing moves the machine: the form corrects the record if an operator has moved
//! it, or if the reports of hosts are wrong.

use askama::Template;
use forewarn_api::Action;
use forewarn_core::Machine;
use forewarn_widgets::field::{Control, Field, FieldErrors};
use forewarn_widgets::panel::Panel;
use forewarn_widgets::words;
use forewarn_wire::guid;

use super::page_context::PageContext;

/// Hosts that the form suggests. Others can be typed.
const SUGGESTED_MAX: usize = 200;

#[derive(Template)]
#[template(path = "machine_host.html")]
struct HostForm<'a> {
    target: String,
    back: &'a str,
    csrf: &'a str,
    field: String,
    hosts: Vec<&'a str>,
    allowed: bool,
    role_needed: String,
}

pub fn render_panel(context: &PageContext, machine: &Machine, back: &str) -> Panel {
    let none = FieldErrors::default();
    let field = Field::new("host", "Host", machine.host.as_deref().unwrap_or_default(), &none)
        .with_control(Control::Suggested("host-names"))
        .with_hint("States where the machine is, and moves nothing. Empty: on no host.");
    let form = HostForm {
        target: guid::Lower(machine.vm_id.0).to_string(),
        back,
        csrf: &context.visitor.session.csrf,
        field: field.render(),
        hosts: context.region().hosts().take(SUGGESTED_MAX).map(|host| &*host.name).collect(),
        allowed: context.visitor.is_allowed(Action::ChangeMachine),
        role_needed: words::role_needed(Action::ChangeMachine.role()),
    };
    Panel::with_content("machine-host", "Change host", &form)
}
