//! The list of webhooks with the state of their deliveries; test, resend, delete.

use std::cmp::Reverse;

use askama::Template;
use forewarn_api::Action;
use forewarn_api_types::Webhook;
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::panel::{PageContent, Panel};
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::table::{self, Column, SortOrder};
use forewarn_widgets::words;

use super::action::{Button, ButtonStyle};
use super::page_context::PageContext;

const HERE: &str = "/webhooks";

const COLUMNS: [Column; 7] = [
    Column { key: "name", label: "Name", class: "" },
    Column { key: "url", label: "URL", class: "" },
    Column { key: "state", label: "State", class: "" },
    Column { key: "delivered", label: "Delivered", class: "r" },
    Column { key: "queued", label: "Queued", class: "r" },
    Column { key: "undelivered", label: "Undelivered", class: "r" },
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

pub async fn render(context: &PageContext, query: &PageQuery) -> PageContent {
    let actions = context.portal.actions(context.visitor.principal());
    let mut hooks = actions.list_webhooks().await.unwrap_or_else(|error| {
        tracing::error!(message = %error.message, "cannot read webhooks");
        Vec::new()
    });
    let order = SortOrder::of(query, &COLUMNS, "state");
    sort(&mut hooks, order);
    let rows = hooks.iter().enumerate().map(|(number, hook)| render_row(context, hook, number)).collect();
    let panel = Panel::new("webhooks", "Webhooks", rows)
        .with_table(table::render_head(&COLUMNS, order, query, HERE))
        .or_empty_text("No webhooks. Create one with: forewarn webhook create NAME --url URL");
    PageContent::new("Webhooks", vec![panel])
}

/// Ascending order puts what needs a look first: failing webhooks, and large numbers.
fn sort(hooks: &mut [Webhook], order: SortOrder<'_>) {
    hooks.sort_by_cached_key(|hook| hook.name.to_lowercase());
    match order.key {
        "name" => {}
        "url" => hooks.sort_by_cached_key(|hook| hook.url.clone()),
        "delivered" => hooks.sort_by_key(|hook| Reverse(hook.state.delivered)),
        "queued" => hooks.sort_by_key(|hook| Reverse(hook.state.behind)),
        "undelivered" => hooks.sort_by_key(|hook| Reverse(hook.state.undelivered)),
        _ => hooks.sort_by_key(|hook| match (hook.enabled, hook.state.failures, hook.state.last_success) {
            (true, 1.., _) => 0,
            (false, _, _) => 1,
            (true, _, None) => 2,
            (true, _, Some(_)) => 3,
        }),
    }
    if order.is_descending {
        hooks.reverse();
    }
}

fn render_row(context: &PageContext, hook: &Webhook, number: usize) -> Fragment {
    let (id, sort) = (format!("webhook-{}", words::escape_html(&hook.name)), table::row_key(number));
    let state = &hook.state;
    let time = |at: forewarn_api_types::Time| words::time(forewarn_core::Timestamp(at.0));
    let failing = state.failing_since.zip(state.last_failure.as_ref());
    let text = match (hook.enabled, state.failures, failing, state.last_success) {
        (false, _, _, _) => r#"<span class="st idle">Paused</span>"#.into(),
        (true, 1.., Some((since, failure)), _) => format!(
            r#"<span class="st down">Failing</span> <span class="q">since {}: {}</span>"#,
            time(since),
            words::escape_html(&failure.message)
        ),
        (true, _, _, Some(at)) => {
            format!(r#"<span class="st">Delivering</span> <span class="q">last {}</span>"#, time(at))
        }
        (true, _, _, None) => r#"<span class="st idle">No messages yet</span>"#.into(),
    };
    let button = |act: &'static str, label, consequences: &str, needs, tone| {
        let button = Button::new(act, label, consequences.to_owned(), needs, tone);
        button.render(context, (&format!("do-{act}-{number}"), ""), &hook.name, HERE)
    };
    let mut actions =
        vec![button("test-webhook", "Test", "A test message is sent once.", Action::TestWebhook, ButtonStyle::Normal)];
    if state.undelivered > 0 {
        actions.push(button(
            "resend-webhook",
            "Resend",
            "All undelivered messages are sent again, each once.",
            Action::ResendMessages,
            ButtonStyle::Normal,
        ));
    }
    actions.push(button(
        "delete-webhook",
        "Delete",
        "The webhook is deleted, with its undelivered messages.",
        Action::DeleteWebhook,
        ButtonStyle::Danger,
    ));
    Fragment::render(id.as_str(), sort.as_str(), &WebhookRow { id: &id, sort: &sort, hook, state: text, actions })
}
