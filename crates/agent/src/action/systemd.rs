//! Stops units of systemd, and starts them again.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::order::Order;
use super::{Turn, programs};
use crate::executable;

/// Ours: it would stop itself in the middle of the event.
const OWN: &str = "forewarn-agent";

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Systemd {
    units: Vec<String>,
    #[serde(default = "default_systemctl")]
    systemctl: String,
}

fn default_systemctl() -> String {
    "systemctl".into()
}

impl Systemd {
    pub fn check(&self) -> Result<()> {
        ensure!(!self.units.is_empty(), "it has no units");
        for unit in &self.units {
            let is_name = !unit.is_empty() && unit.bytes().all(|byte| byte.is_ascii_graphic());
            ensure!(is_name && !unit.starts_with('-'), "'{unit}' is not the name of a unit");
            ensure!(unit.strip_suffix(".service").unwrap_or(unit) != OWN, "the agent cannot stop itself");
        }
        executable::find(&self.systemctl).map(drop)
    }

    pub fn turn(&self, order: &Order) -> Result<()> {
        let verb = match Turn::of(order.phase)? {
            Turn::Out => "stop",
            Turn::Back => "start",
        };
        let units: Vec<&str> = self.units.iter().map(String::as_str).collect();
        let words = [self.systemctl.clone(), verb.into()];
        programs::run(&programs::with(&words, &units))
    }
}
