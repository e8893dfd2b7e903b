//! `forewarn webhook`: manages webhooks and shows their deliveries.

use std::path::Path;

use clap::ValueEnum;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::bodies::{object, require_change};
use super::single_line;
use crate::args::{CreateWebhookArgs, Output, ResendArgs, UpdateWebhookArgs, WebhookArgs, WebhookCommand, WebhookName};
use crate::client::{Api, Call, format_time};
use crate::decode::decode;
use crate::failure::{Failure, strip_os_codes};
use crate::output::{self, Cell, Color, TableRow};
use crate::parse::span_text;

/// The part of the API's answer that is shown.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Webhook {
    name: String,
    url: String,
    secret: Option<String>,
    types: Vec<String>,
    statuses: Vec<String>,
    machines: Vec<String>,
    resource_groups: Vec<String>,
    enabled: bool,
    retry_seconds: u64,
    state: DeliveryState,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeliveryState {
    delivered: u64,
    given_up: u64,
    again: u64,
    behind: u64,
    failures: u64,
    last_success: Option<Timestamp>,
    last_failure: Option<LastFailure>,
}

#[derive(Debug, Deserialize)]
struct LastFailure {
    at: Timestamp,
    message: String,
}

/// An undelivered message.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GivenUp {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    status: String,
    machines: Vec<String>,
    happened: Timestamp,
    failure: String,
}

#[derive(Debug, Deserialize)]
struct Resent {
    messages: u64,
}

#[derive(Debug, Deserialize)]
struct TestResult {
    delivered: bool,
    message: String,
}

pub fn run(api: &Api, command: &WebhookCommand, output: Output) -> Result<(), Failure> {
    match command {
        WebhookCommand::Create(args) => {
            let made = api.post(&Call::api(&["webhooks"]), &new_webhook(args)?)?;
            warn_of_unknown(api, &args.filter.machines);
            output::print_one(&made, output, |webhook: &Webhook| webhook.describe_change("Created"))
        }
        WebhookCommand::List => {
            let page = api.get(&Call::api(&["webhooks"]))?;
            output::print_list::<Webhook>(page["value"].as_array().map_or(&[], Vec::as_slice), output)
        }
        WebhookCommand::Show(which) => output::print_one(&api.get(&one(which, None))?, output, Webhook::facts),
        WebhookCommand::Update(args) => {
            let body = require_change(changed_webhook(args)?, "webhook update")?;
            let changed = api.patch(&one(&args.webhook, None), &body)?;
            warn_of_unknown(api, &args.filter.machines);
            output::print_one(&changed, output, |webhook: &Webhook| webhook.describe_change("Updated"))
        }
        WebhookCommand::Delete(which) => {
            api.delete(&one(which, None))?;
            match output {
                Output::Table => output::print_line(&output::escape(&format!("Deleted webhook {}", which.name))),
                Output::Json | Output::Yaml | Output::Tsv => Ok(()),
            }
        }
        WebhookCommand::Test(which) => test(api, which, output),
        WebhookCommand::GivenUp(which) => {
            let page = api.get(&one(which, Some("given-up")))?;
            output::print_list::<GivenUp>(page["value"].as_array().map_or(&[], Vec::as_slice), output)
        }
        WebhookCommand::Resend(args) => resend(api, args, output),
    }
}

