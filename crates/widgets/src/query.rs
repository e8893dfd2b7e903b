//! The query of a page: filter, sort, zoom and folds. Links change one field and keep the others, so that every state of a
//! page has an address.

use std::collections::BTreeMap;

/// Fields that a page reads. More are ignored.
const FIELDS_MAX: usize = 40;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageQuery {
    fields: BTreeMap<String, String>,
}

impl PageQuery {
    pub fn parse(query: &str) -> PageQuery {
        PageQuery { fields: form_urlencoded::parse(query.as_bytes()).into_owned().take(FIELDS_MAX).collect() }
    }

    /// The trimmed value of a field, empty if it is absent.
    pub fn text(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", |value| value.trim())
    }

    pub fn number(&self, name: &str) -> usize {
        self.text(name).parse().unwrap_or(0)
    }

    /// The same query with another value. An empty value removes the field.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> PageQuery {
        let mut changed = self.clone();
        if value.is_empty() {
            changed.fields.remove(name);
        } else {
            changed.fields.insert(name.to_owned(), value.to_owned());
        }
        changed
    }

    /// Whether a field that lists words contains this one.
    pub fn has_word(&self, name: &str, word: &str) -> bool {
        self.text(name).split(',').any(|found| found == word)
    }

    /// The same query with a word added to the list in a field, or removed from it.
    #[must_use]
    pub fn with_toggled(&self, name: &str, word: &str) -> PageQuery {
        let mut words: Vec<&str> = self.text(name).split(',').filter(|found| !found.is_empty()).collect();
        match words.iter().position(|found| *found == word) {
            Some(place) => drop(words.remove(place)),
            None => words.push(word),
        }
        self.with(name, &words.join(","))
    }

    pub fn address(&self, path: &str) -> String {
        if self.fields.is_empty() {
            return path.to_owned();
        }
        let fields = form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.fields).finish();
        format!("{path}?{fields}")
    }

    /// Hidden inputs for a form that changes only this field.
    pub fn fields_except(&self, name: &str) -> Vec<(&str, &str)> {
        let others = self.fields.iter().filter(|(field, _)| *field != name && *field != "from");
        others.map(|(field, value)| (field.as_str(), value.as_str())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_change_one_field_and_keep_the_others() {
        let query = PageQuery::parse("sort=name&open=a,b&q=x%20%26");
        assert_eq!(query.with("sort", "-up").address("/"), "/?open=a%2Cb&q=x+%26&sort=-up");
        assert_eq!(query.with("sort", "").with("q", "").with("open", "").address("/"), "/");
        assert_eq!(query.with_toggled("open", "a").text("open"), "b");
        assert_eq!(query.with_toggled("open", "c").text("open"), "a,b,c");
        assert!(query.has_word("open", "b") && !query.has_word("open", "ab"));
    }
}
