//! The overview of the portal in a real browser: 3,000 machines on 150 hosts with 500 events in 12 operations, compared with a
//! fleet of 50 and with reloading the page; and the preview of a rollout over all hosts. Chromium shares its core only with
//! this program.

use anyhow::{Context, Result};
use serde_json::Value;

use super::approve::pin_ourselves;
use super::process::BenchServer;
use super::table::{Table, Target, short};
use super::{Built, path};
use crate::accept::portal;
use crate::sh;

pub fn run(built: &Built) -> Result<Table> {
    let modules = portal::modules()?;
    let large = BenchServer::start(built, &built.scratch("portal-large")?)?;
    let small = BenchServer::start(built, &built.scratch("portal-small")?)?;
    pin_ourselves()?;
    let mut words = vec!["xtask/src/bench/portal/measure.mjs".to_owned(), path(&modules)?.to_owned()];
    for server in [&large, &small] {
        words.extend([server.management.clone(), server.metadata.clone(), server.process.id().to_string()]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut node = sh::program("node").args(&words);
    node.env("FOREWARN_BENCH_SMOKE", built.pick("", "1"));
    let said = node.read()?;
    let figures: Value = serde_json::from_str(said.lines().last().context("nothing was measured")?)?;
    tabulate(&figures)
}

fn tabulate(figures: &Value) -> Result<Table> {
    let figure = |fleet: &str, name: &str| -> Result<f64> {
        figures[fleet][name].as_f64().with_context(|| format!("no {name} of the {fleet} fleet"))
    };
    let (large, small) = (|name: &str| figure("large", name), |name: &str| figure("small", name));
    let mut table = Table::new(
        "The portal's overview: 3,000 machines on 150 hosts, 500 events in 12 operations, against 50 machines",
    );
    for (fleet, name) in [("large", "large fleet"), ("small", "small fleet")] {
        let count = |what: &str| figure(fleet, what);
        let text =
            format!("{} machines in {} groups, {} events", count("machines")?, count("groups")?, count("events")?);
        table.tell(name, text);
    }
    for (name, what, target) in [
        ("paint", "first view: to the first contentful paint, ms", Some(1.2)),
        ("complete", "first view: until the document is complete, ms", None),
        ("bytes", "first view: bytes of the page, as sent", None),
        ("elements", "first view: elements", None),
        ("scrolled", "from the top to the last group, drawn, ms", None),
        ("median", "from the API's answer to the lane on the page, median of 30, ms", None),
        ("worst", "the same, worst of 30, ms", None),
        ("bytes_update", "bytes of an update", None),
    ] {
        let (many, few) = (large(name)?, small(name)?);
        table.tell(&format!("{what}, large"), short(many));
        table.tell(&format!("{what}, small"), short(few));
        if let Some(most) = target {
            table.judge(
                &format!("portal_{name}_ratio"),
                &format!("{what}, large : small"),
                many / few.max(1.0),
                " x",
                Target::AtMost(most),
            );
        }
    }
    let kilobytes = large("bytes")? / 1e3;
    table.judge("portal_page_kb", "bytes of the page, large", kilobytes, " kB", Target::AtMost(60.0));
    let label = "from the API response to the timeline, worst, large";
    table.judge("portal_update_ms", label, large("worst")?, " ms", Target::AtMost(150.0));
    let label = "preview of a rollout over 150 hosts, median of 9";
    table.judge("portal_preview_ms", label, large("preview")?, " ms", Target::AtMost(200.0));
    let (update, page) = (large("bytes_update")?, large("bytes")?);
    table.judge("portal_update_bytes_ratio", "bytes, an update : the page", update / page, " x", Target::AtMost(0.1));
    table.tell("reload until the page is live, large, ms", short(large("reload")?));
    let drawing = large("cpu")? - large("unwatched")?;
    table.tell("CPU time of the server for an event without viewers, ms", short(large("unwatched")?));
    table.tell("the same with one viewer, ms", short(large("cpu")?));
    let label = "CPU time of the server, an update of one viewer";
    table.judge("portal_update_cpu_ms", label, drawing, " ms", Target::AtMost(5.0));
    Ok(table)
}
