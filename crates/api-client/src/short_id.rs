//! IDs on the command line: whole, or their first characters, as shown by a narrow list.

use forewarn_api_types::{Event, Operation};

use crate::decode::decode_all;
use crate::failure::Failure;
use crate::{Api, Call};

/// Characters of a whole ID, which is passed to the server.
const ID_CHARS: usize = 36;

/// The fewest characters that select an ID, so that a typed number is not taken for one.
const PREFIX_CHARS_MIN: usize = 4;

/// The ID of an event.
pub fn event(api: &Api, typed: &str) -> Result<String, Failure> {
    let Some(prefix) = prefix("event", typed)? else { return Ok(typed.to_owned()) };
    let events: Vec<Event> = decode_all(&api.list(Call::api(&["events"]).with("all", Some(true)))?)?;
    select("event", &prefix, events.iter().map(|event| event.id.to_string()))
}

/// The ID of an operation, or of one of its events.
pub fn operation(api: &Api, typed: &str) -> Result<String, Failure> {
    let Some(prefix) = prefix("operation", typed)? else { return Ok(typed.to_owned()) };
    let operations: Vec<Operation> = decode_all(&api.list(Call::api(&["operations"]))?)?;
    let ids = operations.iter().flat_map(|operation| {
        let events = operation.events.iter().map(|part| part.id.to_string());
        std::iter::once(operation.id.to_string()).chain(events)
    });
    select("operation", &prefix, ids)
}

/// The typed beginning of an ID; a trailing ellipsis is part of what lists show. None: a whole ID.
fn prefix(noun: &str, typed: &str) -> Result<Option<String>, Failure> {
    let typed = typed.trim_end_matches('…');
    let is_id = typed.len() <= ID_CHARS && typed.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    match typed.len() {
        _ if !is_id => {
            Err(Failure::Refused(format!("'{typed}' is not the ID of an {noun}: list the {noun}s to see their IDs")))
        }
        0..PREFIX_CHARS_MIN => Err(Failure::Refused(format!(
            "'{typed}' is too short for the ID of an {noun}: type at least {PREFIX_CHARS_MIN} of its characters"
        ))),
        ID_CHARS => Ok(None),
        _ => Ok(Some(typed.to_ascii_lowercase())),
    }
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
        let select = |typed: &str| select("event", &prefix("event", typed).unwrap().unwrap(), ids().into_iter());
        assert_eq!(select("602d9…").unwrap(), ids()[0]);
        assert!(matches!(select("602D"), Err(Failure::Usage(text)) if text.starts_with("2 IDs of events")));
        assert!(matches!(select("abcd"), Err(Failure::Refused(_))));
    }

    #[test]
    fn whole_ids_are_left_to_the_server() {
        assert!(matches!(prefix("event", "602D9444-D2CD-49C7-8624-8643E7171297"), Ok(None)));
    }

    #[test]
    fn short_ids_and_other_words_are_refused_in_the_words_that_were_typed() {
        for (typed, expected) in [
            ("60", "'60' is too short for the ID of an event: type at least 4 of its characters"),
            ("", "'' is too short for the ID of an event: type at least 4 of its characters"),
            ("web_0", "'web_0' is not the ID of an event: list the events to see their IDs"),
        ] {
            let failure = prefix("event", typed).unwrap_err();
            assert_eq!(failure.message(), Some(expected));
        }
    }
}
