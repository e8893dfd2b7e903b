//! IDs on the command line: whole, or their first characters, as shown by a narrow list.

use forewarn_api_types::{Event, Operation};

use crate::decode::decode_all;
use crate::failure::Failure;
use crate::{Api, Call};

/// Characters of an ID; anything else is passed to the server, whose error names the right form.
const ID_CHARS: usize = 36;

/// The fewest characters that select an ID, so that a typed number is not taken for one.
const PREFIX_CHARS_MIN: usize = 4;

/// The ID of an event.
pub fn event(api: &Api, typed: &str) -> Result<String, Failure> {
    let Some(prefix) = prefix(typed) else { return Ok(typed.to_owned()) };
    let events: Vec<Event> = decode_all(&api.list(Call::api(&["events"]).with("all", Some(true)))?)?;
    select("event", &prefix, events.iter().map(|event| event.id.to_string()))
}

/// The ID of an operation, or of one of its events.
pub fn operation(api: &Api, typed: &str) -> Result<String, Failure> {
    let Some(prefix) = prefix(typed) else { return Ok(typed.to_owned()) };
    let operations: Vec<Operation> = decode_all(&api.list(Call::api(&["operations"]))?)?;
    let ids = operations.iter().flat_map(|operation| {
        let events = operation.events.iter().map(|part| part.id.to_string());
        std::iter::once(operation.id.to_string()).chain(events)
    });
    select("operation", &prefix, ids)
}

/// The typed beginning of an ID; a trailing ellipsis is part of what lists show.
fn prefix(typed: &str) -> Option<String> {
    let typed = typed.trim_end_matches('…');
    let fits = (PREFIX_CHARS_MIN..ID_CHARS).contains(&typed.len())
        && typed.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    fits.then(|| typed.to_ascii_lowercase())
}

fn select(noun: &str, prefix: &str, ids: impl Iterator<Item = String>) -> Result<String, Failure> {
    let mut found: Vec<String> = ids.filter(|id| id.to_ascii_lowercase().starts_with(prefix)).collect();
    found.sort();
    found.dedup();
    match (found.pop(), found.len()) {
        (Some(id), 0) => Ok(id),
        (Some(_), others) => {
            Err(Failure::Usage(format!("{} IDs of {noun}s begin with '{prefix}': type more characters", others + 1)))
        }
        (None, _) => Err(Failure::Refused(format!(
            "no ID of a current {noun} begins with '{prefix}': list the {noun}s, or use the whole ID"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_an_id_selects_it_if_it_is_unique() {
        let ids =
            || ["602D9444-D2CD-49C7-8624-8643E7171297".to_owned(), "602D0000-D2CD-49C7-8624-8643E7171297".to_owned()];
        let select = |typed: &str| select("event", &prefix(typed).unwrap(), ids().into_iter());
        assert_eq!(select("602d9…").unwrap(), ids()[0]);
        assert!(matches!(select("602D"), Err(Failure::Usage(text)) if text.starts_with("2 IDs of events")));
        assert!(matches!(select("abcd"), Err(Failure::Refused(_))));
    }

    #[test]
    fn whole_ids_and_other_words_are_left_to_the_server() {
        for typed in ["602D9444-D2CD-49C7-8624-8643E7171297", "602", "web_0", ""] {
            assert_eq!(prefix(typed), None, "{typed}");
        }
    }
}
