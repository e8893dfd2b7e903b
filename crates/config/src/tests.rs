//! Tests of the configuration: a file, an environment and flags go in, one setting or an error comes out.

use std::fs;

use clap::Parser;

use super::*;

/// `forewarn` with its flags of `serve`.
#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    serve: ServeArgs,
}

/// Compares one setting, as `--print-config` shows it, or the error message.
fn check(file: &str, environment: &[(&str, &str)], flags: &str, key: &str, expected: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f.toml");
    fs::write(&path, file).unwrap();
    let outcome = outcome(Some(path), environment, flags, key);
    assert_eq!(outcome.replace(&format!("{}/", directory.path().display()), ""), expected);
}

fn outcome(file: Option<PathBuf>, environment: &[(&str, &str)], flags: &str, key: &str) -> String {
    let typed = ["forewarn"].into_iter().chain(flags.split_whitespace());
    let serve = match CommandLine::try_parse_from(typed) {
        Ok(line) => line.serve,
        Err(error) => return error.to_string().lines().next().unwrap().into(),
    };
    let environment = environment.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
    match read(&Sources { file, environment, flags: serve.flags }) {
        Err(wrong) => wrong.0,
        Ok(resolved) => match resolved.choices.to_config() {
            Err(wrong) => wrong.0,
            Ok(_) => render_setting(&resolved.choices, key),
        },
    }
}

fn render_setting(choices: &Choices, key: &str) -> String {
    let setting = settings::by_key(key).unwrap();
    (setting.show)(choices).map_or("not set".into(), |value| value.to_string())
}

#[test]
fn flags_override_the_environment_which_overrides_the_file() {
    let variable = ("FOREWARN_NOTICE_SCALE", "30");
    check("", &[], "", "notice_scale", "1");
    check("notice_scale = 20", &[], "", "notice_scale", "20");
    check("notice_scale = 20", &[variable], "", "notice_scale", "30");
    check("notice_scale = 20", &[variable], "--notice-scale 40", "notice_scale", "40");
    check("notice_scale = 20", &[], "--notice-scale 40", "notice_scale", "40");
}

