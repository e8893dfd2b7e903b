//! Arguments of `forewarn webhook`.

use std::path::PathBuf;

use clap::Subcommand;
use forewarn_api_types::{EventStage, EventType, WebhookTopic};
use forewarn_config::parse;

#[derive(Debug, Subcommand)]
pub enum WebhookCommand {
    /// Create a webhook.
    Create(Box<CreateWebhookArgs>),
    /// List webhooks and their delivery state.
    List,
    /// Show a webhook and its delivery state.
    Show(WebhookName),
    /// Change a webhook; omitted options keep their values.
    Update(Box<UpdateWebhookArgs>),
    /// Delete a webhook.
    Delete(WebhookName),
    /// Send a test message and print the receiver's response.
    Test(WebhookName),
    /// List the last undelivered messages and the reasons.
    Undelivered(WebhookName),
    /// Resend undelivered messages once [default: all messages].
    Resend(ResendArgs),
}

#[derive(Debug, clap::Args)]
pub struct WebhookName {
    /// Webhook name.
    #[arg(value_name = "NAME")]
    pub name: String,
}

#[derive(Debug, clap::Args)]
pub struct ResendArgs {
    #[command(flatten)]
    pub webhook: WebhookName,
    /// ID of a message, as listed by `webhook undelivered`; repeatable.
    #[arg(long = "id", value_name = "ID")]
    pub ids: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub struct CreateWebhookArgs {
    #[command(flatten)]
    pub webhook: WebhookName,
    /// URL to deliver to: http or https.
    #[arg(long)]
    pub url: String,
    #[command(flatten)]
    pub filter: WebhookArgs,
    /// Create the webhook disabled; `webhook update --enabled true` enables it.
    #[arg(long)]
    pub disabled: bool,
}

#[derive(Debug, clap::Args)]
pub struct UpdateWebhookArgs {
    #[command(flatten)]
    pub webhook: WebhookName,
    /// URL to deliver to: http or https.
    #[arg(long)]
    pub url: Option<String>,
    #[command(flatten)]
    pub filter: WebhookArgs,
    /// Enable or disable deliveries; messages are queued while disabled.
    #[arg(long, value_name = "TRUE|FALSE")]
    pub enabled: Option<bool>,
    /// Generate a new secret and print it.
    #[arg(long, conflicts_with = "secret_file")]
    pub new_secret: bool,
}

#[derive(Debug, clap::Args)]
pub struct WebhookArgs {
    /// Topic to deliver; repeatable [default: Events].
    #[arg(long = "topic", value_name = "TOPIC", ignore_case = true, value_parser = parse::word::<WebhookTopic>())]
    pub topics: Vec<WebhookTopic>,
    /// Event type to deliver; repeatable [default: all].
    #[arg(long = "type", value_name = "TYPE", ignore_case = true, value_parser = parse::word::<EventType>())]
    pub types: Vec<EventType>,
    /// Event status to deliver; repeatable [default: all].
    #[arg(long = "status", value_name = "STATUS", ignore_case = true, value_parser = parse::word::<EventStage>())]
    pub statuses: Vec<EventStage>,
    /// Machine whose events to deliver; repeatable [default: all].
    #[arg(long = "vm", value_name = "NAME")]
    pub machines: Vec<String>,
    /// Resource group whose events to deliver; repeatable [default: all].
    #[arg(long = "resource-group", short = 'g', value_name = "NAME")]
    pub resource_groups: Vec<String>,
    /// File with the signing secret, as whsec_ and Base64 [default: a new secret, printed once].
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// Time to keep retrying a message: at most 7d [default: 1d].
    #[arg(long, value_name = "DURATION", value_parser = parse::retry_for)]
    pub retry_for: Option<u64>,
}
