//! Counts and lists of names in sentences.

/// `1 machine`, `2 machines`.
pub fn count_of(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Names that a short list contains; one more is named instead of counted.
const NAMED_MAX: usize = 2;

/// A short list: `web_0`, `web_0 and web_1`, `web_0, web_1 and web_2`, `web_0, web_1 and 3 more`.
pub fn join_names<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let mut names = names.into_iter();
    let first: Vec<S> = names.by_ref().take(NAMED_MAX + 1).collect();
    let total = first.len() + names.count();
    join_first(first, total, NAMED_MAX)
}

/// The first `named_max` of `total` names, then the number of the others: `web_1, web_2 and 6 more`. A single one is named, too.
pub fn join_first<S: AsRef<str>>(names: impl IntoIterator<Item = S>, total: usize, named_max: usize) -> String {
    let mut names: Vec<S> = names.into_iter().take(named_max + 1).collect();
    if names.len() < total {
        names.truncate(named_max);
    }
    let join = |names: &[S]| names.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    match (total.saturating_sub(names.len()), &names[..]) {
        (0, [first @ .., last]) if !first.is_empty() => format!("{} and {}", join(first), last.as_ref()),
        (0, names) => join(names),
        (more, names) => format!("{} and {more} more", join(names)),
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
        assert_eq!(join_first(names, 4, 4), "a, b, c and d");
        assert_eq!(join_first(names, 4, 3), "a, b, c and d", "the last one is as short as `1 more`");
        assert_eq!(join_first(names, 4, 2), "a, b and 2 more");
        assert_eq!(join_first(names, 9, 3), "a, b, c and 6 more");
        assert_eq!(join_first(&names[..2], 9, 3), "a, b and 7 more", "only some of the names are known");
        assert_eq!(join_first(&names[..0], 0, 3), "");
    }

    #[test]
    fn short_lists_name_two_and_count_the_others() {
        let names = |count: usize| (0..count).map(|number| format!("web_{number}"));
        for (count, expected) in [
            (0, ""),
            (1, "web_0"),
            (2, "web_0 and web_1"),
            (3, "web_0, web_1 and web_2"),
            (4, "web_0, web_1 and 2 more"),
            (9, "web_0, web_1 and 7 more"),
        ] {
            assert_eq!(join_names(names(count)), expected);
        }
    }
}
