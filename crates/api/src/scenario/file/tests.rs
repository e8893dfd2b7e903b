//! Errors in scenario files.

use super::*;
use crate::scenario::BUILTIN_SCENARIOS;

/// Checks the error of a file.
#[track_caller]
fn check(text: &str, expected: &str) {
    let problem = Scenario::parse(text).expect_err("the file is invalid");
    assert_eq!(problem.to_string(), expected, "in:\n{text}");
}

fn with(steps: &str) -> String {
    format!("title = \"t\"\n[[machine]]\nname = \"web_0\"\n{steps}")
}

#[test]
fn built_in_scenarios_parse_and_have_descriptions() {
    for shipped in BUILTIN_SCENARIOS {
        let scenario = Scenario::parse(shipped.text).unwrap_or_else(|problem| panic!("{}: {problem}", shipped.name));
        assert!(!scenario.title.is_empty() && scenario.about.ends_with('.'), "{}", shipped.name);
        assert!(scenario.steps.len() > 2, "{}", shipped.name);
    }
}

#[test]
fn steps_are_parsed() {
    let scenario = Scenario::parse(&with(
        "[[step]]\nrestart = \"web_0\"\nas = \"r\"\n[[step]]\nwait = \"1h30m\"\n[[step]]\nexpect = \"gone\"\nof = \"r\"\nwithin = \"0s\"\n",
    ))
    .unwrap();
    let texts: Vec<String> = scenario.steps.iter().map(|step| format!("{} {}", step.line, step.action)).collect();
    assert_eq!(texts, ["4 restart web_0", "7 wait 1h30m", "9 expect r to be gone"]);
}

#[test]
fn an_unknown_key_suggests_the_closest_one() {
    check(
        "title = \"t\"\nabuot = \"x\"\n",
        "line 2, column 1: unknown key 'abuot'. Did you mean 'about'? Use one of: title, about, subject, \
         host, availabilitySet, cloudService, scaleSet, machine, step",
    );
    let problem = Scenario::parse("title = \"t\"\n[[machine]]\nname = \"a\"\nprioritty = \"Spot\"\n").unwrap_err();
    assert_eq!((problem.line, problem.column), (4, 1));
    assert!(problem.message.contains("Did you mean 'priority'?"), "{problem}");
    let problem = Scenario::parse(&with("[[step]]\nrestrat = \"web_0\"\n")).unwrap_err();
    assert_eq!((problem.line, problem.column), (5, 1));
    assert!(problem.message.contains("Did you mean 'restart'?"), "{problem}");
}

#[test]
fn an_unknown_value_suggests_the_closest_one() {
    let problem = Scenario::parse("title = \"t\"\n[[machine]]\nname = \"a\"\npriority = \"Spott\"\n").unwrap_err();
    assert_eq!((problem.line, problem.column), (4, 12));
    assert!(problem.message.starts_with("unknown value 'Spott'. Did you mean 'Spot'?"), "{problem}");
    let problem = Scenario::parse(&with("[[step]]\nexpect = \"strated\"\n")).unwrap_err();
    assert_eq!((problem.line, problem.column), (5, 10));
    assert!(problem.message.starts_with("'strated' is not a known state. Did you mean 'started'?"), "{problem}");
}

#[test]
fn labels_must_be_defined_before_they_are_used() {
    check(
        &with("[[step]]\nrestart = \"web_0\"\nas = \"restart\"\n[[step]]\ncancel = \"restrat\"\n"),
        "line 8, column 10: no earlier step is named 'restrat'. Did you mean 'restart'? Name a step with: as = \
         \"restrat\"",
    );
    check(
        &with("[[step]]\nwait = \"1s\"\nas = \"x\"\n"),
        "line 6, column 6: this step starts no operation, so it cannot have a name",
    );
}

#[test]
fn a_step_has_one_action_and_no_other_keys() {
    check(
        &with("[[step]]\nrestart = \"web_0\"\nwait = \"1s\"\n"),
        "line 4, column 1: this step has two actions. Split it into two steps",
    );
    let problem = Scenario::parse(&with("[[step]]\nas = \"x\"\n")).unwrap_err();
    assert!(problem.message.starts_with("this step has no action. Use one of: restart,"), "{problem}");
    check(
        &with("[[step]]\nrestart = \"web_0\"\nwithin = \"1s\"\n"),
        "line 6, column 10: 'within' does not apply to this step",
    );
    check(
        &with("[[step]]\nwait = \"soon\"\n"),
        "line 5, column 8: 'soon' must be a duration such as 90s, 15m, 1h30m or 2d, at most 400d",
    );
    check(
        &with("[[step]]\nscale = \"pool\"\n"),
        "line 4, column 1: 'scale' requires the key 'capacity', the number of instances",
    );
}

#[test]
fn syntax_errors_have_a_position() {
    let problem = Scenario::parse("title = \"t\"\n[[step]\n").unwrap_err();
    assert_eq!(problem.line, 2);
    let problem = Scenario::parse("title = 1\n").unwrap_err();
    assert_eq!((problem.line, problem.column), (1, 9));
    let problem = Scenario::parse("title = \"t\"\nsubject = \"web_1\"\n[[machine]]\nname = \"web_0\"\n").unwrap_err();
    assert_eq!((problem.line, problem.column), (2, 1));
    assert!(problem.message.contains("Did you mean 'web_0'?"), "{problem}");
}
