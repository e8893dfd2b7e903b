//! Files that are wrong, and what is said about them.

use super::*;
use crate::scenario::SHIPPED;

/// What is said about a file.
#[track_caller]
fn check(text: &str, expected: &str) {
    let problem = Scenario::parse(text).expect_err("it is wrong");
    assert_eq!(problem.to_string(), expected, "in:\n{text}");
}

fn with(steps: &str) -> String {
    format!("title = \"t\"\n[[machine]]\nname = \"web_0\"\n{steps}")
}

#[test]
fn what_ships_can_be_read_and_says_what_it_is() {
    for shipped in SHIPPED {
        let scenario = Scenario::parse(shipped.text).unwrap_or_else(|problem| panic!("{}: {problem}", shipped.name));
        assert!(!scenario.title.is_empty() && scenario.about.ends_with('.'), "{}", shipped.name);
        assert!(scenario.steps.len() > 2, "{}", shipped.name);
    }
}

#[test]
fn steps_are_read() {
    let scenario = Scenario::parse(&with(
        "[[step]]\nrestart = \"web_0\"\nas = \"r\"\n[[step]]\nwait = \"1h30m\"\n[[step]]\nexpect = \"gone\"\nof = \"r\"\nwithin = \"0s\"\n",
    ))
    .unwrap();
    let texts: Vec<String> = scenario.steps.iter().map(|step| format!("{} {}", step.line, step.does)).collect();
    assert_eq!(texts, ["4 restart web_0", "7 wait 1h30m", "9 expect r to be gone"]);
}

#[test]
fn an_unknown_key_is_named_with_the_one_that_was_meant() {
    check(
        "title = \"t\"\nabuot = \"x\"\n",
        "line 2, column 1: the key 'abuot' is not known here. Did you mean 'about'? It may be one of: title, about, \
         subject, host, availabilitySet, cloudService, scaleSet, machine, step",
    );
    let problem = Scenario::parse("title = \"t\"\n[[machine]]\nname = \"a\"\nprioritty = \"Spot\"\n").unwrap_err();
    assert_eq!((problem.line, problem.column), (4, 1));
    assert!(problem.message.contains("Did you mean 'priority'?"), "{problem}");
    let problem = Scenario::parse(&with("[[step]]\nrestrat = \"web_0\"\n")).unwrap_err();
    assert_eq!((problem.line, problem.column), (5, 1));
    assert!(problem.message.contains("Did you mean 'restart'?"), "{problem}");
}

#[test]
fn an_unknown_word_is_named_with_the_one_that_was_meant() {
    let problem = Scenario::parse("title = \"t\"\n[[machine]]\nname = \"a\"\npriority = \"Spott\"\n").unwrap_err();
    assert_eq!((problem.line, problem.column), (4, 12));
    assert!(problem.message.starts_with("the word 'Spott' is not known here. Did you mean 'Spot'?"), "{problem}");
    let problem = Scenario::parse(&with("[[step]]\nexpect = \"strated\"\n")).unwrap_err();
    assert_eq!((problem.line, problem.column), (5, 10));
    assert!(problem.message.starts_with("'strated' cannot be expected. Did you mean 'started'?"), "{problem}");
}

#[test]
fn labels_are_set_before_they_are_used() {
    check(
        &with("[[step]]\nrestart = \"web_0\"\nas = \"restart\"\n[[step]]\ncancel = \"restrat\"\n"),
        "line 8, column 10: no earlier step is called 'restrat'. Did you mean 'restart'? Give one a name with: as = \
         \"restrat\"",
    );
    check(
        &with("[[step]]\nwait = \"1s\"\nas = \"x\"\n"),
        "line 6, column 6: no operation comes of this step, so it needs no name",
    );
}

#[test]
fn a_step_does_one_thing_and_says_nothing_that_means_nothing() {
    check(
        &with("[[step]]\nrestart = \"web_0\"\nwait = \"1s\"\n"),
        "line 4, column 1: this step does two things: make two steps of it",
    );
    let problem = Scenario::parse(&with("[[step]]\nas = \"x\"\n")).unwrap_err();
    assert!(problem.message.starts_with("this step does nothing. It may have one of: restart,"), "{problem}");
    check(
        &with("[[step]]\nrestart = \"web_0\"\nwithin = \"1s\"\n"),
        "line 6, column 10: 'within' means nothing to this step",
    );
    check(
        &with("[[step]]\nwait = \"soon\"\n"),
        "line 5, column 8: 'soon' must be a span of time such as 90s, 15m, 1h30m or 2d, at most 400d",
    );
    check(
        &with("[[step]]\nscale = \"pool\"\n"),
        "line 4, column 1: scale needs the key 'capacity': how many instances",
    );
}

#[test]
fn what_is_no_toml_has_its_place() {
    let problem = Scenario::parse("title = \"t\"\n[[step]\n").unwrap_err();
    assert_eq!(problem.line, 2);
    let problem = Scenario::parse("title = 1\n").unwrap_err();
    assert_eq!((problem.line, problem.column), (1, 9));
    let problem = Scenario::parse("title = \"t\"\nsubject = \"web_1\"\n[[machine]]\nname = \"web_0\"\n").unwrap_err();
    assert_eq!((problem.line, problem.column), (2, 1));
    assert!(problem.message.contains("Did you mean 'web_0'?"), "{problem}");
}
