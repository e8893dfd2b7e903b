//! Prints the effective configuration as TOML that can be read again.

use std::fmt::Write as _;

use toml::Value;

use crate::choices::Choices;
use crate::settings::SETTINGS;

pub fn print(choices: &Choices) -> String {
    let shown: Vec<(&str, Value)> =
        SETTINGS.iter().filter_map(|each| Some((each.key, (each.show)(choices)?))).collect();
    let (lists, scalars): (Vec<_>, Vec<_>) = shown.into_iter().partition(|(_, value)| is_list_of_tables(value));
    let mut text = String::new();
    for (key, value) in scalars.iter().filter(|(key, _)| !key.contains('.')) {
        let _ = writeln!(text, "{key} = {value}");
    }
    for (key, value) in &lists {
        push_tables(&mut text, key, value);
    }
    let mut table_before = "";
    for (key, value) in &scalars {
        let Some((table, name)) = key.rsplit_once('.') else { continue };
        if table != table_before {
            let _ = writeln!(text, "\n[{table}]");
            table_before = table;
        }
        let _ = writeln!(text, "{name} = {value}");
    }
    text
}

fn is_list_of_tables(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().any(Value::is_table))
}

fn push_tables(text: &mut String, key: &str, value: &Value) {
    for table in value.as_array().into_iter().flatten().filter_map(Value::as_table) {
        let _ = writeln!(text, "\n[[{key}]]");
        for (name, value) in table {
            let _ = writeln!(text, "{name} = {value}");
        }
    }
}
