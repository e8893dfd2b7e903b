//! The result of an action on several hosts or operations. If it is refused for one of them, it is still performed on the others, and the
//! confirmation says what was refused.

use forewarn_api_types::count_of;
use forewarn_widgets::query::PageQuery;

use super::flash::Flash;
use super::refusal::Refusal;

/// The objects of an action, as in `3 hosts`.
pub struct BulkNoun {
    pub noun: &'static str,
    /// The page of all of them.
    pub list: &'static str,
}

#[derive(Default)]
pub struct BulkResult {
    /// The addresses of those that the action was performed on.
    done: Vec<String>,
    /// Those that were refused, by name.
    refused: Vec<(String, Refusal)>,
}

impl BulkResult {
    pub fn add(&mut self, name: &str, href: String, result: Result<(), Refusal>) {
        match result {
            Ok(()) => self.done.push(href),
            Err(refusal) => self.refused.push((name.to_owned(), refusal)),
        }
    }

    /// The confirmation, such as `Canceled 2 operations; 'Restart of web' was refused: …`, with a link to what was changed. An error
    /// if everything was refused.
    pub fn into_flash(self, verb: &str, of: &BulkNoun) -> Result<Flash, Refusal> {
        let mut refused = self.refused.into_iter();
        let note = match (refused.next(), refused.len()) {
            (None, _) => ".".to_owned(),
            (Some((name, refusal)), _) if self.done.is_empty() => return Err(refusal.about(&name)),
            (Some((name, refusal)), 0) => format!("; '{name}' was refused: {}", refusal.message),
            (Some((name, refusal)), more) => {
                format!("; '{name}' and {more} more were refused: {}", refusal.message)
            }
        };
        let flash = Flash::new(format!("{verb} {}{note}", count_of(self.done.len(), of.noun)));
        Ok(match &self.done[..] {
            [href] => flash.with_link(href, format!("Open {}", of.noun)),
            _ => flash.with_link(of.list, format!("Open {}s", of.noun)),
        })
    }
}

/// The address of a list in which these rows are selected. Other pages keep their address.
pub fn select_rows(back: &str, list: &str, selected: &[String]) -> String {
    match back.split_once('?').unwrap_or((back, "")) {
        (path, query) if path == list => PageQuery::parse(query).with("selected", &selected.join(",")).address(list),
        _ => back.to_owned(),
    }
}
