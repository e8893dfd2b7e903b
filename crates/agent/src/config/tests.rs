//! What a configuration may say, and what is said of one that may not.

use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    let found = match parse(text) {
        Ok(file) => format!("{:?}", Policies::from(file.approve).kinds),
        Err((line, message)) => format!("{line}: {message}"),
    };
    assert!(found.contains(expected), "{text}\nhas: {found}\nnot: {expected}");
}

#[test]
fn what_is_unknown_is_refused_with_its_line_and_the_valid_names() {
    let policies = "expected one of `after-hooks`, `at-once`, `never`, `leader`";
    for (text, expected) in [
        ("\nhook = 1", "2: unknown field `hook`, expected one of `endpoint`, `name`, `hooks`, `state`"),
        (
            "[approve]\nrebot = 'never'",
            "2: unknown field `rebot`, expected one of `default`, `platform`, `user`, `freeze`",
        ),
        ("[approve]\n\nreboot = 'later'", &format!("3: unknown variant `later`, {policies}")),
        ("[approve]\ndefault = 'later'", &format!("2: unknown variant `later`, {policies}")),
        ("[approve]\nreboot = { user = 'x' }", &format!("2: unknown variant `x`, {policies}")),
        ("[approve]\nreboot = { me = 'never' }", "2: unknown field `me`, expected `platform` or `user`"),
        ("[approve]\nreboot = 3", "2: invalid type: integer `3`, expected a policy, or a table"),
        ("[approve]\nterminate = 'leader'", "2: `leader` is not for `terminate`"),
        ("on_failure = 'x'", "1: unknown variant `x`, expected `hold` or `approve`"),
        ("\n\ninterval = '1'", "3: '1' is not a time such as `500ms`, `10s`, `5m`"),
        ("endpoint = 'https://x'", "1: 'https://x': "),
        ("leader_share_percent = 0", "1: 0 is not a share from 1 to 100"),
        ("metrics = 9137", "1: invalid type: integer `9137`, expected a string"),
        ("\nmetrics = 'x'", "2: 'x' is not an address such as 127.0.0.1:9137"),
        ("a = ", "1: "),
    ] {
        check(text, expected);
    }
}

#[test]
fn an_action_is_one_thing_and_its_mistakes_are_told_with_their_line() {
    let works = "`journal`, `webhook`, `nginx`, `haproxy`, `systemd`, `kubernetes`";
    for (text, expected) in [
        (
            "[[action]]\n\nngnix.file = '/x'",
            &*format!("3: unknown field `ngnix`, expected one of `name`, `types`, `on_failure`, `on_late`, {works}"),
        ),
        ("\n[[action]]\nname = 'x'", &format!("2: an action is exactly one of {works}")),
        ("[[action]]\njournal = {}\nsystemd.units = ['a']", &format!("1: an action is exactly one of {works}")),
        (
            "[[action]]\nnginx.fil = '/x'",
            "2: unknown field `fil`, expected one of `file`, `drained`, `normal`, `command`",
        ),
        ("[[action]]\nnginx.wait = '1s'", "missing field `file`"),
        ("[[action]]\nnginx.file = '/x'\nnginx.wait = '1'", "3: '1' is not a time such as `500ms`, `10s`, `5m`"),
        ("[[action]]\njournal = {}\ntypes = ['Rebot']", "3: Rebot is not a type of event; there are Freeze, Reboot"),
        ("[[action]]\njournal = {}\non_failure = 'x'", "3: unknown variant `x`, expected `hold` or `approve`"),
        ("[[action]]\njournal = {}\nname = 'a b'", "'a b' cannot be the name of an action"),
        ("[[action]]\njournal = {}\nname = 'reboot'", "'reboot' cannot be the name of an action: hooks are called so"),
        ("[[action]]\njournal = {}\n[[action]]\njournal = {}", "two actions are called 'journal'"),
        (&"[[action]]\njournal = {}\n".repeat(33), "more than 32 actions"),
    ] {
        check(text, expected);
    }
}

#[test]
fn policies_are_per_type_and_source() {
    check("[approve]\nreboot = 'at-once'", r#""reboot": KindPolicy { any: Some(AtOnce), platform: None, user: None }"#);
    check(
        "[approve]\nredeploy = { user = 'never' }",
        r#""redeploy": KindPolicy { any: None, platform: None, user: Some(Never) }"#,
    );
    check(
        "[approve.redeploy]\nuser = 'never'",
        r#""redeploy": KindPolicy { any: None, platform: None, user: Some(Never) }"#,
    );
}

#[test]
fn times_have_units() {
    for (text, expected) in [("1s", Some(1000)), ("500ms", Some(500)), ("2m", Some(120_000)), ("1h", Some(3_600_000))] {
        assert_eq!(parse_span(text), expected.map(Duration::from_millis), "{text}");
    }
    for text in ["", "s", "1", "1 s", "-1s", "1.5s", "é", "99999999999999999999s"] {
        assert_eq!(parse_span(text), None, "{text}");
    }
}