fn resend(api: &Api, args: &ResendArgs, output: Output) -> Result<(), Failure> {
    let answer = api.post(&one(&args.webhook, Some("resend")), &object(&[("ids", list_or_null(&args.ids))]))?;
    let list = format!("`forewarn webhook given-up {}`", args.webhook.name);
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
        if page.is_ok_and(|page| page["value"].as_array().is_some_and(Vec::is_empty)) {
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
    let answer = api.post(&one(which, Some("test")), &json!({}))?;
    let result: TestResult = decode(&answer)?;
    if !result.delivered {
        return Err(Failure::Refused(format!("not delivered: {}", output::escape(&result.message))));
    }
    output::print_one(&answer, output, |result: &TestResult| single_line(format!("Delivered. {}", result.message)))
}

fn new_webhook(args: &CreateWebhookArgs) -> Result<Value, Failure> {
    let mut body = filter_body(&args.filter)?;
    body["name"] = json!(args.webhook.name);
    body["url"] = json!(args.url);
    if args.disabled {
        body["enabled"] = json!(false);
    }
    Ok(body)
}

fn changed_webhook(args: &UpdateWebhookArgs) -> Result<Value, Failure> {
    let mut body = filter_body(&args.filter)?;
    if let Some(url) = &args.url {
        body["url"] = json!(url);
    }
    if let Some(enabled) = args.enabled {
        body["enabled"] = json!(enabled);
    }
    if args.new_secret {
        body["secret"] = Value::Null;
    }
    Ok(body)
}

fn filter_body(args: &WebhookArgs) -> Result<Value, Failure> {
    let secret = args.secret_file.as_deref().map(read_secret).transpose()?;
    Ok(object(&[
        ("types", words(&args.types)),
        ("statuses", words(&args.statuses)),
        ("machines", list_or_null(&args.machines)),
        ("resourceGroups", list_or_null(&args.resource_groups)),
        ("secret", json!(secret)),
        ("retrySeconds", json!(args.retry_for)),
    ]))
}

fn list_or_null(names: &[String]) -> Value {
    if names.is_empty() { Value::Null } else { json!(names) }
}

fn words<T: ValueEnum>(values: &[T]) -> Value {
    let names = values.iter().filter_map(ValueEnum::to_possible_value).map(|value| value.get_name().to_owned());
    list_or_null(&names.collect::<Vec<_>>())
}

fn read_secret(path: &Path) -> Result<String, Failure> {
    let read = std::fs::read_to_string(path);
    let text = read.map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
    Ok(text.trim().to_owned())
}

impl TableRow for Webhook {
    const HEADER: &'static [&'static str] = &["NAME", "URL", "STATE", "DELIVERED", "BEHIND", "GIVEN UP"];
    const EMPTY: &'static str = "There are no webhooks.";

    fn cells(&self) -> Vec<Cell> {
        let (state, color) = self.condition();
        vec![
            Cell::new(&self.name),
            Cell::new(&self.url),
            Cell::colored(state, color),
            Cell::new(self.state.delivered.to_string()),
            Cell::new(self.state.behind.to_string()),
            Cell::new(self.state.given_up.to_string()),
        ]
    }
}

impl TableRow for GivenUp {
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

impl TableRow for TestResult {
    const HEADER: &'static [&'static str] = &["DELIVERED", "MESSAGE"];
    const EMPTY: &'static str = "";

    fn cells(&self) -> Vec<Cell> {
        vec![Cell::new(self.delivered.to_string()), Cell::new(&self.message)]
    }
}

impl Webhook {
    fn condition(&self) -> (&'static str, Color) {
        match (self.enabled, self.state.failures) {
            (false, _) => ("off", Color::Grey),
            (true, 0) => ("on", Color::Green),
            (true, _) => ("failing", Color::Red),
        }
    }

    /// The change, and a new secret, which is shown only here.
    fn describe_change(&self, done: &str) -> Vec<String> {
        let mut lines = single_line(format!("{done} webhook {} → {}", self.name, self.url));
        if let Some(secret) = &self.secret {
            lines.extend(single_line(format!("Secret {secret}")));
            lines.extend(single_line("Store the secret now; it is not shown again".to_owned()));
        }
        lines
    }

    fn facts(&self) -> Vec<String> {
        let list = |names: &[String]| if names.is_empty() { "all".to_owned() } else { names.join(", ") };
        let state = &self.state;
        let retry = span_text(std::time::Duration::from_secs(self.retry_seconds));
        let mut facts = vec![
            ("Name", self.name.clone()),
            ("URL", self.url.clone()),
            ("Types", list(&self.types)),
            ("Statuses", list(&self.statuses)),
            ("Machines", list(&self.machines)),
            ("Resource groups", list(&self.resource_groups)),
            ("Retry for", retry),
            ("State", self.condition().0.to_owned()),
            ("Delivered", state.delivered.to_string()),
            ("Behind", state.behind.to_string()),
            ("Given up", state.given_up.to_string()),
        ];
        if state.again > 0 {
            facts.push(("Queued to resend", state.again.to_string()));
        }
        if let Some(at) = state.last_success {
            facts.push(("Last success", format_time(at)));
        }
        if let Some(failure) = &state.last_failure {
            facts.push(("Last failure", format!("{}: {}", format_time(failure.at), strip_os_codes(&failure.message))));
        }
        output::format_fields(&facts)
    }
}
