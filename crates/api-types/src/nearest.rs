//! Suggests the closest known word for an unknown one.

/// The message about a word that is not one of `words`.
pub fn describe_unknown(what: &str, given: &str, words: &[&str]) -> String {
    let given: String = given.chars().take(CHARS_MAX).collect();
    let near = suggest(&given, words.iter().copied());
    format!("unknown {what} '{given}'.{near} Use one of: {}", words.join(", "))
}

/// ` Did you mean 'x'?`, or an empty string; to be appended to the sentence about the error.
pub fn suggest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    find_nearest(word, candidates).map(|near| format!(" Did you mean '{near}'?")).unwrap_or_default()
}

/// The candidate that is closest to `word`, if one is close enough.
pub fn find_nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.to_lowercase().chars().take(CHARS_MAX).collect();
    let distance = |candidate: &str| strsim::osa_distance(&word, &candidate.to_lowercase());
    let measured = candidates.into_iter().map(|candidate| (distance(candidate), candidate));
    let (distance, candidate) = measured.min_by_key(|(distance, _)| *distance)?;
    (distance <= DISTANCE_MAX.min(1 + word.chars().count() / 3)).then_some(candidate)
}

/// Words that differ in more places are unrelated.
const DISTANCE_MAX: usize = 3;

/// The maximum length of a name; longer texts are not typos.
const CHARS_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_are_matched_and_other_words_are_not() {
        let names = ["web_0", "web_1", "database", "restart"];
        let check = |word: &str, expected: Option<&str>| assert_eq!(find_nearest(word, names), expected, "{word}");
        check("web_0", Some("web_0"));
        check("wbe_1", Some("web_1"));
        check("WEB1", Some("web_1"));
        check("databse", Some("database"));
        check("restrat", Some("restart"));
        check("completely", None);
        check("x", None);
        check("", None);
        assert_eq!(find_nearest("web", []), None);
        assert_eq!(suggest("reboot", ["restart"]), "");
        assert_eq!(
            describe_unknown("verb", "resart", &["restart", "stop"]),
            "unknown verb 'resart'. Did you mean 'restart'? Use one of: restart, stop"
        );
    }
}
