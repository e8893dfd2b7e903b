//! The examples in the help of every command. A test parses each of them.

use clap::Command;

/// Examples of one command: a comment and the arguments of `forewarn`.
type Examples = &'static [(&'static str, &'static str)];

/// Adds the examples, and a pointer to the help topics, to every command below the root.
pub fn add_to(root: Command) -> Command {
    root.mut_subcommands(|command| add_below("", command))
}

fn add_below(parent: &str, command: Command) -> Command {
    let path =
        if parent.is_empty() { command.get_name().to_owned() } else { format!("{parent} {}", command.get_name()) };
    let text = EXAMPLES.iter().find(|(name, _)| *name == path).map(|(path, examples)| render(path, examples));
    let command = command.mut_subcommands(|below| add_below(&path, below));
    match text {
        Some(text) => command.after_help(text),
        None => command,
    }
}

fn render(path: &str, examples: Examples) -> String {
    let group = path.split(' ').next().unwrap_or_default();
    let see_also = if WITHOUT_CONNECTION.contains(&group) { SEE_EXIT_CODES } else { SEE_BOTH };
    let lines = examples.iter().map(|(comment, arguments)| format!("  # {comment}\n  forewarn {arguments}\n"));
    format!("Examples:\n{}\n{see_also}", lines.collect::<Vec<_>>().join("\n"))
}

/// Commands that do not take the connection options.
const WITHOUT_CONNECTION: [&str; 13] = [
    "serve",
    "login",
    "context",
    "run",
    "check",
    "token",
    "backup",
    "restore",
    "export",
    "import",
    "completions",
    "help",
    "version",
];

const SEE_BOTH: &str =
    "See `forewarn help connection` for global options and `forewarn help exit-codes` for exit codes.";
const SEE_EXIT_CODES: &str = "See `forewarn help exit-codes` for exit codes.";

