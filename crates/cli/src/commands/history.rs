//! `forewarn history`: lists history entries.

use forewarn_api_client::{moment, short_id};
use forewarn_api_types::{HistoryRow, Page};
use serde_json::Value;

use crate::args::{HistoryArgs, Output};
use crate::client::{Api, Call, describe_row, format_time};
use crate::decode::decode;
use crate::failure::Failure;
use crate::output::{self, Cell, TableRow};

pub fn run(api: &Api, args: &HistoryArgs) -> Result<(), Failure> {
    let kinds = (!args.kinds.is_empty()).then(|| args.kinds.join(","));
    let event = args.event.as_deref().map(|id| short_id::event(api, id)).transpose()?;
    let operation = args.operation.as_deref().map(|id| short_id::operation(api, id)).transpose()?;
    let call = Call::api(&["history"])
        .with("event", event)
        .with("operation", operation)
        .with("machine", args.vm.as_ref())
        .with("kind", kinds)
        .with("since", moment::resolve(args.since, api)?)
        .with("until", moment::resolve(args.until, api)?)
        .with("newest", Some("true"))
        .with("limit", Some(args.limit));
    let answer = api.get(&call)?;
    let Page { value: values, .. } = decode::<Page<Value>>(&answer)?;
    if values.is_empty() && is_filtered(args) && args.connection.output == Output::Table {
        return output::print_line("There are no matching entries.");
    }
    output::print_list::<HistoryRow>(&values, args.connection.output)
}

fn is_filtered(args: &HistoryArgs) -> bool {
    let names = [&args.vm, &args.event, &args.operation];
    names.iter().any(|name| name.is_some()) || !args.kinds.is_empty() || args.since.or(args.until).is_some()
}

impl TableRow for HistoryRow {
    const HEADER: &'static [&'static str] = &["TIME", "CHANGE", "MACHINES", "ACTOR", "EVENT"];
    const EMPTY: &'static str = "There is no history.";

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::new(format_time(self.at)),
            Cell::new(describe_row(self)),
            Cell::new(self.machines.join(", ")),
            Cell::new(self.actor.clone().unwrap_or_default()),
            Cell::new(self.event.map_or(String::new(), |id| id.to_string())),
        ]
    }
}
