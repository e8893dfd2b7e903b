//! The ticket in a description. A description is one text on the wire and for machines; people file it under the ticket that it begins with.

/// Digits of a ticket without a separator, such as `CHG0020151`. Shorter ones are words such as `RFC1123`.
const DIGITS_MIN: usize = 5;

/// The ticket at the start of a description, and the rest.
pub fn split_ticket(description: &str) -> (Option<&str>, &str) {
    let text = description.trim();
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let word = first.trim_end_matches(':');
    if is_ticket(word) { (Some(word), rest.trim_start()) } else { (None, text) }
}

/// The description with its ticket.
pub fn join_ticket(ticket: &str, description: &str) -> String {
    format!("{} {}", ticket.trim(), description.trim()).trim().to_owned()
}

/// Whether a word looks like `CHG-20151`, `CHG0020151` or `#4711`.
fn is_ticket(word: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(number) = word.strip_prefix('#') {
        return is_number(number);
    }
    let letters = word.bytes().take_while(u8::is_ascii_uppercase).count();
    let number = &word[letters..];
    match number.strip_prefix('-') {
        Some(number) => letters > 0 && is_number(number),
        None => letters > 0 && number.len() >= DIGITS_MIN && is_number(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_begins_with_its_ticket() {
        for (text, ticket, rest) in [
            ("CHG-20151 Host firmware 4.12", Some("CHG-20151"), "Host firmware 4.12"),
            ("CHG0020151: Microcode", Some("CHG0020151"), "Microcode"),
            (" #4711 ", Some("#4711"), ""),
            ("Firmware for CHG-20151", None, "Firmware for CHG-20151"),
            ("RFC1123 dates", None, "RFC1123 dates"),
            ("r01-n03 is slow", None, "r01-n03 is slow"),
            ("Größe 5", None, "Größe 5"),
            ("", None, ""),
        ] {
            assert_eq!(split_ticket(text), (ticket, rest), "{text}");
        }
        assert_eq!(join_ticket(" CHG-1 ", "Microcode "), "CHG-1 Microcode");
        assert_eq!(join_ticket("", "Microcode"), "Microcode");
    }
}
