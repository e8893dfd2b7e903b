//! Formats JSON for reading, without changing the order of its fields.

/// Indents JSON text. Text that is not JSON comes out with the same characters, except for white space.
pub fn format_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let (mut depth, mut is_string, mut is_escaped) = (0usize, false, false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if is_string {
            out.push(letter);
            is_string = is_escaped || letter != '"';
            is_escaped = letter == '\\' && !is_escaped;
            continue;
        }
        match letter {
            '"' => {
                is_string = true;
                out.push(letter);
            }
            '{' | '[' if matches!(letters.peek(), Some('}' | ']')) => {
                out.push(letter);
                out.extend(letters.next());
            }
            '{' | '[' => {
                depth += 1;
                out.push(letter);
                break_line(&mut out, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                break_line(&mut out, depth);
                out.push(letter);
            }
            ',' => {
                out.push(letter);
                break_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            letter if letter.is_whitespace() => {}
            letter => out.push(letter),
        }
    }
    out
}

fn break_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order_and_strings_their_text() {
        let text = r#"{"b":1,"a":[{"x":"y:{,\" "}],"e":[],"n":null}"#;
        let expected = "{\n  \"b\": 1,\n  \"a\": [\n    {\n      \"x\": \"y:{,\\\" \"\n    }\n  ],\n  \"e\": [],\n  \"n\": null\n}";
        assert_eq!(format_json(text), expected);
    }
}
