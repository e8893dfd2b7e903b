//! Stops systemd units and starts them again.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::request::ActionRequest;
use super::{Direction, programs};
use crate::executable;

/// The agent's own unit, which must not be stopped.
const OWN_UNIT: &str = "forewarn-agent";

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
        ensure!(!self.units.is_empty(), "units is empty");
        for unit in &self.units {
            let is_name = !unit.is_empty() && unit.bytes().all(|byte| byte.is_ascii_graphic());
            ensure!(is_name && !unit.starts_with('-'), "invalid unit name '{unit}'");
            ensure!(unit.strip_suffix(".service").unwrap_or(unit) != OWN_UNIT, "the agent cannot stop itself");
        }
        executable::find(&self.systemctl).map(drop)
    }

    pub fn apply(&self, request: &ActionRequest) -> Result<()> {
        let verb = match Direction::of(request.phase)? {
            Direction::Drain => "stop",
            Direction::Restore => "start",
        };
        let units: Vec<&str> = self.units.iter().map(String::as_str).collect();
        let words = [self.systemctl.clone(), verb.into()];
        programs::run(&programs::append(&words, &units))
    }
}