#[rustfmt::skip]
const EXAMPLES: &[(&str, Examples)] = &[
    ("serve", &[("Run a server with the default configuration", "serve"), ("Run a temporary server with a manual clock", "serve --memory --no-auth --clock manual"), ("Turn 15 minutes of notice into 15 seconds", "serve --notice-scale 60")]),
    ("run", &[("Run a handler as machine web_0", "run --vm web_0 -- ./handler"), ("Run a handler with a scheduled Reboot", "run --schedule Reboot --notice-scale 60 -- ./handler"), ("Run a handler as a machine of an existing server", "run --vm web_0 --server http://127.0.0.1:8170 -- ./handler")]),
    ("login", &[("Log in; prompts for the token and, the first time, for trust in the server", "login https://forewarn.example:8171"), ("Log in from a script", "login https://forewarn.example:8171 --fingerprint 5F:07:A1 --token TOKEN")]),
    ("context", &[("List contexts", "context list"), ("Use another server", "context use build")]),
    ("context list", &[("List contexts", "context list")]),
    ("context use", &[("Use another server", "context use build")]),
    ("context delete", &[("Delete a context and its token", "context delete build")]),
    ("ca fingerprint", &[("Print the fingerprint of the server's authority", "ca fingerprint")]),
    ("cluster", &[("Show the nodes of a cluster", "cluster status"), ("Create a region from a single server", "cluster init --from /var/lib/forewarn --cluster etcd://a,b,c/north")]),
    ("cluster status", &[("Show the nodes and etcd", "cluster status"), ("Print the status for scripts, with the name of the leader", "cluster status -o json")]),
    ("cluster apply-rules", &[("Apply changed settings to the region", "cluster apply-rules")]),
    ("cluster step-down", &[("Hand over the leadership before maintenance", "cluster step-down")]),
    ("cluster remove", &[("Remove a node that was destroyed", "cluster remove n3")]),
    ("cluster key", &[("Create a key, to be copied to every server", "cluster key /etc/forewarn/cluster.key")]),
    ("cluster init", &[("Turn the data of a single server into a region", "cluster init --from /var/lib/forewarn --cluster etcd://a,b,c/north")]),
    ("health", &[("Check the server on this computer", "health")]),
    ("portal", &[("Open the portal", "portal"), ("Print a sign-in link", "portal --print")]),
    ("watch", &[("Open the live view", "watch"), ("Print changes as JSON, one object per line", "watch -o json")]),
    ("events", &[("List open events", "events list"), ("Approve an event", "events approve 602D9444-D2CD-49C7-8624-8643E7171297")]),
    ("events list", &[("List open events", "events list"), ("List open and recent events of a machine", "events list --all --vm web_0")]),
    ("events show", &[("Show an event", "events show 602D9444-D2CD-49C7-8624-8643E7171297")]),
    ("events watch", &[("Open the live view", "events watch"), ("Print one line per change", "events watch --lines")]),
    ("events wait", &[("Wait up to a minute until a handler approves a Reboot", "events wait --status approved --vm web_0 --type Reboot --timeout 1m"), ("Wait until an event has finished", "events wait --status gone --event 602D9444-D2CD-49C7-8624-8643E7171297")]),
    ("events approve", &[("Approve an event", "events approve 602D9444-D2CD-49C7-8624-8643E7171297")]),
    ("events cancel", &[("Cancel an event", "events cancel 602D9444-D2CD-49C7-8624-8643E7171297")]),
    ("maintenance", &[("Freeze a machine for maintenance", "maintenance start --vm web_0")]),
    ("maintenance start", &[("Freeze a machine after the minimum notice period", "maintenance start --vm web_0"), ("Reboot a scale set, one update domain at a time", "maintenance start --set web --type Reboot"), ("Redeploy the machines of a host with two hours of notice", "maintenance start --host h1 --type Redeploy --notice 2h --no-wait")]),
    ("rollout", &[("Reboot two hosts, one after the other", "rollout start --host h1 h2 --type Reboot"), ("List rollouts", "rollout list")]),
    ("rollout start", &[("Show the expected steps and times of a rollout", "rollout start --host h1 h2 --type Reboot --dry-run"), ("Drain all hosts of a rack at night, two at a time; activate each one when it is maintained", "rollout start --label rack=7 --type Drain --parallel 2 --window 22:00-05:00 --no-wait"), ("Redeploy two machines, one after the other, starting in two hours", "rollout start --vm db1 db2 --type Redeploy --at +2h --no-wait"), ("Reboot a scale set by update domain, with a pause of ten minutes", "rollout start --set web --type Reboot --pause 10m")]),
    ("rollout list", &[("List rollouts", "rollout list")]),
    ("rollout show", &[("Show a rollout and its steps", "rollout show 6f1d02c4")]),
    ("rollout pause", &[("Let scheduled events finish and start no more", "rollout pause 6f1d02c4"), ("Cancel scheduled events too", "rollout pause 6f1d02c4 --now")]),
    ("rollout resume", &[("Continue a paused rollout", "rollout resume 6f1d02c4")]),
    ("rollout retry", &[("Retry all failed steps of a running rollout", "rollout retry 6f1d02c4"), ("Retry the steps of two hosts", "rollout retry 6f1d02c4 --host h1 h2"), ("Repeat an update domain", "rollout retry 6f1d02c4 --set web --update-domain 2")]),
    ("rollout stop", &[("Stop a rollout", "rollout stop 6f1d02c4")]),
    ("rollout watch", &[("Watch a rollout until it has finished", "rollout watch 6f1d02c4")]),
    ("vm", &[("List machines", "vm list"), ("Restart a machine", "vm restart web_0")]),
    ("vm list", &[("List all machines", "vm list"), ("List the machines of a resource group as JSON", "vm list -g shop -o json")]),
    ("vm show", &[("Show a machine", "vm show web_0"), ("Show a machine of a resource group", "vm show shop/web_0")]),
    ("vm create", &[("Create a machine with an address from the pool", "vm create web_0"), ("Create a machine with an address and terminate notification", "vm create web_0 --address 10.0.0.4 --terminate-notification-time 10"), ("Create a Spot machine on a host", "vm create web_0 --spot --host h1")]),
    ("vm update", &[("Correct the host of a machine that was moved by hand", "vm update web_0 --host h2"), ("Disable terminate notification", "vm update web_0 --enable-terminate-notification false")]),
    ("vm identity", &[("Assign an identity", "vm identity assign web_0 --role operator")]),
    ("vm identity show", &[("Show the identity of a machine", "vm identity show web_0")]),
    ("vm identity assign", &[("Assign an identity that can only read", "vm identity assign web_0"), ("Assign an identity that can approve and restart", "vm identity assign web_0 --role operator")]),
    ("vm identity remove", &[("Remove the identity of a machine", "vm identity remove web_0")]),
    ("vm requests", &[("Show recent requests", "vm requests web_0"), ("Follow requests as they arrive", "vm requests web_0 --follow")]),
    ("vm restart", &[("Restart a machine and wait until it has restarted", "vm restart web_0"), ("Schedule a restart and return", "vm restart web_0 --no-wait")]),
    ("vm redeploy", &[("Redeploy a machine", "vm redeploy web_0")]),
    ("vm perform-maintenance", &[("Perform maintenance now", "vm perform-maintenance web_0")]),
    ("vm simulate-eviction", &[("Evict a Spot machine", "vm simulate-eviction web_0")]),
    ("vm fail", &[("Simulate a hardware failure", "vm fail web_0"), ("Simulate a hardware failure that moves the machine", "vm fail web_0 --type Redeploy")]),
    ("vm delete", &[("Delete a machine", "vm delete web_0")]),
    ("vm start", &[("Start a machine", "vm start web_0")]),
    ("vm stop", &[("Stop a machine", "vm stop web_0")]),
    ("vm deallocate", &[("Stop a machine and remove it from its host", "vm deallocate web_0")]),
    ("vmss", &[("List scale sets", "vmss list"), ("Scale a set", "vmss scale web --new-capacity 5")]),
    ("vmss list", &[("List scale sets", "vmss list")]),
    ("vmss show", &[("Show a scale set", "vmss show web")]),
    ("vmss create", &[("Create a scale set with three instances", "vmss create web --instance-count 3"), ("Create a Uniform scale set with ten minutes of notice for deletions", "vmss create -g shop -n web --orchestration-mode Uniform --terminate-notification-time 10")]),
    ("vmss update", &[("Set the notice period for deletions", "vmss update web --terminate-notification-time 10")]),
    ("vmss scale", &[("Scale a set to five instances", "vmss scale web --new-capacity 5")]),
    ("vmss delete", &[("Delete a scale set", "vmss delete web")]),
    ("vmss list-instances", &[("List instances", "vmss list-instances web")]),
    ("vmss update-instances", &[("Update all instances", "vmss update-instances web"), ("Update two instances", "vmss update-instances web --instance-ids 0 1")]),
    ("vmss delete-instances", &[("Delete an instance", "vmss delete-instances web --instance-ids 2")]),
    ("vmss restart", &[("Restart all running instances", "vmss restart web"), ("Restart two instances", "vmss restart web --instance-ids 0 1")]),
    ("vmss redeploy", &[("Redeploy an instance", "vmss redeploy web --instance-ids 0")]),
    ("vmss perform-maintenance", &[("Perform maintenance of all instances now", "vmss perform-maintenance web")]),
    ("vm simulate-rebalance", &[("Recommend moving work away from a Spot machine", "vm simulate-rebalance web_0")]),
    ("vmss simulate-eviction", &[("Evict an instance", "vmss simulate-eviction web --instance-id 1")]),
    ("vmss start", &[("Start all instances", "vmss start web")]),
    ("vmss stop", &[("Stop an instance", "vmss stop web --instance-ids 1")]),
    ("vmss deallocate", &[("Stop an instance and remove it from its host", "vmss deallocate web --instance-ids 1")]),
    ("availability-set", &[("List availability sets", "availability-set list")]),
    ("availability-set list", &[("List availability sets", "availability-set list")]),
    ("availability-set show", &[("Show an availability set", "availability-set show db")]),
    ("availability-set create", &[("Create an availability set", "availability-set create db --platform-update-domain-count 5")]),
    ("availability-set update", &[("Approve restarts automatically", "availability-set update db --approve-user-reboot true")]),
    ("availability-set delete", &[("Delete an availability set and its machines", "availability-set delete db --with-machines")]),
    ("cloud-service", &[("List cloud services", "cloud-service list")]),
    ("cloud-service list", &[("List cloud services", "cloud-service list")]),
    ("cloud-service show", &[("Show a cloud service", "cloud-service show shop")]),
    ("cloud-service create", &[("Create a cloud service", "cloud-service create shop --platform-update-domain-count 5")]),
    ("cloud-service update", &[("Approve restarts automatically", "cloud-service update shop --approve-user-reboot true")]),
    ("cloud-service delete", &[("Delete a cloud service and its machines", "cloud-service delete shop --with-machines")]),
    ("host", &[("List hosts", "host list"), ("Move all machines away from a host", "host drain h1"), ("Create a token for a host agent", "host token node1")]),
    ("host list", &[("List hosts", "host list")]),
    ("host show", &[("Show a host and its machines", "host show h1")]),
    ("host create", &[("Create a host", "host create h1")]),
    ("host update", &[("Set the pool and the memory of a host", "host update h1 --pool gpu --memory 65536"), ("Label a host", "host update h1 --label rack=7")]),
    ("host drain", &[("Show where the machines of a host would go", "host drain h1 --dry-run"), ("Move all machines away, two at a time", "host drain h1 --parallel 2")]),
    ("host undrain", &[("Make a drained host available again", "host undrain h1")]),
    ("host activate", &[("Make a failed host available again", "host activate h1")]),
    ("host import", &[("List the libvirt domains of a host", "host import node1"), ("Register them as machines", "host import node1 --adopt")]),
    ("host token", &[("Create a token for the host node1", "host token node1")]),
    ("host join", &[("Join a server and verify it by its fingerprint", "host join https://forewarn.example:8171 --token TOKEN --fingerprint SHA256")]),
    ("host run", &[("Run the agent with its configuration file", "host run"), ("Try the agent without machines", "host run --driver simulated --metadata 127.0.0.1:8169 --data ./node1")]),
    ("host doctor", &[("Check this host", "host doctor")]),
    ("host delete", &[("Delete a host", "host delete h1")]),
    ("host fail", &[("Simulate a host failure", "host fail h1"), ("Confirm that a host is off", "host fail h1 --fenced")]),
    ("operation", &[("List operations", "operation list"), ("Wait for an operation", "operation wait 602D9444-D2CD-49C7-8624-8643E7171297")]),
    ("operation list", &[("List operations", "operation list"), ("List operations on a host", "operation list --host h1")]),
    ("operation show", &[("Show an operation", "operation show 602D9444-D2CD-49C7-8624-8643E7171297")]),
    ("operation wait", &[("Wait for the operation of an event", "operation wait 602D9444-D2CD-49C7-8624-8643E7171297")]),
    ("operation approve", &[("Approve all events of an operation", "operation approve 602D9444-D2CD-49C7-8624-8643E7171297")]),
    ("operation cancel", &[("Cancel an operation", "operation cancel 602D9444-D2CD-49C7-8624-8643E7171297")]),
    ("fault", &[("Answer one request with 500", "fault add --status 500 --count 1")]),
    ("fault add", &[("Answer the next three requests of a machine with 429", "fault add --vm web_0 --status 429 --count 3"), ("Delay every second GET for ten minutes", "fault add --delay 2s --method GET --percent 50 --for 10m")]),
    ("fault list", &[("List faults", "fault list")]),
    ("fault show", &[("Show a fault", "fault show 3")]),
    ("fault clear", &[("Clear a fault", "fault clear 3"), ("Clear all faults", "fault clear --all")]),
    ("webhook", &[("List webhooks", "webhook list")]),
    ("webhook create", &[("Deliver all changes of events", "webhook create ops --url https://example.org/hook"), ("Deliver Terminate events of a resource group", "webhook create ops --url https://example.org/hook --type Terminate -g shop")]),
    ("webhook list", &[("List webhooks", "webhook list")]),
    ("webhook show", &[("Show a webhook", "webhook show ops")]),
    ("webhook update", &[("Disable a webhook", "webhook update ops --enabled false"), ("Replace the secret", "webhook update ops --new-secret")]),
    ("webhook delete", &[("Delete a webhook", "webhook delete ops")]),
    ("webhook test", &[("Send a test message", "webhook test ops")]),
    ("webhook undelivered", &[("List undelivered messages", "webhook undelivered ops")]),
    ("webhook resend", &[("Resend all undelivered messages", "webhook resend ops")]),
    ("history", &[("Show the newest 100 entries", "history"), ("Show the approvals of a machine since a time", "history --vm web_0 --kind approved --since 2026-07-28T10:00:00Z")]),
    ("check", &[("Check a handler", "check -- ./handler"), ("Check two cases and write a JUnit report", "check --only user-reboot --only reset --junit report.xml -- ./handler")]),
    ("scenario", &[("Run a built-in scenario", "scenario run user-reboot")]),
    ("scenario list", &[("List scenarios", "scenario list")]),
    ("scenario show", &[("Print a built-in scenario as a template for your own", "scenario show user-reboot")]),
    ("scenario run", &[("Run a built-in scenario for a machine", "scenario run user-reboot --vm web_0"), ("Run a scenario file with a real handler", "scenario run ./mine.toml --handler")]),
    ("scenario runs", &[("List runs", "scenario runs")]),
    ("scenario stop", &[("Stop a run", "scenario stop 3")]),
    ("clock", &[("Advance a manual clock", "clock advance 15m")]),
    ("clock show", &[("Show the time", "clock show")]),
    ("clock advance", &[("Advance a manual clock by 15 minutes", "clock advance 15m")]),
    ("clock set", &[("Set a manual clock to a later time", "clock set 2026-07-28T10:00:00Z")]),
    ("token", &[("Print the token", "token show")]),
    ("token show", &[("Print the token", "token show --data /var/lib/forewarn")]),
    ("token rotate", &[("Replace the token", "token rotate")]),
    ("token issue", &[("Issue a read-only token for a day", "token issue --role reader --hours 24 --name ann")]),
    ("az", &[("Run one Azure CLI command", "az -- vmss list"), ("Print the shell commands that configure az, for use with eval", "az")]),
    ("ca", &[("Print the certificate of the authority", "ca show")]),
    ("ca show", &[("Print the certificate of the authority", "ca show")]),
    ("backup", &[("Back up a running server", "backup forewarn-backup.db")]),
    ("restore", &[("Restore into a new data directory", "restore forewarn-backup.db --data /srv/forewarn")]),
    ("export", &[("Export to a file", "export backup.jsonl"), ("Export to standard output", "export -")]),
    ("import", &[("Import a file into an empty data directory", "import backup.jsonl --data /var/lib/forewarn")]),
    ("completions", &[("Print the completion script for bash", "completions bash")]),
    ("completions bash", &[("Load completions into the current shell: source <(forewarn completions bash)", "completions bash")]),
    ("completions zsh", &[("Save the output as _forewarn in a directory of $fpath", "completions zsh")]),
    ("completions fish", &[("Save the output as ~/.config/fish/completions/forewarn.fish", "completions fish")]),
    ("completions man", &[("Write the manual pages", "completions man /usr/local/share/man/man1")]),
    ("help", &[("Show the help of a command", "help vm restart"), ("Show the connection options", "help connection")]),
    ("version", &[("Print the version", "version")]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::command_line;

    #[test]
    fn every_example_is_a_valid_command_line_of_its_command() {
        for (path, examples) in EXAMPLES {
            for (_, arguments) in *examples {
                assert!(arguments.starts_with(path), "{path}: {arguments}");
                let words = ["forewarn"].into_iter().chain(arguments.split_whitespace());
                let parsed = command_line().try_get_matches_from(words);
                assert!(parsed.is_ok(), "{arguments}: {}", parsed.unwrap_err());
            }
        }
    }
}
