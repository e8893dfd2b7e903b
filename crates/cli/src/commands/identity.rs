//! `forewarn vm identity`: manages the identities with which machines get tokens for the management API.

use forewarn_api_types::{Identity, NewIdentity};

use super::single_line;
use crate::args::{IdentityCommand, Output, ResourceName};
use crate::client::{Api, Call};
use crate::failure::Failure;
use crate::output::{self, Cell, TableRow};

pub fn run(api: &Api, command: &IdentityCommand, output: Output) -> Result<(), Failure> {
    match command {
        IdentityCommand::Show(vm) => output::print_one(&api.get(&identity(vm))?, output, facts),
        IdentityCommand::Assign { vm, role } => {
            let value = api.put(&identity(vm), &NewIdentity { role: Some(*role) })?;
            output::print_one(&value, output, |given: &Identity| {
                single_line(format!("Assigned an identity with the role {} to {}", given.role, vm.name()))
            })
        }
        IdentityCommand::Remove(vm) => {
            api.delete(&identity(vm))?;
            output::print_line(&output::escape(&format!("Removed the identity of {}", vm.name())))
        }
    }
}

fn identity(vm: &ResourceName) -> Call {
    Call::api(&["machines", &vm.segment(), "identity"])
}

fn facts(identity: &Identity) -> Vec<String> {
    output::format_fields(&[
        ("principal id", identity.principal_id.clone()),
        ("tenant id", identity.tenant_id.clone()),
        ("role", identity.role.to_string()),
    ])
}

impl TableRow for Identity {
    const HEADER: &'static [&'static str] = &["PRINCIPAL ID", "TENANT ID", "ROLE"];
    const EMPTY: &'static str = "There is no identity.";

    fn cells(&self) -> Vec<Cell> {
        vec![Cell::new(&self.principal_id), Cell::new(&self.tenant_id), Cell::new(self.role.as_str())]
    }
}
