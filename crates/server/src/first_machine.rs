//! The machine that a new region starts with: this computer.

use anyhow::{Context, anyhow};
use forewarn_access::random_guid;
use forewarn_access::tls::hostname;
use forewarn_api as api;
use forewarn_core::{Answer, Command, NewMachine, ResourceGroupRef};
use forewarn_engine::Engine;
use forewarn_metadata::FIRST_MACHINE;

/// Registers a machine in an empty store, so that the first request works.
pub async fn register_first(engine: &Engine, name: Option<String>) -> anyhow::Result<()> {
    if engine.snapshot().region.meta().next_id != 0 {
        return Ok(());
    }
    let name = name.unwrap_or_else(hostname);
    let home = ResourceGroupRef {
        subscription: api::SUBSCRIPTION_DEFAULT.into(),
        resource_group: api::RESOURCE_GROUP_DEFAULT.into(),
    };
    let machine = NewMachine::plain(random_guid(), &name, home);
    let done = engine
        .submit(Command::RegisterMachine(Box::new(machine)), None)
        .await
        .with_context(|| format!("cannot register the first machine '{name}'"))?;
    match done.answer {
        Answer::Machine(FIRST_MACHINE) => Ok(()),
        other => Err(anyhow!("the first machine has an unexpected ID: {other:?}")),
    }
}
