//! Resource IDs and request paths.
//!
//! ```text
//! /subscriptions/S/resourceGroups/G/providers/Namespace/type/name/type/name/providers/Namespace/type/name/word
//! └────────────── scope ──────────┘└────────── provider ──────────────────┘└──────── extension ─────────┘└ tail
//! ```
//!
//! A path is an ID and, optionally, one more word, the tail: a collection (`…/virtualMachines`) or an action
//! (`…/virtualMachines/vm/restart`); the method tells them apart. Parsing and comparison ignore ASCII case, and
//! empty segments are skipped. Known words are written in their canonical spelling, names as given.
//!
//! This module does not know whether a resource exists or what may be done to it.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use super::types;
use crate::error::shorten;
use crate::percent::{PlusSign, decode_bytes, encode_path};

/// Maximum length of a path. Longer than any ID with valid names and a useful depth.
pub const PATH_BYTES_MAX: usize = 2048;

/// Maximum length of a name, the same as for machines and groups.
pub const NAME_BYTES_MAX: usize = 128;

/// Maximum number of type and name pairs below one provider. The deepest known path, to an image version, has
/// six.
pub const PAIRS_MAX: usize = 8;

/// A name or a word. Comparison ignores ASCII case.
#[derive(Debug, Clone)]
pub struct Name(String);

/// The subscription and resource group of a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    Tenant,
    Subscription(Name),
    Group { subscription: Name, group: Name },
}

/// One level of an ID: `virtualMachines/vm`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdSegment {
    pub kind: Name,
    pub name: Name,
}

/// A namespace and the pairs below it. Without pairs it is the provider itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Provider {
    pub namespace: Name,
    pub pairs: Vec<IdSegment>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId {
    pub scope: Scope,
    pub provider: Option<Provider>,
    /// A resource of another provider that is attached to this one.
    pub extension: Option<Provider>,
}

/// The path of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    pub id: ResourceId,
    pub tail: Option<Name>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdError {
    TooLong,
    NotUtf8,
    NotAbsolute,
    BadName {
        name: String,
        problem: &'static str,
    },
    TooDeep,
    /// A word where only `providers` or the end of the path is allowed.
    Unexpected {
        word: String,
    },
    /// An ID was expected, but it is followed by another word.
    NotAResource {
        tail: String,
    },
}

impl Path {
    /// Parses the path of a URL, still encoded, without its query.
    pub fn parse(raw: &str) -> Result<Path, IdError> {
        if raw.len() > PATH_BYTES_MAX {
            return Err(IdError::TooLong);
        }
        if !raw.starts_with('/') {
            return Err(IdError::NotAbsolute);
        }
        let segments = raw.split('/').filter(|segment| !segment.is_empty()).map(decode);
        Reader { segments: segments.collect::<Result<Vec<_>, _>>()?.into_iter().peekable() }.path()
    }
}

impl ResourceId {
    pub fn parse(text: &str) -> Result<ResourceId, IdError> {
        let path = Path::parse(text)?;
        match path.tail {
            Some(tail) => Err(IdError::NotAResource { tail: tail.0 }),
            None => Ok(path.id),
        }
    }

    pub fn subscription(&self) -> Option<&Name> {
        match &self.scope {
            Scope::Tenant => None,
            Scope::Subscription(subscription) | Scope::Group { subscription, .. } => Some(subscription),
        }
    }

    pub fn group(&self) -> Option<&Name> {
        match &self.scope {
            Scope::Tenant | Scope::Subscription(_) => None,
            Scope::Group { group, .. } => Some(group),
        }
    }

    /// Namespace and types without names, `Microsoft.Compute/virtualMachineScaleSets/virtualMachines`; those of
    /// the extension if there is one. None for a subscription or a resource group.
    pub fn kind(&self) -> Option<String> {
        self.extension.as_ref().or(self.provider.as_ref()).map(Provider::kind)
    }

    /// The last name, or the name of the resource group or subscription if nothing is below it.
    pub fn name(&self) -> Option<&Name> {
        match self.extension.as_ref().or(self.provider.as_ref()) {
            Some(provider) => provider.pairs.last().map(|pair| &pair.name),
            None => self.group().or(self.subscription()),
        }
    }

    /// The resource that the extension is attached to, or this one if it has no extension.
    pub fn base(&self) -> ResourceId {
        ResourceId { extension: None, ..self.clone() }
    }

    /// The ID without its last pair, for example the set of an instance. None if this is the top level of its
    /// provider.
    pub fn parent(&self) -> Option<ResourceId> {
        let mut parent = self.clone();
        let provider = parent.extension.as_mut().or(parent.provider.as_mut())?;
        provider.pairs.pop()?;
        (!provider.pairs.is_empty()).then_some(parent)
    }

    /// A lookup key: the same text for every spelling of the ID.
    pub fn key(&self) -> String {
        self.to_string().to_ascii_lowercase()
    }

    /// The ID as a URL path.
    pub fn url_path(&self) -> String {
        encode_path(&self.to_string())
    }
}

impl Provider {
    pub fn kind(&self) -> String {
        let mut kind = self.namespace.0.clone();
        for pair in &self.pairs {
            kind.push('/');
            kind.push_str(&pair.kind.0);
        }
        kind
    }
}