#[test]
fn every_setting_has_a_flag_a_variable_and_a_key_that_work_the_same() {
    for (flag, value, key, expected) in [
        ("data", "/srv/fw", "data", r#""/srv/fw""#),
        ("metadata", "unix:/run/x", "metadata", r#"[{ address = "unix:/run/x", network = "default" }]"#),
        (
            "metadata",
            "unix:/run/x,group=kvm,mode=0660",
            "metadata",
            r#"[{ address = "unix:/run/x", group = "kvm", mode = "0660", network = "default" }]"#,
        ),
        (
            "metadata",
            "127.0.0.1:1,host=imds",
            "metadata",
            r#"[{ address = "127.0.0.1:1", host = "imds", network = "default" }]"#,
        ),
        ("management", "[::1]:1", "management", r#""[::1]:1""#),
        ("no-auth", "on", "no_auth", "true"),
        ("clock", "manual", "clock", r#""manual""#),
        ("default-machine", "web_1", "default_machine", r#""web_1""#),
        ("first-call-delay", "2m", "first_call_delay", r#""2m""#),
        ("rate-limit", "5/s", "rate_limit", r#""5/s""#),
        ("rate-limit", "off", "rate_limit", r#""off""#),
        ("connections-per-source", "128", "connections_per_source", "128"),
        ("guests-by", "mark", "guests_by", r#""mark""#),
        ("mark-mask", "0xff", "mark_mask", r#""0x000000ff""#),
        ("held-per-source", "2", "held_per_source", "2"),
        ("management-tls", "127.0.0.1:443", "management_tls", r#""127.0.0.1:443""#),
        ("management-tls", "off", "management_tls", r#""off""#),
        ("hosts", "127.0.0.1:8172", "hosts", r#""127.0.0.1:8172""#),
        ("driver", "agents", "driver.kind", r#""agents""#),
        ("history-days", "7", "history_days", "7"),
        ("idle-disable", "48h", "idle_disable", r#""2d""#),
        ("max-user-operations", "0", "max_user_operations", "0"),
        ("update-domain-pause", "90", "update_domain_pause", r#""1m30s""#),
        ("driver-timeout", "5m", "driver_timeout", r#""5m""#),
        ("log", "json", "log", r#""json""#),
        ("log-level", "warn,forewarn_arm=trace", "log_level", r#""warn,forewarn_arm=trace""#),
        ("driver-command", "/bin/true", "driver.kind", r#""command""#),
        ("impact-reboot", "3s", "driver.impacts.reboot", r#""3s""#),
        ("pool-first", "10.0.0.1", "pool.first", r#""10.0.0.1""#),
    ] {
        let setting = SETTINGS.iter().find(|setting| setting.flag == flag).unwrap();
        check("", &[], &format!("--{flag}={value}"), key, expected);
        check("", &[(&setting.variable(), value)], "", key, expected);
        let typed = if setting.shape == Shape::Many { format!("[{value:?}]") } else { format!("{value:?}") };
        check(&format!("{} = {typed}", setting.key), &[], "", key, expected);
    }
}

#[test]
fn a_certificate_comes_with_its_key() {
    let names = ("management_tls_name", r#"["forewarn.example", "10.0.0.5"]"#);
    check("", &[], "--management-tls-name Forewarn.example --management-tls-name 10.0.0.5", names.0, names.1);
    check("", &[("FOREWARN_MANAGEMENT_TLS_NAME", "forewarn.example 10.0.0.5")], "", names.0, names.1);
    check("management_tls_name = [\"forewarn.example\", \"10.0.0.5\"]", &[], "", names.0, names.1);
    for (key, value) in [("management_tls_cert", r#""/c""#), ("management_tls_key", r#""/k""#)] {
        check("", &[], "--management-tls-cert /c --management-tls-key /k", key, value);
        check("management_tls_cert = \"/c\"\nmanagement_tls_key = \"/k\"", &[], "", key, value);
        let environment = [("FOREWARN_MANAGEMENT_TLS_CERT", "/c"), ("FOREWARN_MANAGEMENT_TLS_KEY", "/k")];
        check("", &environment, "", key, value);
    }
}

#[test]
fn listeners_are_tables_in_the_file_and_repeated_flags() {
    let table = "[[metadata]]\naddress = \"127.0.0.1:1\"\nmachine = \"a\"\nprefix = false\n[[metadata]]\naddress = \"unix:/x,y\"";
    check(
        table,
        &[],
        "",
        "metadata",
        r#"[{ address = "127.0.0.1:1", machine = "a", network = "default", prefix = false }, { address = "unix:/x,y", network = "default" }]"#,
    );
    let two = r#"[{ address = "127.0.0.1:1", machine = "a", network = "default" }, { address = "unix:/x", network = "n", prefix = true }]"#;
    check(table, &[], "--metadata 127.0.0.1:1,machine=a --metadata unix:/x,network=n,prefix=on", "metadata", two);
    check("", &[("FOREWARN_METADATA", "127.0.0.1:1,machine=a unix:/x,network=n,prefix=on")], "", "metadata", two);
}

#[test]
fn socket_options_are_checked() {
    for (flags, expected) in [
        ("--metadata unix:/x,mode=999", "permissions in octal, such as 0660"),
        ("--metadata unix:/x,mode=01777", "permissions in octal, such as 0660"),
        ("--metadata 127.0.0.1:1,mode=0660", "for Unix sockets ,group=NAME ,mode=0660"),
    ] {
        let message = outcome(None, &[], flags, "metadata");
        assert!(message.contains(expected), "{flags}: {message}");
    }
}

#[test]
fn invalid_values_are_reported_with_their_origin_and_the_expected_value() {
    let refused = |file: &str, environment: &[(&str, &str)], flags: &str, sentence: &str| {
        check(file, environment, flags, "clock", sentence);
    };
    refused(
        "clock = \"fake\"",
        &[],
        "",
        r#"f.toml, line 1: clock: invalid value "fake": expected one of: real, manual"#,
    );
    refused("", &[("FOREWARN_CLOCK", "")], "", r#"FOREWARN_CLOCK: invalid value "": expected one of: real, manual"#);
    refused("", &[], "--clock x", r#"--clock: invalid value "x": expected one of: real, manual"#);
    refused(
        "\n\nnotice_scale = 0",
        &[],
        "",
        r#"f.toml, line 3: notice_scale: invalid value "0": expected a whole number from 1 to 100000"#,
    );
    refused(
        "",
        &[],
        "--notice-scale -1",
        r#"--notice-scale: invalid value "-1": expected a whole number from 1 to 100000"#,
    );
    refused(
        "",
        &[],
        "--first-call-delay 121",
        r#"--first-call-delay: invalid value "121": expected a duration from 0s to 2m, such as 90s, 15m, 1h30m or 2d"#,
    );
    refused(
        "",
        &[],
        "--rate-limit 0",
        r#"--rate-limit: invalid value "0": expected off, or a whole number from 1 to 1000000 followed by /s"#,
    );
    refused(
        "",
        &[],
        "--management localhost",
        r#"--management: invalid value "localhost": expected an address and a port, such as 127.0.0.1:8170 or [::1]:8170"#,
    );
    refused(
        "",
        &[],
        "--log-level loud",
        r#"--log-level: invalid value "loud": expected one of: off, error, warn, info, debug, trace, or a list such as info,forewarn_arm=debug"#,
    );
    refused(
        "",
        &[],
        "--management-tls on",
        r#"--management-tls: invalid value "on": expected off, or an address and a port, such as 127.0.0.1:8170 or [::1]:8170"#,
    );
    refused("clock = [\"real\"]\nclock = 1", &[], "", "f.toml, line 2: invalid TOML: duplicate key");
    refused("[driver]\nkind = {}", &[], "", "f.toml, line 2: driver.kind: invalid value \"\": expected a single value");
    refused("[driver]", &[], "", r#""real""#);
}

#[test]
fn unknown_keys_are_refused_with_the_known_ones() {
    check(
        "[pool]\nsize = 3",
        &[],
        "",
        "clock",
        "f.toml, line 2: pool.size: unknown setting; valid settings: pool.network, pool.first, pool.count",
    );
    check(
        "[metadata]\naddress = 1",
        &[],
        "",
        "clock",
        "f.toml, line 2: metadata.address: metadata is a list of tables; write [[metadata]] above it",
    );
    check(
        "[pol]",
        &[],
        "",
        "clock",
        &unknown_key(&Origin::Flag("x".into()), "pol").0.replace("--x", "f.toml, line 1: pol"),
    );
    check(
        "[[metadata]]\naddress = \"127.0.0.1:1\"\nmachin = \"x\"",
        &[],
        "",
        "clock",
        "f.toml, line 3: metadata.machin: unknown setting; valid settings: address, machine, network, prefix, host, group, mode",
    );
    check("", &[("FOREWARN_PORT_8169_TCP", "tcp://10.0.0.1:8169")], "", "clock", r#""real""#);
    check("", &[], "--nonsense", "clock", "error: unexpected argument '--nonsense' found");
}

#[test]
fn conflicting_settings_are_refused() {
    let refused = |flags: &str, sentence: &str| check("", &[], flags, "clock", sentence);
    refused(
        "--no-auth --management 0.0.0.0:8170",
        "--no-auth requires a management listener on loopback, but 0.0.0.0:8170 is not: remove --no-auth, or set --management to 127.0.0.1",
    );
    refused(
        "--no-auth --management-tls 0.0.0.0:8171",
        "--no-auth requires a management listener on loopback, but 0.0.0.0:8171 is not: remove --no-auth, or set --management-tls to 127.0.0.1",
    );
    refused(
        "--management-tls 127.0.0.1:8170",
        "two listeners use the address 127.0.0.1:8170: give each its own address",
    );
    refused("--management-tls-cert /x", "management_tls_cert requires management_tls_key: set both, or neither");
    let (own, name) = ("--management-tls-cert /c --management-tls-key /k", "--management-tls-name");
    refused(
        &format!("{own} {name} a.example"),
        "management_tls_name has no effect with management_tls_cert: remove it, and use a certificate with these names",
    );
    refused(
        &format!("{name} https://a.example"),
        "--management-tls-name: invalid value \"https://a.example\": expected a DNS name such as forewarn.example.com, or an address without a port",
    );
    refused("--management-tls-key /x", "management_tls_key requires management_tls_cert: set both, or neither");
    refused(
        "--clock-start 2026-01-01T00:00:00Z",
        "clock_start requires a manual clock: set clock to manual, or remove clock_start",
    );
    refused("--driver command", "driver.kind is command, but driver.command is not set: set it to an executable");
    refused(
        "--driver simulated --driver-command /bin/true",
        "driver.kind is simulated, but driver.command is set: remove one of them (--driver, --driver-command)",
    );
    refused("--driver-argument -v", "driver.arguments requires driver.command: set it with --driver-command");
    refused("--metadata 127.0.0.1:8170", "two listeners use the address 127.0.0.1:8170: give each its own address");
    refused(
        "--memory",
        "--memory requires --no-auth, because there is no file to store a token in: add it, or remove --memory",
    );
    let from_file = "memory requires no_auth, because there is no file to store a token in: add it, or remove memory";
    check("memory = true", &[], "", "clock", from_file);
    refused("--memory --no-auth", r#""real""#);
    refused("--metadata 127.0.0.1:0 --metadata 127.0.0.1:0", r#""real""#);
    refused(
        "--pool-first 255.255.255.0",
        "the address pool is too large: there are fewer than 4194304 addresses starting at 255.255.255.0; reduce pool.count",
    );
}

#[test]
fn a_driver_command_that_cannot_be_executed_is_refused() {
    let refused = |command: &str, what: &str| {
        let advice = "set it to an executable file and pass arguments with --driver-argument";
        let message = format!("driver.command: cannot run {command:?}: {what}; {advice}");
        check(&format!("driver.command = {command:?}"), &[], "", "clock", &message);
    };
    refused("/bin/true --verbose", "No such file or directory (os error 2)");
    refused("/tmp", "not a file");
    refused("/proc/version", "not executable");
    refused("no-such-driver", "not found in PATH");
    check("", &[], "--driver-command true", "driver.command", r#""true""#);
}

#[test]
fn the_file_in_the_data_directory_is_read_and_cannot_set_the_data_directory() {
    let directory = tempfile::tempdir().unwrap();
    let flags = format!("--data {}", directory.path().display());
    let file = directory.path().join(FILE_NAME);
    assert_eq!(outcome(None, &[], &flags, "notice_scale"), "1");
    fs::write(&file, "notice_scale = 9").unwrap();
    assert_eq!(outcome(None, &[], &flags, "notice_scale"), "9");
    fs::write(&file, "data = \"/elsewhere\"").unwrap();
    let sentence = "line 1: data: cannot be set in the file of the data directory; remove it, or use --config";
    assert_eq!(outcome(None, &[], &flags, "data"), format!("{}, {sentence}", file.display()));
}

#[test]
fn the_printed_configuration_can_be_read_back() {
    let flags = "--memory --clock manual --clock-start 2026-01-01T00:00:00Z --driver-command /bin/x --driver-argument=-v \
                 --metadata 127.0.0.1:1,machine=a,prefix=off --metadata unix:/x";
    let typed = ["forewarn"].into_iter().chain(flags.split_whitespace());
    let serve = CommandLine::parse_from(typed).serve;
    let first = print(&read(&Sources { file: None, environment: vec![], flags: serve.flags }).unwrap().choices);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("again.toml");
    fs::write(&path, &first).unwrap();
    let again = read(&Sources { file: Some(path), environment: vec![], flags: vec![] }).unwrap();
    assert_eq!(print(&again.choices), first);
}

/// The table in docs/configuration.md must match the table of settings.
#[test]
fn the_documentation_lists_every_setting_with_its_default() {
    let row = |setting: &Setting| {
        let default = (setting.show)(&Choices::default()).map_or("not set".into(), |value| format!("`{value}`"));
        let help = setting.help.replace('|', "\\|");
        format!("| `{}` | `--{}` | `{}` | {default} | {help} |\n", setting.key, setting.flag, setting.variable())
    };
    let expected: String = SETTINGS.iter().map(row).collect();
    let document = include_str!("../../../docs/configuration.md");
    let rows = document.split_once("|---|---|---|---|---|\n").map(|(_, rest)| rest).unwrap_or_default();
    let found = rows.split_once("\n\n").map_or(rows, |(table, _)| table);
    assert_eq!(found.trim_end(), expected.trim_end(), "the table in docs/configuration.md must be\n{expected}");
}
