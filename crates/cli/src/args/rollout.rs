//! Arguments of `forewarn rollout`.

use clap::Subcommand;
use forewarn_api_client::moment::{self, Moment};
use forewarn_api_types::{MaintenanceWindow, RolloutType};
use forewarn_config::parse;

#[derive(Debug, Subcommand)]
pub enum RolloutCommand {
    /// Start maintenance in steps over hosts, the update domains of groups, or machines.
    Start(Box<RolloutArgs>),
    /// List rollouts, newest first.
    List,
    /// Show a rollout and its steps.
    Show(RolloutId),
    /// Pause a rollout: scheduled and started events finish, and no further step starts.
    Pause {
        #[command(flatten)]
        rollout: RolloutId,
        /// Cancel scheduled events; they are announced again when the rollout is resumed.
        #[arg(long)]
        now: bool,
    },
    /// Continue a paused rollout.
    Resume(RolloutId),
    /// Retry failed steps of a rollout after its pending steps [default: all failed steps].
    Retry {
        #[command(flatten)]
        rollout: RolloutId,
        #[command(flatten)]
        steps: RetryArgs,
    },
    /// Stop a rollout: scheduled events are canceled, started events finish.
    Stop(RolloutId),
    /// Watch a rollout until it has finished.
    Watch(RolloutId),
}

#[derive(Debug, clap::Args)]
pub struct RolloutId {
    /// Rollout ID, or the first characters of it.
    #[arg(value_name = "ID")]
    pub id: String,
}

#[derive(Debug, clap::Args)]
pub struct RetryArgs {
    /// Hosts whose step failed; repeatable.
    #[arg(long, value_name = "NAME", num_args = 1.., conflicts_with_all = ["vm", "set", "update_domain"])]
    pub host: Vec<String>,
    /// Machines whose step failed: NAME, GROUP/NAME or vmId; repeatable.
    #[arg(long, value_name = "NAME", num_args = 1.., conflicts_with_all = ["set", "update_domain"])]
    pub vm: Vec<String>,
    /// Availability set, cloud service or scale set of the update domains.
    #[arg(long, value_name = "NAME", alias = "group", requires = "update_domain")]
    pub set: Option<String>,
    /// Update domains whose step failed; repeatable.
    #[arg(long, value_name = "N", num_args = 1.., value_parser = parse::count)]
    pub update_domain: Vec<u32>,
}

#[derive(Debug, clap::Args)]
pub struct RolloutArgs {
    #[command(flatten)]
    pub targets: RolloutTargetArgs,
    /// Maintenance of each step.
    #[arg(long = "type", value_name = "TYPE", value_parser = parse::word::<RolloutType>())]
    pub kind: RolloutType,
    /// Time to start the first step, such as '2026-07-28 22:00:00' or +2h [default: after the notice period].
    #[arg(long, value_name = "TIME", value_parser = moment::parse_future)]
    pub at: Option<Moment>,
    /// Maximum number of steps in progress; a drained host counts until it is activated [default: 1].
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub parallel: Option<u32>,
    /// Pause between the end of a step and the start of the next, such as 10m [default: none].
    #[arg(long, value_name = "DURATION", value_parser = parse::whole_seconds)]
    pub pause: Option<u64>,
    /// Maintenance window: [DAYS] START-END [ZONE], such as 'Sat,Sun 22:00-04:00 Europe/Berlin', in UTC if ZONE is omitted; repeatable.
    #[arg(long, value_name = "WINDOW", value_parser = MaintenanceWindow::parse)]
    pub window: Vec<MaintenanceWindow>,
    /// Maximum number of unavailable machines in each group [default: the size of its largest update domain].
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub max_unavailable: Option<u32>,
    /// Number of failed machines to tolerate [default: 0].
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub max_failures: Option<u32>,
    /// Notice period, at least the minimum of the event type; such as 1h.
    #[arg(long, value_name = "DURATION", value_parser = parse::whole_seconds)]
    pub notice: Option<u64>,
    /// Description or ticket that machines see.
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// Drain: pool to which machines move [default: the pool of each host].
    #[arg(long, value_name = "POOL")]
    pub to: Option<String>,
    /// Drain: maximum number of machines of a host that move at a time [default: 1].
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub machines_parallel: Option<u32>,
    /// Drain: restart machines that cannot move while they run, instead of moving them.
    #[arg(long)]
    pub wait_in_place: bool,
    /// Show the expected steps and times without starting the rollout.
    #[arg(long)]
    pub dry_run: bool,
    /// Return immediately instead of watching the rollout until it has finished.
    #[arg(long)]
    pub no_wait: bool,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct RolloutTargetArgs {
    /// Hosts, in order; repeatable.
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub host: Vec<String>,
    /// All hosts with this label.
    #[arg(long, value_name = "KEY=VALUE")]
    pub label: Option<String>,
    /// Availability sets, cloud services or scale sets, each by update domain; repeatable.
    #[arg(long, value_name = "NAME", num_args = 1.., alias = "group")]
    pub set: Vec<String>,
    /// Machines, in order: NAME, GROUP/NAME or vmId; repeatable.
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub vm: Vec<String>,
}
