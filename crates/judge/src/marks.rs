//! Marks: patterns for output lines that show what requests cannot show, such as preparation.

use regex_lite::Regex;

#[derive(Clone, Debug, Default)]
pub struct Marks {
    pub prepared: Option<Regex>,
    pub restored: Option<Regex>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Prepared,
    Restored,
}

impl Marks {
    pub fn parse(words: &[String]) -> Result<Marks, String> {
        let mut marks = Marks::default();
        for word in words {
            let (name, text) = word.split_once('=').unwrap_or((word, ""));
            let place = match name {
                "prepared" => &mut marks.prepared,
                "restored" => &mut marks.restored,
                _ => {
                    return Err(format!("invalid value '{word}' for --mark: use prepared=REGEX or restored=REGEX"));
                }
            };
            let regex = Regex::new(text).map_err(|error| {
                let reason = error.to_string();
                let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
                format!("invalid regular expression '{text}' for --mark {name}: {reason}")
            })?;
            *place = Some(regex);
        }
        Ok(marks)
    }

    /// The marks that match a line of output.
    pub fn find(&self, line: &str) -> Vec<Mark> {
        let found = [(&self.prepared, Mark::Prepared), (&self.restored, Mark::Restored)];
        found
            .into_iter()
            .filter(|(regex, _)| regex.as_ref().is_some_and(|it| it.is_match(line)))
            .map(|it| it.1)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_in_lines_and_invalid_ones_are_refused() {
        let marks = Marks::parse(&["prepared=^drain(ed|ing)".into(), "restored=back".into()]).unwrap();
        assert_eq!(marks.find("drained web_0, back soon"), [Mark::Prepared, Mark::Restored]);
        assert_eq!(marks.find("not drained"), []);
        for (word, part) in [("perpared=x", "use prepared=REGEX"), ("prepared=(", "invalid regular expression")] {
            let Err(message) = Marks::parse(&[word.into()]) else { panic!("{word} is wrong") };
            assert!(message.contains(part), "{message}");
        }
    }
}
