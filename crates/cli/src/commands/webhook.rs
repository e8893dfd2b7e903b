//! `forewarn webhook`: manages webhooks and shows their deliveries.

use std::path::Path;

use forewarn_api_types::{
    EmptyBody, Machine, NewWebhook, Nullable, Page, Resend, Resent, UndeliveredMessage, Webhook, WebhookChange,
    WebhookSecret, WebhookTest, WebhookUrl,
};
use forewarn_config::parse::format_span;
use serde_json::Value;

use super::bodies::{name, require_change};
use super::single_line;
use crate::args::{CreateWebhookArgs, Output, ResendArgs, UpdateWebhookArgs, WebhookArgs, WebhookCommand, WebhookName};
use crate::client::{Api, Call, format_time};
use crate::decode::decode;
use crate::failure::{Failure, strip_os_codes};
use crate::output::{self, Cell, Color, TableRow};

pub fn run(api: &Api, command: &WebhookCommand, output: Output) -> Result<(), Failure> {
    match command {
        WebhookCommand::Create(args) => {
            let made = api.post(&Call::api(&["webhooks"]), &new_webhook(args)?)?;
            warn_of_unknown(api, &args.filter.machines);
            output::print_one(&made, output, |webhook: &Webhook| describe_change(webhook, "Created"))
        }
        WebhookCommand::List => {
            let page = api.get(&Call::api(&["webhooks"]))?;
            output::print_list::<Webhook>(&decode::<Page<Value>>(&page)?.value, output)
        }
        WebhookCommand::Show(which) => output::print_one(&api.get(&one(which, None))?, output, facts),
        WebhookCommand::Update(args) => {
            let body = require_change(changed_webhook(args)?, "webhook update")?;
            let changed = api.patch(&one(&args.webhook, None), &body)?;
            warn_of_unknown(api, &args.filter.machines);
            output::print_one(&changed, output, |webhook: &Webhook| describe_change(webhook, "Updated"))
        }
        WebhookCommand::Delete(which) => {
            api.delete(&one(which, None))?;
            match output {
                Output::Table => output::print_line(&output::escape(&format!("Deleted webhook {}", which.name))),
                Output::Json | Output::Yaml | Output::Tsv => Ok(()),
            }
        }
        WebhookCommand::Test(which) => test(api, which, output),
        WebhookCommand::Undelivered(which) => {
            let page = api.get(&one(which, Some("undelivered")))?;
            output::print_list::<UndeliveredMessage>(&decode::<Page<Value>>(&page)?.value, output)
        }
        WebhookCommand::Resend(args) => resend(api, args, output),
    }
}

fn resend(api: &Api, args: &ResendArgs, output: Output) -> Result<(), Failure> {
    let answer = api.post(&one(&args.webhook, Some("resend")), &Resend { ids: given_list(&args.ids) })?;
    let list = format!("`forewarn webhook undelivered {}`", args.webhook.name);
    output::print_one(&answer, output, |resent: &Resent| {
        single_line(match resent.messages {
            0 => "There are no messages to resend.".to_owned(),
            1 => format!("Resending 1 message; it stays in {list} if delivery fails"),
            count => format!("Resending {count} messages; those that fail stay in {list}"),
        })
    })
}

/// Warns of unknown machines, which may be created later. Failures of the lookup are ignored.
fn warn_of_unknown(api: &Api, machines: &[String]) {
    for name in machines {
        let page = api.get(&Call::api(&["machines"]).with("name", Some(name)).with("limit", Some(1)));
        if page.and_then(|page| decode::<Page<Machine>>(&page)).is_ok_and(|page| page.value.is_empty()) {
            let warning = format!("warning: no machine is named '{name}' yet");
            output::print_stderr(&output::escape(&warning));
        }
    }
}

fn one<'a>(which: &'a WebhookName, verb: Option<&'a str>) -> Call {
    let mut path = vec!["webhooks", which.name.as_str()];
    path.extend(verb);
    Call::api(&path)
}

/// Fails if the receiver does not accept the message.
fn test(api: &Api, which: &WebhookName, output: Output) -> Result<(), Failure> {
    let answer = api.post(&one(which, Some("test")), &EmptyBody {})?;
    let result: WebhookTest = decode(&answer)?;
    if !result.delivered {
        return Err(Failure::Refused(format!("not delivered: {}", output::escape(&result.message))));
    }
    output::print_one(&answer, output, |result: &WebhookTest| single_line(format!("Delivered. {}", result.message)))
}

fn new_webhook(args: &CreateWebhookArgs) -> Result<NewWebhook, Failure> {
    let filter = &args.filter;
    Ok(NewWebhook {
        name: name(&args.webhook.name),
        url: WebhookUrl(args.url.clone()),
        secret: filter.secret_file.as_deref().map(read_secret).transpose()?,
        topics: filter.topics.clone(),
        types: filter.types.clone(),
        statuses: filter.statuses.clone(),
        machines: filter.machines.iter().map(|machine| name(machine)).collect(),
        resource_groups: filter.resource_groups.iter().map(|group| name(group)).collect(),
        enabled: !args.disabled,
        retry_seconds: retry_seconds(filter),
    })
}

