//! Rewords messages about the request body, which the user did not write: they name the typed option instead of the field.

/// Options that are not named after their field.
const OPTIONS: &[(&str, &str)] = &[
    ("noticeSeconds", "--notice"),
    ("durationSeconds", "--duration"),
    ("forSeconds", "--for"),
    ("pauseSeconds", "--pause"),
    ("retryAfterSeconds", "--retry-after"),
    ("delaySeconds", "--delay"),
    ("memoryMib", "--memory"),
    ("liveMigratable", "--live-migration"),
    ("terminateNotification", "--terminate-notification-time"),
    ("notBeforeTimeout", "--terminate-notification-time"),
    ("scaleSet", "--vmss"),
    ("addresses", "--address"),
    ("windows", "--window"),
    ("hosts", "--host"),
    ("hostLabel", "--label"),
    ("groups", "--set"),
    ("group", "--set"),
    ("protected", "--protect-from-scale-in"),
    ("capacity", "--new-capacity"),
];

pub fn cli_message(message: &str) -> String {
    reword(message, |option| std::env::args().any(|word| word == option || word.starts_with(&format!("{option}="))))
}

fn reword(message: &str, is_typed: impl Fn(&str) -> bool) -> String {
    let Some(rest) = message.strip_prefix("The body: ") else { return message.to_owned() };
    let Some((field, what)) = rest.split_once(": ") else { return rest.to_owned() };
    if field.contains(' ') {
        return rest.to_owned();
    }
    match option(field).filter(|option| is_typed(option)) {
        Some(option) => format!("{option}: {what}"),
        // A message that quotes the value needs no field name.
        None if what.starts_with('\'') => what.to_owned(),
        None => format!("field '{field}': {what}"),
    }
}

/// The option for the last part of a field such as `details.sku` or `windows[0].days`.
fn option(field: &str) -> Option<String> {
    let parts = field.split('.').map(|part| part.split('[').next().unwrap_or(part));
    let known = |part: &str| OPTIONS.iter().find(|(name, _)| *name == part).map(|(_, option)| (*option).to_owned());
    let names: Vec<&str> = parts.collect();
    names.iter().find_map(|part| known(part)).or_else(|| names.last().map(|last| kebab(last)))
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
    fn messages_about_a_request_body_name_the_typed_option() {
        let typed = ["--update-domain", "--notice", "--window"];
        for (message, expected) in [
            ("The body: updateDomain: '9' is too large. Use 0 to 4.", "--update-domain: '9' is too large. Use 0 to 4."),
            ("The body: noticeSeconds: too short", "--notice: too short"),
            ("The body: windows[0].days: unknown day", "--window: unknown day"),
            ("The body: name: 'a b' is not a name. Write letters.", "'a b' is not a name. Write letters."),
            ("The body: count: there must be a number here.", "field 'count': there must be a number here."),
            ("There is no machine 'x'.", "There is no machine 'x'."),
        ] {
            assert_eq!(reword(message, |option| typed.contains(&option)), expected);
        }
    }
}
