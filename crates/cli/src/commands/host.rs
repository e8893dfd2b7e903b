//! `forewarn host`: manages hosts.

use forewarn_api_types::{EmptyBody, Host};

use super::single_line;
use super::vm::fail;
use crate::args::{HostCommand, HostName, Output};
use crate::client::{Api, Call};
use crate::failure::Failure;
use crate::output::{self, Cell, TableRow};

pub fn run(api: &Api, command: &HostCommand, output: Output) -> Result<(), Failure> {
    match command {
        HostCommand::List => output::print_list::<Host>(&api.list(Call::api(&["hosts"]))?, output),
        HostCommand::Show(host) => output::print_one(&api.get(&one(host))?, output, |host: &Host| {
            output::format_fields(&[("name", host.name.clone()), ("machines", host.machines.join(", "))])
        }),
        HostCommand::Create(host) => output::print_one(&api.put(&one(host), &EmptyBody {})?, output, |host: &Host| {
            single_line(format!("Created host {}", host.name))
        }),
        HostCommand::Delete(host) => {
            api.delete(&one(host))?;
            output::print_stderr(&output::escape(&format!("Deleted host {}", host.name())));
            Ok(())
        }
        HostCommand::Fail { host, failure } => {
            fail(api, &Call::api(&["hosts", host.name(), "hardware-failure"]), failure, output)
        }
    }
}

fn one(host: &HostName) -> Call {
    Call::api(&["hosts", host.name()])
}

impl TableRow for Host {
    const HEADER: &'static [&'static str] = &["NAME", "COUNT", "MACHINES"];
    const EMPTY: &'static str = "There are no hosts.";

    fn cells(&self) -> Vec<Cell> {
        vec![Cell::new(&self.name), Cell::new(self.machines.len().to_string()), Cell::new(self.machines.join(", "))]
    }
}
