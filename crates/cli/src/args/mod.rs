//! The arguments of the command line, one file per command group, with help texts, examples and help topics.
//! Nothing is carried out here; see `commands`.

mod check;
mod clock;
mod cluster;
mod completions;
mod connection;
mod data;
mod events;
mod examples;
mod fault;
mod global_options;
mod group;
mod health;
mod hints;
mod history;
mod host;
mod login;
mod maintenance;
mod names;
mod observe;
mod operation;
mod portal;
mod properties;
mod rollout;
mod run;
mod scenario;
mod sign_in;
mod topics;
mod vm;
mod vmss;
mod webhook;

use std::ffi::OsString;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use forewarn_config::ServeArgs;

pub use check::CheckArgs;
pub use clock::ClockCommand;
pub use cluster::{ClusterCommand, EtcdArgs};
pub use completions::CompletionsCommand;
pub use connection::{Client, Connection, DeletionArgs, OperationArgs, Output};
pub use data::{ArchiveArgs, BackupArgs, TokenCommand};
pub use events::{EventsCommand, WatchArgs};
pub use fault::{ClearArgs, FaultArgs, FaultCommand, FaultKindArgs};
pub use group::{CreateGroupArgs, GroupCommand};
pub use health::HealthArgs;
pub use history::HistoryArgs;
pub use host::{DrainArgs, HostCommand, HostJoinArgs, HostRunArgs, HostUpdateArgs, ImportArgs, ManageHostCommand};
pub use login::{ContextCommand, LoginArgs};
pub use maintenance::{MaintenanceArgs, MaintenanceCommand, TargetArgs};
pub use names::{GroupFilter, HostName, ResourceName};
pub use observe::{RequestsArgs, WaitArgs, WaitStatus};
pub use operation::{OperationCommand, OperationFilterArgs};
pub use portal::PortalArgs;
pub use properties::{DetailArgs, PolicyArgs, TerminateChange};
pub use rollout::{RetryArgs, RolloutArgs, RolloutCommand, RolloutId};
pub use run::{CompanionArgs, RunArgs, RunOptions, Verbosity};
pub use scenario::ScenarioCommand;
pub use sign_in::{AzArgs, CaCommand, IssueArgs};
pub use topics::{EXIT_CODES, find_topic};
pub use vm::{CreateVmArgs, FailureArgs, IdentityCommand, UpdateVmArgs, VmCommand, VmOperationArgs};
pub use vmss::{CreateSetArgs, InstanceOperationArgs, InstancePowerArgs, NoWaitArgs, UpdateSetArgs, VmssCommand};
pub use webhook::{CreateWebhookArgs, ResendArgs, UpdateWebhookArgs, WebhookArgs, WebhookCommand, WebhookName};

/// Scheduled Events for any fleet of virtual machines.
#[derive(Debug, Parser)]
#[command(name = "forewarn", version, disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

impl Args {
    /// Parses the arguments of this process. Prints help or a usage error and exits if there is nothing to run;
    /// `on_usage_error` is called before that.
    pub fn parse_or_exit(on_usage_error: impl Fn(&[OsString])) -> Args {
        let words = global_options::move_behind_command(std::env::args_os().collect());
        if let Some(args) = parse_host_run(&words) {
            return args;
        }
        let mut command = command_line();
        let exit = |error: clap::Error| -> Args {
            if let Some(hint) = hints::suggest_separator(&words, error.kind()) {
                let _ = error.print();
                eprintln!("{hint}");
                std::process::exit(error.exit_code());
            }
            if error.use_stderr() {
                on_usage_error(&words);
            }
            error.exit()
        };
        match command.try_get_matches_from_mut(&words) {
            Ok(matches) => Args::from_arg_matches(&matches).unwrap_or_else(|error| exit(error.format(&mut command))),
            Err(error) => exit(error),
        }
    }
}

/// `forewarn host run` alone. An agent runs for months, and building the whole command line would leave several megabytes
/// of code and memory resident.
#[derive(Debug, Parser)]
struct HostRun {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    run: HostRunArgs,
}

