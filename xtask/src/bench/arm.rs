//! Large scale sets through the ARM API: the cost of listing and showing per instance, and the commits of a scale-in.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Built;
use super::approve::pin_ourselves;
use super::client::{Client, Reply, metric};
use super::process::BenchServer;
use super::table::{Table, Target, median, short};

const SMALL: usize = 100;
/// The largest allowed set.
const LARGE: usize = 10_000;

const ROUNDS: usize = 7;
/// Repetitions: listing a hundred instances once is too fast to measure.
const SMALL_LISTS: usize = 20;
const SHOWN: usize = 500;

const LEAVING: usize = 1_000;
/// A few commits for the request, a few for the batched reports of the driver.
const COMMITS_MAX: f64 = 10.0;

/// Time limit for a scale-in.
const SCALE_IN_MAX: Duration = Duration::from_secs(60);

/// Metric: scheduled events that have not started.
const SCHEDULED: &str = "forewarn_events{state=\"scheduled\"}";

const GROUP: &str = "/subscriptions/s/resourceGroups/rg";

pub fn run(built: &Built) -> Result<Table> {
    let (few_instances, many_instances, leaving) = built.pick((SMALL, LARGE, LEAVING), (10, 100, 10));
    pin_ourselves()?;
    let mut small = ScaleSetServer::start(built, "arm-small", few_instances)?;
    let mut large = ScaleSetServer::start(built, "arm-large", many_instances)?;
    let mut figures: Vec<[f64; 6]> = Vec::new();
    for round in built.pick(0..=ROUNDS, 1..=1) {
        let (few, many) = if round % 2 == 0 {
            let few = small.measure(SMALL_LISTS)?;
            (few, large.measure(1)?)
        } else {
            let many = large.measure(1)?;
            (small.measure(SMALL_LISTS)?, many)
        };
        let figure = [few.list_us, many.list_us, few.show_us, many.show_us, few.view_us, many.view_us];
        eprintln!("   round {round}  {}", figure.map(short).join("  "));
        // The first round is a warm-up.
        if round > 0 {
            figures.push(figure);
        }
    }
    let column = |n: usize| median(figures.iter().map(|figure| figure[n]).collect());
    let ratio = |n: usize| median(figures.iter().map(|figure| figure[n + 1] / figure[n]).collect());
    let mut table = Table::new("Scale sets of 100 and of 10,000 instances, through the ARM-shaped API");
    for (n, name, what) in [
        (0, "arm_list_ratio", "list, per instance"),
        (2, "arm_show_ratio", "show one instance"),
        (4, "arm_view_ratio", "instance view of the set, per instance"),
    ] {
        table.tell(&format!("{what}, 100, µs"), short(column(n)));
        table.tell(&format!("{what}, 10,000, µs"), short(column(n + 1)));
        table.judge(name, &format!("{what}, 10,000 : 100"), ratio(n), " x", Target::AtMost(2.0));
    }
    let (commits, secs) = large.scale_in(many_instances - leaving, leaving)?;
    let label = "commits for a scale-in by 1,000, without notice";
    table.judge("arm_scale_in_commits", label, commits, "", Target::AtMost(COMMITS_MAX));
    table.tell("duration, s", short(secs));
    ensure!(large.list()? == many_instances - leaving, "some instances were not deleted");
    large.announce()?;
    let (commits, secs) = large.scale_in(many_instances - 2 * leaving, leaving)?;
    ensure!(large.is_announced(leaving)?, "some instances got no event");
    let label = "commits for a scale-in by 1,000, one Terminate each";
    table.judge("arm_terminate_commits", label, commits, "", Target::AtMost(COMMITS_MAX));
    table.tell("duration until all were announced, s", short(secs));
    Ok(table)
}

/// A server with one scale set.
struct ScaleSetServer {
    server: BenchServer,
    client: Client,
    size: usize,
}

/// Microseconds.
struct ListFigures {
    list_us: f64,
    show_us: f64,
    view_us: f64,
}

impl ScaleSetServer {
    fn start(built: &Built, name: &str, size: usize) -> Result<ScaleSetServer> {
        let server = BenchServer::start(built, &built.scratch(name)?)?;
        let client = Client::new(&server.management)?;
        let mut fleet = ScaleSetServer { server, client, size };
        fleet.send("PUT", GROUP, &json!({ "location": "x" }))?;
        fleet.send(
            "PUT",
            &set(""),
            &json!({
                "location": "x",
                "sku": { "name": "Standard_D2s_v5", "capacity": size },
                "properties": {
                    "orchestrationMode": "Uniform",
                    "singlePlacementGroup": false,
                    "upgradePolicy": { "mode": "Automatic" },
                    "virtualMachineProfile": { "osProfile": { "computerNamePrefix": "ss" } },
                },
            }),
        )?;
        fleet.list_all()?;
        Ok(fleet)
    }

