//! Rewords messages about the request, which the user did not write: they name the typed option instead of the field.

/// Options that are not named after their field. Where there are several, commands differ.
const OPTIONS: &[(&str, &[&str])] = &[
    ("noticeSeconds", &["--notice"]),
    ("durationSeconds", &["--duration"]),
    ("forSeconds", &["--for"]),
    ("pauseSeconds", &["--pause"]),
    ("retryAfterSeconds", &["--retry-after"]),
    ("delaySeconds", &["--delay"]),
    ("memoryMib", &["--memory"]),
    ("liveMigratable", &["--live-migration"]),
    ("terminateNotification", &["--terminate-notification-time"]),
    ("notBeforeTimeout", &["--terminate-notification-time", "--terminate-notice"]),
    ("scheduledEventsPolicy", &POLICY_OPTIONS),
    ("scaleSet", &["--vmss"]),
    ("addresses", &["--address"]),
    ("windows", &["--window"]),
    ("hosts", &["--host"]),
    ("hostLabel", &["--label"]),
    ("labels", &["--label"]),
    ("groups", &["--set", "--group"]),
    ("group", &["--set", "--group"]),
    ("machines", &["--vm"]),
    ("instances", &["--instance-ids", "--instance-id"]),
    ("protected", &["--protect-from-scale-in"]),
    ("capacity", &["--new-capacity", "--instance-count"]),
    ("upgradeMode", &["--upgrade-policy-mode"]),
    ("orchestration", &["--orchestration-mode"]),
    ("tags", &["--tags", "--tag"]),
    ("vmSize", &["--size", "--vm-sku"]),
    ("topics", &["--topic"]),
    ("types", &["--type"]),
    ("statuses", &["--status"]),
    ("resourceGroups", &["--resource-group"]),
    ("ids", &["--id"]),
    ("withMachines", &["--with-machines"]),
];

/// The options of a policy, with their names in the Azure CLI.
const POLICY_OPTIONS: [&str; 5] = [
    "--approve-user-reboot",
    "--approve-user-redeploy",
    "--approve-all-instances-down",
    "--enable-user-reboot-scheduled-events",
    "--enable-user-redeploy-scheduled-events",
];

pub fn cli_message(message: &str) -> String {
    let words: Vec<String> = std::env::args().collect();
    reword(message, |option| words.iter().any(|word| word == option || word.starts_with(&format!("{option}="))))
}

fn reword(message: &str, is_typed: impl Fn(&str) -> bool) -> String {
    if let Some(rest) = message.strip_prefix("The body: ").or_else(|| message.strip_prefix("The query: ")) {
        return reword_body(rest, &is_typed);
    }
    let named = ["The field '", "The query parameter '"].iter().find_map(|start| message.strip_prefix(start));
    match named.and_then(|rest| rest.split_once("' ")) {
        Some((field, what)) => match find_option(field, &is_typed) {
            Some(option) => format!("{option} {what}"),
            None => message.to_owned(),
        },
        None => reword_plain(&reword_quoted(message), &is_typed),
    }
}

/// Replaces fields that a message names without quotes. Only names that users choose are quoted at this point.
fn reword_plain(message: &str, is_typed: &impl Fn(&str) -> bool) -> String {
    let outside = |part: &str| part.split(' ').map(|word| plain_word(word, is_typed)).collect::<Vec<_>>().join(" ");
    let parts = message.split('\'').enumerate();
    let parts = parts.map(|(index, part)| if index % 2 == 0 { outside(part) } else { part.to_owned() });
    parts.collect::<Vec<_>>().join("'")
}

fn plain_word(word: &str, is_typed: &impl Fn(&str) -> bool) -> String {
    let is_field = word.contains(|letter: char| letter.is_ascii_uppercase()) && lookup(word).is_some();
    find_option(word, is_typed).filter(|_| is_field).unwrap_or_else(|| word.to_owned())
}

/// A message of the form `field: problem`.
fn reword_body(rest: &str, is_typed: &impl Fn(&str) -> bool) -> String {
    let Some((field, what)) = rest.split_once(": ") else { return rest.to_owned() };
    if field.contains(' ') {
        return rest.to_owned();
    }
    match find_option(field, is_typed) {
        Some(option) => format!("{option}: {what}"),
        // A message that quotes the value needs no field name.
        None if what.starts_with('\'') => what.to_owned(),
        None => format!("field '{field}': {what}"),
    }
}