fn changed_webhook(args: &UpdateWebhookArgs) -> Result<WebhookChange, Failure> {
    let filter = &args.filter;
    let secret = filter.secret_file.as_deref().map(read_secret).transpose()?;
    let names = |given: &[String]| given_list(given).map(|given| given.iter().map(|text| name(text)).collect());
    Ok(WebhookChange {
        url: args.url.clone().map(WebhookUrl),
        secret: match secret {
            Some(secret) => Nullable::Value(secret),
            None if args.new_secret => Nullable::Null,
            None => Nullable::Absent,
        },
        topics: given_list(&filter.topics),
        types: given_list(&filter.types),
        statuses: given_list(&filter.statuses),
        machines: names(&filter.machines),
        resource_groups: names(&filter.resource_groups),
        enabled: args.enabled,
        retry_seconds: retry_seconds(filter),
    })
}

fn retry_seconds(filter: &WebhookArgs) -> Option<u32> {
    filter.retry_for.map(|secs| u32::try_from(secs).unwrap_or(u32::MAX))
}

/// None keeps the list of the webhook.
fn given_list<T: Clone>(given: &[T]) -> Option<Vec<T>> {
    (!given.is_empty()).then(|| given.to_vec())
}

fn read_secret(path: &Path) -> Result<WebhookSecret, Failure> {
    let read = std::fs::read_to_string(path);
    let text = read.map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
    Ok(WebhookSecret(text.trim().to_owned()))
}

impl TableRow for Webhook {
    const HEADER: &'static [&'static str] = &["NAME", "URL", "STATE", "DELIVERED", "BEHIND", "GIVEN UP"];
    const EMPTY: &'static str = "There are no webhooks.";

    fn cells(&self) -> Vec<Cell> {
        let (state, color) = condition(self);
        vec![
            Cell::new(&self.name),
            Cell::new(&self.url),
            Cell::colored(state, color),
            Cell::new(self.state.delivered.to_string()),
            Cell::new(self.state.behind.to_string()),
            Cell::new(self.state.undelivered.to_string()),
        ]
    }
}

impl TableRow for UndeliveredMessage {
    const HEADER: &'static [&'static str] = &["ID", "TYPE", "STATUS", "MACHINES", "HAPPENED", "FAILURE"];
    const EMPTY: &'static str = "There are no undelivered messages.";

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::new(&self.kind),
            Cell::new(&self.status),
            Cell::new(self.machines.join(", ")),
            Cell::new(format_time(self.happened)),
            Cell::new(strip_os_codes(&self.failure)),
        ]
    }
}

impl TableRow for Resent {
    const HEADER: &'static [&'static str] = &["MESSAGES"];
    const EMPTY: &'static str = "";

    fn cells(&self) -> Vec<Cell> {
        vec![Cell::new(self.messages.to_string())]
    }
}

impl TableRow for WebhookTest {
    const HEADER: &'static [&'static str] = &["DELIVERED", "MESSAGE"];
    const EMPTY: &'static str = "";

    fn cells(&self) -> Vec<Cell> {
        vec![Cell::new(self.delivered.to_string()), Cell::new(&self.message)]
    }
}

fn condition(webhook: &Webhook) -> (&'static str, Color) {
    match (webhook.enabled, webhook.state.failures) {
        (false, _) => ("off", Color::Gray),
        (true, 0) => ("on", Color::Green),
        (true, _) => ("failing", Color::Red),
    }
}

/// The change, and a new secret, which is shown only here.
fn describe_change(webhook: &Webhook, done: &str) -> Vec<String> {
    let mut lines = single_line(format!("{done} webhook {} → {}", webhook.name, webhook.url));
    if let Some(secret) = &webhook.secret {
        lines.extend(single_line(format!("Secret {secret}")));
        lines.extend(single_line("Store the secret now; it is not shown again".to_owned()));
    }
    lines
}

fn facts(webhook: &Webhook) -> Vec<String> {
    let state = &webhook.state;
    let retry = format_span(std::time::Duration::from_secs(webhook.retry_seconds));
    let mut facts = vec![
        ("Name", webhook.name.clone()),
        ("URL", webhook.url.clone()),
        ("Topics", words(webhook.topics.iter().map(|topic| topic.as_str()))),
        ("Types", words(webhook.types.iter().map(|kind| kind.as_str()))),
        ("Statuses", words(webhook.statuses.iter().map(|stage| stage.as_str()))),
        ("Machines", words(webhook.machines.iter().map(String::as_str))),
        ("Resource groups", words(webhook.resource_groups.iter().map(String::as_str))),
        ("Retry for", retry),
        ("State", condition(webhook).0.to_owned()),
        ("Delivered", state.delivered.to_string()),
        ("Behind", state.behind.to_string()),
        ("Undelivered", state.undelivered.to_string()),
    ];
    if state.queued_for_resend > 0 {
        facts.push(("Queued to resend", state.queued_for_resend.to_string()));
    }
    if let Some(at) = state.last_success {
        facts.push(("Last success", format_time(at)));
    }
    if let Some(at) = state.failing_since {
        facts.push(("Failing since", format_time(at)));
    }
    if let Some(failure) = &state.last_failure {
        facts.push(("Last failure", format!("{}: {}", format_time(failure.at), strip_os_codes(&failure.message))));
    }
    output::format_fields(&facts)
}

fn words<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.collect();
    if words.is_empty() { "all".to_owned() } else { words.join(", ") }
}