    fn measure(&mut self, lists: usize) -> Result<ListFigures> {
        let (size, items) = (self.size, (self.size * lists) as f64);
        let list = timed(lists, |_| self.list_all())?;
        let show = timed(SHOWN, |n| self.ok(&set(&format!("/virtualMachines/{}", n % size))).map(drop))?;
        let view = timed(lists, |_| self.ok(&set("/instanceView")).map(drop))?;
        Ok(ListFigures { list_us: list / items, show_us: show / SHOWN as f64, view_us: view / items })
    }

    fn list_all(&mut self) -> Result<()> {
        let count = self.list()?;
        ensure!(count == self.size, "{count} instances instead of {}", self.size);
        Ok(())
    }

    /// Reads all pages and returns the number of instances.
    fn list(&mut self) -> Result<usize> {
        let (mut path, mut count) = (versioned(&set("/virtualMachines")), 0);
        loop {
            let page: Value = serde_json::from_str(&self.get(&path)?.body)?;
            count += page["value"].as_array().context("no list")?.len();
            let Some(next) = page["nextLink"].as_str() else { return Ok(count) };
            path = next.trim_start_matches(&format!("http://{}", self.server.management)).to_owned();
        }
    }

    /// Turns on terminate notification and polls as one instance, which is enough for the whole set.
    fn announce(&mut self) -> Result<()> {
        let profile = json!({ "terminateNotificationProfile": { "enable": true, "notBeforeTimeout": "PT15M" } });
        let change = json!({ "properties": { "virtualMachineProfile": { "scheduledEventsProfile": profile } } });
        self.send("PATCH", &set(""), &change)?;
        let mut guest = Client::new(&self.server.metadata)?;
        let path = "/vm/ss_0/metadata/scheduledevents?api-version=2020-07-01";
        let reply = guest.get(path, "Metadata: true\r\n")?;
        ensure!(reply.status == 200, "the first instance cannot poll: {}", reply.body);
        Ok(())
    }

    /// Commits and seconds until the instances were deleted or had an event.
    fn scale_in(&mut self, capacity: usize, leaving: usize) -> Result<(f64, f64)> {
        let before = self.commits()?;
        let begun = Instant::now();
        self.send("PATCH", &set(""), &json!({ "sku": { "capacity": capacity } }))?;
        while !self.is_announced(leaving)? {
            let body: Value = serde_json::from_str(&self.ok(&set(""))?.body)?;
            if body["properties"]["provisioningState"] == "Succeeded" {
                break;
            }
            ensure!(begun.elapsed() < SCALE_IN_MAX, "the set is not at {capacity}: {body}");
        }
        let secs = begun.elapsed().as_secs_f64();
        Ok((self.commits()? - before, secs))
    }

    fn commits(&self) -> Result<f64> {
        metric(&self.server.management, "forewarn_commits_total")
    }

    fn is_announced(&self, leaving: usize) -> Result<bool> {
        Ok(metric(&self.server.management, SCHEDULED)? >= leaving as f64)
    }

    fn ok(&mut self, path: &str) -> Result<Reply> {
        self.get(&versioned(path))
    }

    fn get(&mut self, path: &str) -> Result<Reply> {
        let reply = self.client.get(path, "")?;
        ensure!(reply.status == 200, "GET {path}: {} {}", reply.status, reply.body);
        Ok(reply)
    }

    fn send(&mut self, method: &str, path: &str, body: &Value) -> Result<()> {
        self.client.send(method, &versioned(path), "Content-Type: application/json\r\n", &body.to_string())?;
        let reply = self.client.receive()?;
        ensure!(reply.status < 300, "{method} {path}: {} {}", reply.status, reply.body);
        Ok(())
    }
}

fn set(below: &str) -> String {
    format!("{GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets/ss{below}")
}

fn versioned(path: &str) -> String {
    format!("{path}?api-version=2024-11-01")
}

/// Total duration of all repetitions, in microseconds.
fn timed(times: usize, mut act: impl FnMut(usize) -> Result<()>) -> Result<f64> {
    let begun = Instant::now();
    (0..times).try_for_each(&mut act)?;
    Ok(begun.elapsed().as_secs_f64() * 1e6)
}