/// Replaces the fields that a message quotes, if one of them can only be a field: names that users choose are quoted too.
fn reword_quoted(message: &str) -> String {
    let message = message.replace("withMachines=true (--with-machines)", "--with-machines");
    // The command line has no option for the role.
    let message = message.replace(", or set 'role'.", ".");
    let is_field = |word: &str| word.contains(|letter: char| letter.is_ascii_uppercase()) && lookup(word).is_some();
    let mut parts: Vec<String> = message.split('\'').map(str::to_owned).collect();
    let is_quoted = |index: usize, count: usize| index % 2 == 1 && index + 1 < count;
    let count = parts.len();
    if !parts.iter().enumerate().any(|(index, part)| is_quoted(index, count) && is_field(part)) {
        return message;
    }
    for (_, part) in parts.iter_mut().enumerate().filter(|(index, _)| is_quoted(*index, count)) {
        let option = lookup(part).and_then(|options| options.first());
        *part = option.map_or_else(|| format!("'{part}'"), |option| (*option).to_owned());
    }
    parts.concat()
}

/// The option for a field such as `details.sku` or `windows[0].days`: the typed one, or the one that the field always has.
fn find_option(field: &str, is_typed: &impl Fn(&str) -> bool) -> Option<String> {
    let names: Vec<&str> = field.split('.').map(|part| part.split('[').next().unwrap_or(part)).collect();
    match names.iter().find_map(|part| lookup(part)) {
        Some(options) => options.iter().find(|option| is_typed(option)).or(options.first()).map(|it| (*it).to_owned()),
        None => names.last().map(|last| kebab(last)).filter(|option| is_typed(option)),
    }
}

fn lookup(field: &str) -> Option<&'static [&'static str]> {
    OPTIONS.iter().find(|(name, _)| *name == field).map(|(_, options)| *options)
}

/// `updateDomain` as `--update-domain`.
fn kebab(field: &str) -> String {
    let mut option = String::from("--");
    for letter in field.chars() {
        if letter.is_ascii_uppercase() {
            option.push('-');
        }
        option.push(letter.to_ascii_lowercase());
    }
    option
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_about_a_request_name_the_typed_option() {
        let typed = [
            "--update-domain",
            "--notice",
            "--window",
            "--instance-count",
            "--group",
            "--zones",
            "--kind",
            "--terminate-notice",
        ];
        for (message, expected) in [
            ("The body: updateDomain: '9' is too large. Use 0 to 4.", "--update-domain: '9' is too large. Use 0 to 4."),
            ("The body: noticeSeconds: too short", "--notice: too short"),
            ("The body: windows[0].days: unknown day", "--window: unknown day"),
            ("The body: capacity: too large", "--instance-count: too large"),
            ("The body: groups[1]: too long", "--group: too long"),
            ("The body: name: 'a b' is not a name. Write letters.", "'a b' is not a name. Write letters."),
            ("The body: count: there must be a number here.", "field 'count': there must be a number here."),
            ("The field 'hostLabel' must have the form KEY=VALUE.", "--label must have the form KEY=VALUE."),
            ("The field 'windows' is not longer than the notice.", "--window is not longer than the notice."),
            ("The field 'zones' has more than 9 entries.", "--zones has more than 9 entries."),
            ("The field 'name' is empty.", "The field 'name' is empty."),
            ("The query parameter 'kind' has the unknown value 'x'.", "--kind has the unknown value 'x'."),
            (
                "Set exactly one of 'hosts', 'hostLabel' and 'groups', with at least one name.",
                "Set exactly one of --host, --label and --set, with at least one name.",
            ),
            ("Include them with withMachines=true (--with-machines).", "Include them with --with-machines."),
            ("There is no machine 'group'.", "There is no machine 'group'."),
            ("notBeforeTimeout must be from 5 to 15 minutes.", "--terminate-notice must be from 5 to 15 minutes."),
            (
                "Machine 'capacity' is in a group, so its own scheduledEventsPolicy has no effect.",
                "Machine 'capacity' is in a group, so its own --approve-user-reboot has no effect.",
            ),
            ("There is no machine 'my notBeforeTimeout b'.", "There is no machine 'my notBeforeTimeout b'."),
        ] {
            assert_eq!(reword(message, |option| typed.contains(&option)), expected);
        }
    }
}
