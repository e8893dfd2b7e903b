//! Words that this version does not know. Servers that are newer than a client use some; clients show them as they are.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Words that are remembered. A server has a few dozen; a hostile one must not fill the memory of its clients.
const WORDS_MAX: usize = 256;

/// Length of a word. All known ones are shorter.
const WORD_BYTES_MAX: usize = 64;

/// Stands for all words beyond the limits.
const OTHER: &str = "Unknown";

/// A word from a newer version. Equal words are equal values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UnknownWord(&'static str);

impl UnknownWord {
    pub(crate) fn new(word: &str) -> UnknownWord {
        static WORDS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
        UnknownWord(remember(&mut WORDS.lock().unwrap_or_else(PoisonError::into_inner), word))
    }

    pub fn as_str(self) -> &'static str {
        self.0
    }
}

/// The remembered word. The memory is never freed, because it is bounded.
fn remember(words: &mut BTreeSet<&'static str>, word: &str) -> &'static str {
    if let Some(known) = words.get(word) {
        return known;
    }
    if words.len() >= WORDS_MAX || word.len() > WORD_BYTES_MAX || word.contains(char::is_control) {
        return OTHER;
    }
    let kept: &'static str = Box::leak(word.to_owned().into_boxed_str());
    words.insert(kept);
    kept
}

impl fmt::Debug for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventCause, EventType, Operation, OperationKind, OperationPhase, WaitReason};

    #[test]
    fn an_older_client_reads_the_words_of_a_newer_server_and_shows_them() {
        let text = r#"{"id":"51941b56-8080-45ac-81ae-8bda818f5958","kind":"Hibernate","requestedBy":"b","state":"Deferred",
            "machines":[],"events":[],"cause":"SolarFlare","waitsFor":[{"reason":"Moonrise"}]}"#;
        let operation: Operation = serde_json::from_str(text).unwrap();
        assert_eq!((operation.kind.as_str(), operation.state.as_str()), ("Hibernate", "Deferred"));
        assert_eq!(operation.cause.map(EventCause::as_str), Some("SolarFlare"));
        assert_eq!(operation.waits_for[0].to_string(), "Moonrise");
        let written = serde_json::to_value(&operation).unwrap();
        assert_eq!((&written["kind"], &written["waitsFor"][0]["reason"]), (&"Hibernate".into(), &"Moonrise".into()));
        assert_eq!(serde_json::from_value::<Operation>(written).unwrap(), operation);
    }

    #[test]
    fn known_words_are_known_and_requests_stay_strict() {
        assert_eq!(serde_json::from_str::<OperationKind>("\"Drain\"").unwrap(), OperationKind::Drain);
        assert_eq!(serde_json::to_string(&OperationPhase::Failed).unwrap(), "\"Failed\"");
        assert_eq!(WaitReason::parse("Moonrise"), None);
        assert!(serde_json::from_str::<EventType>("\"Hibernate\"").is_err());
        assert!(serde_json::from_str::<OperationKind>("7").is_err());
    }

    #[test]
    fn a_server_cannot_fill_the_memory_of_a_client_with_words() {
        let mut words = BTreeSet::new();
        assert_eq!(remember(&mut words, &"x".repeat(65)), OTHER);
        assert_eq!(remember(&mut words, "a\nb"), OTHER);
        for number in 0..2 * WORDS_MAX {
            remember(&mut words, &format!("word{number}"));
        }
        assert_eq!((words.len(), remember(&mut words, "one more")), (WORDS_MAX, OTHER));
        assert_eq!(remember(&mut words, "word0"), "word0");
    }
}
