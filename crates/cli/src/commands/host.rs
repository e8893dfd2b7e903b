//! `forewarn host`.

use serde_json::json;

use super::sentence;
use super::vm::fail;
use crate::args::{HostCommand, HostName, Output};
use crate::client::{Api, Call, Host};
use crate::failure::Failure;
use crate::output::{self, Cell, Shown};

pub fn run(api: &Api, command: &HostCommand, output: Output) -> Result<(), Failure> {
    match command {
        HostCommand::List => output::list::<Host>(&api.list(Call::to(&["hosts"]))?, output),
        HostCommand::Show(host) => output::one(&api.get(&one(host))?, output, |host: &Host| {
            output::facts(&[("name", host.name.clone()), ("machines", host.machines.join(", "))])
        }),
        HostCommand::Create(host) => output::one(&api.put(&one(host), &json!({}))?, output, |host: &Host| {
            sentence(format!("Host {} is registered.", host.name))
        }),
        HostCommand::Delete(host) => {
            api.delete(&one(host))?;
            output::aside(&output::tame(&format!("Host {} is removed.", host.name())));
            Ok(())
        }
        HostCommand::Fail { host, failure } => {
            fail(api, &Call::to(&["hosts", host.name(), "hardware-failure"]), failure, output)
        }
    }
}

fn one(host: &HostName) -> Call {
    Call::to(&["hosts", host.name()])
}

impl Shown for Host {
    const HEAD: &'static [&'static str] = &["NAME", "COUNT", "MACHINES"];
    const NONE: &'static str = "There are no hosts.";

    fn row(&self) -> Vec<Cell> {
        vec![Cell::new(&self.name), Cell::new(self.machines.len().to_string()), Cell::new(self.machines.join(", "))]
    }
}