impl Name {
    /// Checks a name chosen by a user.
    pub fn new(text: &str) -> Result<Name, IdError> {
        match find_problem(text) {
            Some(problem) => Err(IdError::BadName { name: text.to_owned(), problem }),
            None => Ok(Name(text.to_owned())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is(&self, text: &str) -> bool {
        self.0.eq_ignore_ascii_case(text)
    }

    /// A fixed word, in its canonical spelling if known.
    fn word(text: &str) -> Result<Name, IdError> {
        match types::spelling(text) {
            Some(known) => Ok(Name(known.to_owned())),
            None => Name::new(text),
        }
    }
}

/// Reads decoded segments.
struct Reader {
    segments: std::iter::Peekable<std::vec::IntoIter<String>>,
}

impl Reader {
    fn path(mut self) -> Result<Path, IdError> {
        let mut id = ResourceId { scope: Scope::Tenant, provider: None, extension: None };
        let mut tail = self.scope(&mut id.scope)?;
        for slot in [&mut id.provider, &mut id.extension] {
            if tail.is_none() {
                tail = self.provider(slot)?;
            }
        }
        match (self.segments.next(), tail) {
            (None, tail) => Ok(Path { id, tail }),
            (Some(_), Some(tail)) => Err(IdError::Unexpected { word: tail.0 }),
            (Some(word), None) => Err(IdError::Unexpected { word }),
        }
    }

    /// Reads subscription and resource group. A word that ends the path here is a tail.
    fn scope(&mut self, scope: &mut Scope) -> Result<Option<Name>, IdError> {
        for container in ["subscriptions", "resourceGroups"] {
            let Some(word) = self.segments.next_if(|word| word.eq_ignore_ascii_case(container)) else {
                break;
            };
            let Some(name) = self.segments.next() else {
                return Name::word(&word).map(Some);
            };
            let name = Name::new(&name)?;
            *scope = match std::mem::replace(scope, Scope::Tenant) {
                Scope::Tenant => Scope::Subscription(name),
                Scope::Subscription(subscription) | Scope::Group { subscription, .. } => {
                    Scope::Group { subscription, group: name }
                }
            };
        }
        match self.segments.next_if(|word| !word.eq_ignore_ascii_case("providers")) {
            Some(word) => Name::word(&word).map(Some),
            None => Ok(None),
        }
    }

    /// Reads `providers`, the namespace and the pairs, up to the next `providers`. A word that ends the path is
    /// a tail.
    fn provider(&mut self, slot: &mut Option<Provider>) -> Result<Option<Name>, IdError> {
        let Some(word) = self.segments.next() else {
            return Ok(None);
        };
        let Some(namespace) = self.segments.next() else {
            return Name::word(&word).map(Some);
        };
        let provider = slot.insert(Provider { namespace: Name::word(&namespace)?, pairs: Vec::new() });
        while let Some(kind) = self.segments.next_if(|word| !word.eq_ignore_ascii_case("providers")) {
            let kind = Name::word(&kind)?;
            let Some(name) = self.segments.next() else {
                return Ok(Some(kind));
            };
            if provider.pairs.len() == PAIRS_MAX {
                return Err(IdError::TooDeep);
            }
            provider.pairs.push(IdSegment { kind, name: Name::new(&name)? });
        }
        Ok(None)
    }
}

fn decode(segment: &str) -> Result<String, IdError> {
    String::from_utf8(decode_bytes(segment, PlusSign::Literal).collect()).map_err(|_| IdError::NotUtf8)
}

fn find_problem(name: &str) -> Option<&'static str> {
    const REFUSED: &[char] = &['/', '\\', '<', '>', '%', '&', '?', '#', '"'];
    if name.is_empty() {
        return Some("must not be empty");
    }
    if name.len() > NAME_BYTES_MAX {
        return Some("must not be longer than 128 bytes");
    }
    if name.contains(|c: char| c.is_control() || c.is_whitespace() || REFUSED.contains(&c)) {
        return Some("must not contain spaces, control characters, quotes, slashes or any of < > % & ? #");
    }
    // Programs that normalize paths would remove these segments.
    matches!(name, "." | "..").then_some("is reserved for relative paths")
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(subscription) = self.subscription() {
            write!(f, "/subscriptions/{subscription}")?;
        }
        if let Some(group) = self.group() {
            write!(f, "/resourceGroups/{group}")?;
        }
        for provider in self.provider.iter().chain(&self.extension) {
            write!(f, "/providers/{}", provider.namespace)?;
            for pair in &provider.pairs {
                write!(f, "/{}/{}", pair.kind, pair.name)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)?;
        match &self.tail {
            Some(tail) => write!(f, "/{tail}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdError::TooLong => write!(f, "A path must not be longer than {PATH_BYTES_MAX} bytes. Use shorter names."),
            IdError::NotUtf8 => f.write_str("A name in the path is not valid UTF-8. Percent-encode names as UTF-8."),
            IdError::NotAbsolute => f.write_str("A resource ID must start with a slash: /subscriptions/…"),
            IdError::BadName { name, problem } => write!(f, "The name '{}' {problem}.", shorten(name)),
            IdError::TooDeep => write!(
                f,
                "A resource ID can have at most {PAIRS_MAX} pairs of type and name below a provider. Use a shorter ID."
            ),
            IdError::Unexpected { word } => write!(
                f,
                "'{}' is unexpected at this position of a resource ID. A subscription or resource group must be followed by \
                 /providers/, and a type by its name.",
                shorten(word)
            ),
            IdError::NotAResource { tail } => {
                write!(
                    f,
                    "The resource ID ends with '{}' and has no name after it. Add the name of the resource.",
                    shorten(tail)
                )
            }
        }
    }
}

impl std::error::Error for IdError {}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.is(&other.0)
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Name) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Name) -> Ordering {
        let lower = |name: &Name| name.0.bytes().map(|byte| byte.to_ascii_lowercase()).collect::<Vec<_>>();
        lower(self).cmp(&lower(other))
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for byte in self.0.bytes() {
            state.write_u8(byte.to_ascii_lowercase());
        }
        state.write_u8(b'/');
    }
}

#[cfg(test)]
mod tests;
