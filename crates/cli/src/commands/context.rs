//! `forewarn context`: lists, selects and deletes contexts.

use forewarn_connect::{Context, Contexts};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::args::ContextCommand;
use crate::failure::Failure;
use crate::output::{self, Cell, TableRow};

pub fn run(command: &ContextCommand) -> Result<(), Failure> {
    let mut contexts = Contexts::load()?;
    match command {
        ContextCommand::List { output } => output::print_list::<ContextRow>(&rows(&contexts), *output),
        ContextCommand::Use { name } => {
            require(&contexts, name)?;
            contexts.current = Some(name.clone());
            contexts.save()?;
            output::print_line(&output::escape(&format!("Using context {name}")))
        }
        ContextCommand::Delete { name } => {
            require(&contexts, name)?;
            contexts.remove(name);
            contexts.save()?;
            output::print_line(&output::escape(&format!("Deleted context {name}")))
        }
    }
}

/// The shown part of a context; never its token.
#[derive(Serialize, Deserialize)]
struct ContextRow {
    current: bool,
    name: String,
    server: String,
    authority: String,
}

fn rows(contexts: &Contexts) -> Vec<Value> {
    let row = |context: &Context| ContextRow {
        current: contexts.current.as_deref() == Some(&context.name),
        name: context.name.clone(),
        server: context.server.clone(),
        authority: if context.authority.is_some() { "own" } else { "system" }.to_owned(),
    };
    contexts.contexts.iter().map(|context| output::to_value(&row(context))).collect()
}

impl TableRow for ContextRow {
    const HEADER: &'static [&'static str] = &["CURRENT", "NAME", "SERVER", "AUTHORITY"];
    const EMPTY: &'static str = "There are no contexts. Create one with `forewarn login URL`.";

    fn cells(&self) -> Vec<Cell> {
        let mark = if self.current { "*" } else { "" };
        vec![Cell::new(mark), Cell::new(&self.name), Cell::new(&self.server), Cell::new(&self.authority)]
    }
}

fn require(contexts: &Contexts, name: &str) -> Result<(), Failure> {
    if contexts.find(name).is_some() {
        return Ok(());
    }
    let names: Vec<&str> = contexts.contexts.iter().map(|context| context.name.as_str()).collect();
    let known = match names.is_empty() {
        true => "no contexts exist; create one with `forewarn login URL`".into(),
        false => format!("use one of {}", names.join(", ")),
    };
    Err(Failure::Usage(format!("unknown context '{name}': {known}")))
}
