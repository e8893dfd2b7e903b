//! What somebody probably meant who wrote a word that there is not.

/// The candidate that is written most like `word`, if one is written much like it.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let near = candidates.into_iter().map(|candidate| (distance(&word, &candidate.to_lowercase()), candidate));
    let (distance, candidate) = near.min_by_key(|(distance, _)| *distance)?;
    (distance <= DISTANCE_MAX.min(1 + word.chars().count() / 3)).then_some(candidate)
}

/// ` Did you mean 'x'?`, or nothing: to stand after the sentence that says what is wrong.
pub fn hint<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map(|near| format!(" Did you mean '{near}'?")).unwrap_or_default()
}

/// Words that differ in more places are other words.
const DISTANCE_MAX: usize = 3;

/// Characters are compared up to here: names are not longer, and what is longer is no slip of the finger.
const CHARS_MAX: usize = 128;

/// How many letters must be put in, left out, replaced or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(CHARS_MAX).collect(), b.chars().take(CHARS_MAX).collect());
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before_last[j - 2] + 1);
            }
            row.push(least);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_seen_through_and_other_words_are_not() {
        let names = ["web_0", "web_1", "database", "restart"];
        let check = |word: &str, expected: Option<&str>| assert_eq!(nearest(word, names), expected, "{word}");
        check("web_0", Some("web_0"));
        check("wbe_1", Some("web_1"));
        check("WEB1", Some("web_1"));
        check("databse", Some("database"));
        check("restrat", Some("restart"));
        check("completely", None);
        check("x", None);
        check("", None);
        assert_eq!(nearest("web", []), None);
        assert_eq!(hint("reboot", ["restart"]), "");
        assert_eq!(hint("resart", ["restart"]), " Did you mean 'restart'?");
    }
}
