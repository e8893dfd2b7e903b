//! A word that nobody knows, and the one that was probably meant.

/// Less alike than this is a guess that helps nobody.
const ALIKE_MIN: f64 = 0.7;

/// The complaint about a word that is not one of `words`.
pub fn unknown(what: &str, given: &str, words: &[&str]) -> String {
    let list = words.join(", ");
    let given: String = given.chars().take(100).collect();
    match nearest(&given, words) {
        Some(word) => format!("there is no {what} '{given}'. Did you mean '{word}'? There are {list}"),
        None => format!("there is no {what} '{given}'. There are {list}"),
    }
}

fn nearest<'a>(given: &str, words: &[&'a str]) -> Option<&'a str> {
    let alike = |word: &str| strsim::jaro_winkler(&given.to_lowercase(), &word.to_lowercase());
    let best = words.iter().copied().max_by(|a, b| alike(a).total_cmp(&alike(b)))?;
    (alike(best) >= ALIKE_MIN).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nearly_right_is_suggested_and_nonsense_is_not() {
        let words = ["Reset", "Truncated", "Malformed"];
        assert_eq!(nearest("truncate", &words), Some("Truncated"));
        assert_eq!(nearest("Rest", &words), Some("Reset"));
        assert_eq!(nearest("xyz", &words), None);
    }
}
