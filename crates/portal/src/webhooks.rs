//! The list of webhooks with the state of their deliveries; test, resend, delete.

use askama::Template;
use forewarn_api::Action;
use forewarn_api_types::Webhook;

use super::action::{Button, Tone};
use super::fragment::Fragment;
use super::panel::{PageContent, Panel};
use super::query::PageQuery;
use super::scene::Scene;
use super::table::{self, Column, SortOrder};
use super::words;

const HERE: &str = "/webhooks";

const COLUMNS: [Column; 7] = [
    Column { key: "", label: "Name", class: "" },
    Column { key: "", label: "URL", class: "" },
    Column { key: "", label: "State", class: "" },
    Column { key: "", label: "Delivered", class: "r" },
    Column { key: "", label: "Queued", class: "r" },
    Column { key: "", label: "Undelivered", class: "r" },
    Column { key: "", label: "Actions", class: "" },
];

#[derive(Template)]
#[template(path = "webhook_row.html")]
struct WebhookRow<'a> {
    id: &'a str,
    sort: &'a str,
    hook: &'a Webhook,
    /// HTML.
    state: String,
    /// HTML.
    actions: Vec<String>,
}

pub async fn render(scene: &Scene) -> PageContent {
    let actions = scene.portal.actions(scene.visitor.principal());
    let hooks = actions.list_webhooks().await.unwrap_or_else(|error| {
        tracing::error!(message = %error.message, "cannot read webhooks");
        Vec::new()
    });
    let rows = hooks.iter().enumerate().map(|(number, hook)| render_row(scene, hook, number)).collect();
    let order = SortOrder { key: "", is_descending: false };
    let panel = Panel::new("webhooks", "Webhooks", rows)
        .with_table(table::render_head(&COLUMNS, order, &PageQuery::default(), HERE))
        .or_empty_text("No webhooks. Create one with: forewarn webhook create NAME --url URL");
    PageContent::new("Webhooks", vec![panel])
}

fn render_row(scene: &Scene, hook: &Webhook, number: usize) -> Fragment {
    let (id, sort) = (format!("webhook-{}", words::escape_html(&hook.name)), table::row_key(number));
    let state = &hook.state;
    let time = |at: forewarn_api_types::Time| words::time(forewarn_core::Timestamp(at.0));
    let text = match (hook.enabled, state.failures, &state.last_failure, state.last_success) {
        (false, _, _, _) => r#"<span class="st idle">Paused</span>"#.into(),
        (true, 1.., Some(failure), _) => format!(
            r#"<span class="st down">Failing</span> <span class="q">since {}: {}</span>"#,
            time(failure.at),
            words::escape_html(&failure.message)
        ),
        (true, _, _, Some(at)) => {
            format!(r#"<span class="st">Delivering</span> <span class="q">last {}</span>"#, time(at))
        }
        (true, _, _, None) => r#"<span class="st idle">No messages yet</span>"#.into(),
    };
    let button = |act: &'static str, label, consequences: &str, needs, tone| {
        let button = Button::new(act, label, consequences.to_owned(), needs, tone);
        button.render(scene, (&format!("do-{act}-{number}"), ""), &hook.name, HERE)
    };
    let mut actions =
        vec![button("test-webhook", "Test", "A test message is sent once.", Action::TestWebhook, Tone::Normal)];
    if state.given_up > 0 {
        actions.push(button(
            "resend-webhook",
            "Resend",
            "All undelivered messages are sent again, each once.",
            Action::ResendMessages,
            Tone::Normal,
        ));
    }
    actions.push(button(
        "delete-webhook",
        "Delete",
        "The webhook is deleted, with its undelivered messages.",
        Action::DeleteWebhook,
        Tone::Danger,
    ));
    Fragment::render(id.as_str(), sort.as_str(), &WebhookRow { id: &id, sort: &sort, hook, state: text, actions })
}
