//! The overview of the portal in a real browser: 5,000 machines in 200 scopes with 300 events, compared with a small fleet
//! and with reloading the page. Chromium shares its core only with this program.

use anyhow::{Context, Result};
use serde_json::Value;

use super::approve::pin_ourselves;
use super::process::Server;
use super::table::{Table, Target, short};
use super::{Built, path};
use crate::accept::portal;
use crate::sh;

pub fn run(built: &Built) -> Result<()> {
    let modules = portal::modules()?;
    let large = Server::start(built, &built.scratch("portal-large")?)?;
    let small = Server::start(built, &built.scratch("portal-small")?)?;
    pin_ourselves()?;
    let mut words = vec!["xtask/src/bench/portal/measure.mjs".to_owned(), path(&modules)?.to_owned()];
    for server in [&large, &small] {
        words.extend([server.management.clone(), server.metadata.clone(), server.process.id().to_string()]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = sh::program("node").args(&words).read()?;
    let figures: Value = serde_json::from_str(said.lines().last().context("nothing was measured")?)?;
    print(&figures)
}

fn print(figures: &Value) -> Result<()> {
    let figure = |fleet: &str, name: &str| -> Result<f64> {
        figures[fleet][name].as_f64().with_context(|| format!("no {name} of the {fleet} fleet"))
    };
    let (large, small) = (|name: &str| figure("large", name), |name: &str| figure("small", name));
    let mut table =
        Table::new("The portal's overview: 5,000 machines in 200 scopes with 300 events, against a small fleet");
    table.tell("large fleet", format!("{} machines, {} scopes", large("machines")?, large("scopes")?));
    table.tell("small fleet", format!("{} machines, {} scopes", small("machines")?, small("scopes")?));
    for (name, what, target) in [
        ("paint", "first view: to the first contentful paint, ms", Some(2.0)),
        ("complete", "first view: until the document is complete, ms", Some(2.0)),
        ("bytes", "first view: bytes of the page", None),
        ("elements", "first view: elements", None),
        ("scrolled", "from the top to the last scope, drawn, ms", None),
        ("median", "from the API's answer to the lane on the page, median of 30, ms", None),
        ("worst", "the same, worst of 30, ms", None),
        ("bytes_update", "bytes of an update", None),
    ] {
        let (many, few) = (large(name)?, small(name)?);
        table.tell(&format!("{what}, large"), short(many));
        table.tell(&format!("{what}, small"), short(few));
        if let Some(most) = target {
            table.judge(&format!("{what}, large : small"), many / few.max(1.0), " x", Target::AtMost(most));
        }
    }
    table.judge("from the API response to the timeline, median, large", large("median")?, " ms", Target::AtMost(250.0));
    let (update, page) = (large("bytes_update")?, large("bytes")?);
    table.judge("bytes, an update : the page", update / page, " x", Target::AtMost(0.1));
    table.tell("reload until the page is live, large, ms", short(large("reload")?));
    let drawing = large("cpu")? - large("unwatched")?;
    table.tell("CPU time of the server for an event without viewers, ms", short(large("unwatched")?));
    table.tell("the same with one viewer, ms", short(large("cpu")?));
    table.judge("CPU time of the server, an update of one viewer", drawing, " ms", Target::AtMost(5.0));
    table.print();
    Ok(())
}
