//! `forewarn webhook`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use crate::parse;

#[derive(Debug, Subcommand)]
pub enum WebhookCommand {
    /// Let a program be told what happens to events.
    Create(Box<CreateWebhookArgs>),
    /// Web hooks, and how they fare.
    List,
    /// One web hook, and how it fares.
    Show(WebhookName),
    /// Change a web hook; what is not given stays.
    Update(Box<UpdateWebhookArgs>),
    /// Delete a web hook.
    Delete(WebhookName),
    /// Send a message that is about nothing, and say what the receiver answers.
    Test(WebhookName),
    /// The last messages that were given up, and why.
    GivenUp(WebhookName),
    /// Send messages again that were given up, each once; all of them, unless some are named.
    Resend(ResendArgs),
}

#[derive(Debug, clap::Args)]
pub struct WebhookName {
    /// The name of the web hook.
    #[arg(value_name = "NAME")]
    pub name: String,
}

#[derive(Debug, clap::Args)]
pub struct ResendArgs {
    #[command(flatten)]
    pub webhook: WebhookName,
    /// Only this message, as `webhook given-up` names it; may be given several times.
    #[arg(long = "id", value_name = "ID")]
    pub ids: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub struct CreateWebhookArgs {
    #[command(flatten)]
    pub webhook: WebhookName,
    /// Where deliveries go: http or https.
    #[arg(long)]
    pub url: String,
    #[command(flatten)]
    pub filter: WebhookArgs,
    /// Send nothing until it is switched on with `webhook update --enabled true`.
    #[arg(long)]
    pub disabled: bool,
}

#[derive(Debug, clap::Args)]
pub struct UpdateWebhookArgs {
    #[command(flatten)]
    pub webhook: WebhookName,
    /// Where deliveries go from now on.
    #[arg(long)]
    pub url: Option<String>,
    #[command(flatten)]
    pub filter: WebhookArgs,
    /// Whether anything is sent. What happens meanwhile is sent later.
    #[arg(long, value_name = "TRUE|FALSE")]
    pub enabled: Option<bool>,
    /// Make another secret, and show it.
    #[arg(long, conflicts_with = "secret_file")]
    pub new_secret: bool,
}

#[derive(Debug, clap::Args)]
pub struct WebhookArgs {
    /// Only events of this type; may be given several times.
    #[arg(long = "type", value_name = "TYPE", ignore_case = true)]
    pub types: Vec<WebhookType>,
    /// Only when an event gets there; may be given several times.
    #[arg(long = "status", value_name = "STATUS", ignore_case = true)]
    pub statuses: Vec<WebhookStatus>,
    /// Only events of machines of this name; may be given several times.
    #[arg(long = "vm", value_name = "NAME")]
    pub machines: Vec<String>,
    /// Only events in this resource group; may be given several times.
    #[arg(long = "resource-group", short = 'g', value_name = "NAME")]
    pub resource_groups: Vec<String>,
    /// A file with the secret that deliveries are signed with, whsec_ and Base64. Without it one is made and shown once.
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// Give up what has become older than this and cannot be delivered; a day without it, a week at the most.
    #[arg(long, value_name = "SPAN", value_parser = parse::retry_for)]
    pub retry_for: Option<u64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum WebhookType {
    Freeze,
    Reboot,
    Redeploy,
    Preempt,
    Terminate,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum WebhookStatus {
    Scheduled,
    Started,
    Completed,
    Canceled,
}
