//! Long lists, split into chunks of a fixed size. Chunks near the viewport have content; the others are a link to the page
//! that starts with them, which the script replaces when they come near.

use super::fragment::Fragment;
use super::view::View;

pub struct Chunk {
    pub id: String,
    /// Address of the page that starts with this chunk.
    pub href: String,
    pub link_text: String,
    /// `None` if the chunk is not near the viewport.
    pub fragments: Option<Vec<Fragment>>,
}

/// How a list is split.
pub struct Chunking<'a> {
    pub list: &'static str,
    /// Items per chunk.
    pub size: usize,
    pub view: &'a View,
    /// Plural name of the items, for links.
    pub noun: &'a str,
    /// Address of the page, to which `field` is added.
    pub address: &'a str,
    pub field: &'static str,
}

impl Chunking<'_> {
    pub fn split<T>(&self, items: &[T], mut render: impl FnMut(&T) -> Vec<Fragment>) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        for (number, chunk) in items.chunks(self.size).enumerate() {
            let first = number * self.size;
            let id = format!("{}-{number}", self.list);
            let is_near = self.view.has_chunk(self.list, number);
            chunks.push(Chunk {
                href: format!("{}{}={first}#{id}", self.address, self.field),
                id,
                link_text: format!("{} {} to {} of {}", self.noun, first + 1, first + chunk.len(), items.len()),
                fragments: is_near.then(|| chunk.iter().flat_map(&mut render).collect()),
            });
        }
        chunks
    }
}
