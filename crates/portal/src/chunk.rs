//! A long list in stretches. Those that the viewer looks at have their content; the others are a link to the page that
//! begins with them, which script replaces when they come near.

use super::page::Fragment;
use super::view::View;

pub struct Shelf {
    pub id: String,
    pub href: String,
    pub about: String,
    /// Nothing: nobody looks at it.
    pub fragments: Option<Vec<Fragment>>,
}

/// How a list is cut.
pub struct Shelving<'a> {
    pub list: &'static str,
    pub size: usize,
    pub view: &'a View,
    /// What its items are called.
    pub noun: &'a str,
    /// The page's address, to which `field` is added.
    pub address: &'a str,
    pub field: &'static str,
}

impl Shelving<'_> {
    pub fn shelves<T>(&self, items: &[T], mut draw: impl FnMut(&T) -> Vec<Fragment>) -> Vec<Shelf> {
        let mut shelves = Vec::new();
        for (number, stretch) in items.chunks(self.size).enumerate() {
            let first = number * self.size;
            let id = format!("{}-{number}", self.list);
            let is_seen = self.view.has(self.list, number);
            shelves.push(Shelf {
                href: format!("{}{}={first}#{id}", self.address, self.field),
                id,
                about: format!("{} {} to {} of {}", self.noun, first + 1, first + stretch.len(), items.len()),
                fragments: is_seen.then(|| stretch.iter().flat_map(&mut draw).collect()),
            });
        }
        shelves
    }
}