/// None: another command, a request for help, or a mistake. The whole command line has better messages.
fn parse_host_run(words: &[OsString]) -> Option<Args> {
    let [program, host, run, options @ ..] = words else { return None };
    if host != "host" || run != "run" {
        return None;
    }
    let HostRun { connection, run } = HostRun::try_parse_from(std::iter::once(program).chain(options)).ok()?;
    Some(Args { command: Command::Host(Client { connection, command: HostCommand::Run(run) }) })
}

/// The whole command line, as it is parsed and as its help shows it.
pub fn command_line() -> clap::Command {
    let command = complete_command_line().mut_subcommands(hide_connection);
    examples::add_to(command).after_help(topics::LIST)
}

/// The same with the connection options of every command visible, for shell completion.
pub fn complete_command_line() -> clap::Command {
    let command = Args::command().args(global_options::root_arguments());
    let command = command.mut_subcommand("availability-set", |set| describe_group(set, "availability set"));
    command.mut_subcommand("cloud-service", |service| describe_group(service, "cloud service"))
}

/// Connection options are described once, in `forewarn --help` and in a help topic.
fn hide_connection(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg });
    command.mut_subcommands(hide_connection)
}

/// Availability sets and cloud services share their arguments, but each has help texts of its own.
fn describe_group(command: clap::Command, noun: &str) -> clap::Command {
    let about = |verb: &str| match verb {
        "list" => format!("List {noun}s"),
        "show" => format!("Show the details of a {noun}"),
        "create" => format!("Create a {noun}; machines join it when they are created"),
        "update" => format!("Change which events of a {noun} are approved automatically"),
        _ => format!("Delete a {noun}; with --with-machines, also its machines after their notice period"),
    };
    command.mut_subcommands(|verb| {
        let text = about(verb.get_name()).replace("a availability", "an availability");
        verb.about(text)
    })
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server.
    Serve(ServeArgs),
    /// Run a program as a machine, with the metadata endpoint at http://169.254.169.254.
    Run(Box<RunArgs>),
    /// Run the companion process of `forewarn run`.
    #[command(hide = true)]
    RunCompanion(Box<CompanionArgs>),
    /// Open the portal in a browser.
    Portal(PortalArgs),
    /// Watch events in a live view; the same as `events watch`.
    Watch(WatchArgs),
    /// List, watch, approve and cancel events.
    Events(Client<EventsCommand>),
    /// Schedule maintenance.
    Maintenance(Client<MaintenanceCommand>),
    /// Roll out maintenance in steps over hosts, groups or machines.
    Rollout(Client<RolloutCommand>),
    /// Manage machines.
    Vm(Client<VmCommand>),
    /// Manage scale sets and their instances.
    Vmss(Client<VmssCommand>),
    /// Manage availability sets.
    AvailabilitySet(Client<GroupCommand>),
    /// Manage cloud services.
    CloudService(Client<GroupCommand>),
    /// Manage hosts and simulate host failures.
    Host(Client<HostCommand>),
    /// Show, wait for or cancel operations.
    Operation(Client<OperationCommand>),
    /// Inject faults into the metadata endpoint.
    Fault(Client<FaultCommand>),
    /// Manage webhooks.
    Webhook(Client<WebhookCommand>),
    /// Show the history of events and management actions.
    History(HistoryArgs),
    /// Check a handler against scenarios and faults.
    Check(CheckArgs),
    /// Run scripted event timelines on the server.
    Scenario(Client<ScenarioCommand>),
    /// Log in to a server and save it as a context.
    Login(LoginArgs),
    /// List, select and delete contexts.
    #[command(subcommand)]
    Context(ContextCommand),
    /// Check whether the server is running and accepts changes.
    Health(HealthArgs),
    /// Show and manage the servers that share a region.
    Cluster(Client<ClusterCommand>),
    /// Show, advance or set the server's clock.
    Clock(Client<ClockCommand>),
    /// Show, rotate or issue tokens for the management API.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Configure the Azure CLI for this server, or run it.
    ///
    /// Creates a configuration directory for the Azure CLI and prints shell commands that select it. With -- and
    /// arguments, runs az with that configuration instead. ~/.azure is not changed.
    Az(AzArgs),
    /// Show the certificate authority of the server.
    Ca(Client<CaCommand>),
    /// Copy the database of a server, which may be running, to a file.
    Backup(BackupArgs),
    /// Restore a backup into an empty data directory.
    Restore(BackupArgs),
    /// Export the data of a server to a portable file, from a cluster too.
    Export(ArchiveArgs),
    /// Import an exported file into an empty data directory.
    Import(ArchiveArgs),
    /// Generate shell completions and manual pages.
    #[command(subcommand)]
    Completions(CompletionsCommand),
    /// Print the candidates for the last word of a command line, for the shells.
    #[command(name = "__complete", hide = true)]
    Complete {
        /// Words after the name of the program.
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        words: Vec<String>,
    },
    /// Print the help of a command or a topic.
    Help {
        /// Command, or a topic: connection, exit-codes.
        #[arg(value_name = "COMMAND|TOPIC")]
        words: Vec<String>,
    },
    /// Print the version.
    Version,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_parser_of_the_host_agent_agrees_with_the_whole_command_line() {
        let lines = [
            "host run",
            "host run --data /d --driver none --metadata 127.0.0.1:80 --metadata 127.0.0.2:80 --health 127.0.0.1:81",
            "host run --config f --guests-by mark --plain-names --output json --libvirt-socket=/s",
        ];
        for line in lines {
            let words: Vec<OsString> = ["forewarn"].into_iter().chain(line.split(' ')).map(Into::into).collect();
            let whole = Args::try_parse_from(&words).expect(line);
            assert_eq!(format!("{:?}", parse_host_run(&words).expect(line)), format!("{whole:?}"));
        }
        for line in ["host run --help", "host run --no-such-option", "host list", "host doctor", "serve", ""] {
            let words: Vec<OsString> = ["forewarn"].into_iter().chain(line.split(' ')).map(Into::into).collect();
            assert!(parse_host_run(&words).is_none(), "{line}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        command_line().debug_assert();
        complete_command_line().debug_assert();
    }

    #[test]
    fn every_command_and_argument_has_help_and_every_command_has_examples() {
        let mut command = command_line();
        command.build();
        command.get_subcommands().for_each(check_help);
    }

    #[test]
    fn the_option_group_has_one_meaning() {
        let mut command = command_line();
        command.build();
        let mut found = Vec::new();
        find_group_options(&command, &mut found);
        let set = |command: &str| (format!("forewarn {command}"), "set".to_owned());
        assert_eq!(found, ["maintenance start", "rollout start", "rollout retry", "operation list"].map(set));
    }

    /// The commands that accept `--group`, with the option that it stands for.
    fn find_group_options(command: &clap::Command, found: &mut Vec<(String, String)>) {
        for arg in command.get_arguments() {
            let aliases = arg.get_all_aliases().unwrap_or_default();
            let long = arg.get_long().unwrap_or_default();
            if long == "group" || aliases.contains(&"group") {
                found.push((command.get_bin_name().unwrap_or_default().to_owned(), long.to_owned()));
            }
        }
        command.get_subcommands().for_each(|command| find_group_options(command, found));
    }

    fn check_help(command: &clap::Command) {
        let name = command.get_bin_name().unwrap_or_default();
        assert!(command.get_about().is_some(), "{name}");
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(command.is_hide_set() || after.starts_with("Examples:\n"), "{name} has no examples");
        for arg in command.get_arguments() {
            assert!(arg.get_help().is_some(), "{name} {arg}");
        }
        command.get_subcommands().for_each(check_help);
    }

    #[test]
    fn connection_options_are_listed_by_the_root_and_not_by_its_commands() {
        let help = |words: &[&str]| {
            let words = ["forewarn"].iter().chain(words).chain(&["--help"]);
            command_line().try_get_matches_from(words).unwrap_err().to_string()
        };
        for option in ["--server", "--data", "--token", "--output"] {
            assert!(help(&[]).contains(option), "{option}");
            assert!(find_topic("connection").unwrap().contains(option), "{option}");
            assert!(!help(&["vm", "restart"]).contains(option), "{option}");
        }
    }
}
