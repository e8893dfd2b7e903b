//! Tests of valid configurations and of error messages.

use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    let found = match parse(text) {
        Ok(file) => format!("{:?}", Policies::from(file.approve).kinds),
        Err((line, message)) => format!("{line}: {message}"),
    };
    assert!(found.contains(expected), "{text}\nfound: {found}\nexpected: {expected}");
}

#[test]
fn unknown_keys_and_values_are_rejected_with_their_line_and_the_valid_names() {
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
        ("[approve]\nterminate = 'leader'", "2: `leader` is not valid for `terminate`"),
        ("on_failure = 'x'", "1: unknown variant `x`, expected `hold` or `approve`"),
        ("\n\ninterval = '1'", "3: invalid duration '1': use a number and a unit, such as 500ms, 10s or 5m"),
        ("endpoint = 'https://x'", "1: invalid endpoint \"https://x\": must start with http://"),
        ("endpoint = 'http://a,ftp://b'", "1: invalid endpoint \"ftp://b\": must start with http://"),
        ("leader_share_percent = 0", "1: invalid percentage 0: use a number from 1 to 100"),
        ("metrics = 9137", "1: invalid type: integer `9137`, expected a string"),
        ("\nmetrics = 'x'", "2: invalid address 'x': use IP:PORT, such as 127.0.0.1:9137"),
        ("a = ", "1: "),
    ] {
        check(text, expected);
    }
}

#[test]
fn errors_in_actions_are_reported_with_their_line() {
    let names = "`journal`, `webhook`, `nginx`, `haproxy`, `systemd`, `kubernetes`";
    for (text, expected) in [
        (
            "[[action]]\n\nngnix.file = '/x'",
            &*format!("3: unknown field `ngnix`, expected one of `name`, `types`, `on_failure`, `on_late`, {names}"),
        ),
        ("\n[[action]]\nname = 'x'", &format!("2: an action must have exactly one of {names}")),
        ("[[action]]\njournal = {}\nsystemd.units = ['a']", &format!("1: an action must have exactly one of {names}")),
        (
            "[[action]]\nnginx.fil = '/x'",
            "2: unknown field `fil`, expected one of `file`, `drained`, `normal`, `command`",
        ),
        ("[[action]]\nnginx.wait = '1s'", "missing field `file`"),
        (
            "[[action]]\nnginx.file = '/x'\nnginx.wait = '1'",
            "3: invalid duration '1': use a number and a unit, such as 500ms, 10s or 5m",
        ),
        ("[[action]]\njournal = {}\ntypes = ['Rebot']", "3: unknown event type 'Rebot': use Freeze, Reboot"),
        ("[[action]]\njournal = {}\non_failure = 'x'", "3: unknown variant `x`, expected `hold` or `approve`"),
        ("[[action]]\njournal = {}\nname = 'a b'", "invalid action name 'a b'"),
        ("[[action]]\njournal = {}\nname = 'reboot'", "invalid action name 'reboot': reserved for hooks"),
        ("[[action]]\njournal = {}\n[[action]]\njournal = {}", "two actions are named 'journal'"),
        (&"[[action]]\njournal = {}\n".repeat(33), "more than 32 actions"),
    ] {
        check(text, expected);
    }
}

#[test]
fn policies_can_depend_on_type_and_source() {
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
