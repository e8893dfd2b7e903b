//! Counts and lists of names in sentences.

/// `1 machine`, `2 machines`.
pub fn count_of(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// The first `named_max` of `total` names, then the number of the others: `web_1, web_2 and 6 more`.
pub fn join_first<S: AsRef<str>>(names: impl IntoIterator<Item = S>, total: usize, named_max: usize) -> String {
    let names: Vec<S> = names.into_iter().take(named_max).collect();
    let text = names.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    match total.saturating_sub(names.len()) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_has_no_plural() {
        assert_eq!([0, 1, 2].map(|number| count_of(number, "step")), ["0 steps", "1 step", "2 steps"]);
    }

    #[test]
    fn names_beyond_the_first_are_counted() {
        let names = ["a", "b", "c", "d"];
        assert_eq!(join_first(names, 4, 4), "a, b, c, d");
        assert_eq!(join_first(names, 4, 3), "a, b, c and 1 more");
        assert_eq!(join_first(names, 9, 3), "a, b, c and 6 more");
        assert_eq!(join_first(&names[..2], 9, 3), "a, b and 7 more", "only some of the names are known");
        assert_eq!(join_first(&names[..0], 0, 3), "");
    }
}
