//! Resource ids and the paths of requests.
//!
//! ```text
//! /subscriptions/S/resourceGroups/G/providers/Namespace/type/name/type/name/providers/Namespace/type/name/word
//! └────────────── scope ──────────┘└────────── provider ──────────────────┘└──────── extension ─────────┘└ tail
//! ```
//!
//! Every path is an id and perhaps one word after it, the tail: a collection (`…/virtualMachines`) or an action
//! (`…/virtualMachines/vm/restart`), which the method tells apart. Everything is read without regard to (ASCII) case, empty
//! segments do not count, and equality does not see case either. Known words are written in one spelling, names as given.
//!
//! Whether a thing exists, and what may be done to it, is not known here.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use super::types;
use crate::error::shortened;
use crate::percent::{Plus, decoded_bytes, encoded_path};

/// Longer than any id that can be made of names within their limits and useful depth.
pub const PATH_BYTES_MAX: usize = 2048;

/// As long as the names of machines and groups may be.
pub const NAME_BYTES_MAX: usize = 128;

/// Pairs of type and name below one provider. The deepest known path, to one version of an image, has six.
pub const PAIRS_MAX: usize = 8;

/// A name or a word, equal to itself in any ASCII case.
#[derive(Debug, Clone)]
pub struct Name(String);

/// Where a resource is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    Tenant,
    Subscription(Name),
    Group { subscription: Name, group: Name },
}

/// One step down: `virtualMachines/vm`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    pub kind: Name,
    pub name: Name,
}

/// A namespace and what is named in it. Without pairs it is the provider itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Provider {
    pub namespace: Name,
    pub pairs: Vec<Pair>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId {
    pub scope: Scope,
    pub provider: Option<Provider>,
    /// A resource of another provider that hangs on this one.
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
    /// A word where only `providers`, or nothing, may follow.
    Unexpected {
        word: String,
    },
    /// An id was wanted and a word follows it.
    NotAResource {
        tail: String,
    },
}

impl Path {
    /// Reads the path of a URL, still encoded, without its query.
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

    /// Namespace and types without names, `Microsoft.Compute/virtualMachineScaleSets/virtualMachines`; of the extension, if
    /// there is one. None: a subscription or a resource group.
    pub fn kind(&self) -> Option<String> {
        self.extension.as_ref().or(self.provider.as_ref()).map(Provider::kind)
    }

    /// The last name in it; the resource group's or subscription's, when nothing is below them.
    pub fn name(&self) -> Option<&Name> {
        match self.extension.as_ref().or(self.provider.as_ref()) {
            Some(provider) => provider.pairs.last().map(|pair| &pair.name),
            None => self.group().or(self.subscription()),
        }
    }

    /// The resource on which the extension hangs, or this one when it has none.
    pub fn base(&self) -> ResourceId {
        ResourceId { extension: None, ..self.clone() }
    }

    /// The id without its last pair: of the set of an instance. None when there is nothing above it in its provider.
    pub fn parent(&self) -> Option<ResourceId> {
        let mut parent = self.clone();
        let provider = parent.extension.as_mut().or(parent.provider.as_mut())?;
        provider.pairs.pop()?;
        (!provider.pairs.is_empty()).then_some(parent)
    }

    /// The same text for every spelling of the id: a key.
    pub fn key(&self) -> String {
        self.to_string().to_ascii_lowercase()
    }

    /// The id as the path of a URL.
    pub fn url_path(&self) -> String {
        encoded_path(&self.to_string())
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
    /// A name that somebody gave.
    pub fn new(text: &str) -> Result<Name, IdError> {
        match problem_of(text) {
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

    /// A word of ours, in our spelling when we know it.
    fn word(text: &str) -> Result<Name, IdError> {
        match types::spelling(text) {
            Some(known) => Ok(Name(known.to_owned())),
            None => Name::new(text),
        }
    }
}

/// Reads segments that are decoded already.
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

    /// Reads subscription and group. A word that ends the path here is a tail.
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

    /// Reads `providers`, the namespace and the pairs, up to the next `providers`. A word that ends the path is a tail.
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
            provider.pairs.push(Pair { kind, name: Name::new(&name)? });
        }
        Ok(None)
    }
}

fn decode(segment: &str) -> Result<String, IdError> {
    String::from_utf8(decoded_bytes(segment, Plus::Itself).collect()).map_err(|_| IdError::NotUtf8)
}

fn problem_of(name: &str) -> Option<&'static str> {
    const REFUSED: &[char] = &['/', '\\', '<', '>', '%', '&', '?', '#', '"'];
    if name.is_empty() {
        return Some("is empty");
    }
    if name.len() > NAME_BYTES_MAX {
        return Some("is longer than 128 bytes");
    }
    if name.contains(|c: char| c.is_control() || c.is_whitespace() || REFUSED.contains(&c)) {
        return Some("may not have blanks, control characters, quotes, slashes or any of < > % & ? #");
    }
    // Programs that tidy a path would turn these into another one.
    matches!(name, "." | "..").then_some("is a step in a path and not a name")
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
            IdError::TooLong => write!(f, "A path has at most {PATH_BYTES_MAX} bytes. Use shorter names."),
            IdError::NotUtf8 => f.write_str("A name in the path is no UTF-8. Encode names as UTF-8, percent-encoded."),
            IdError::NotAbsolute => f.write_str("An id begins with a slash: /subscriptions/…"),
            IdError::BadName { name, problem } => write!(f, "The name '{}' {problem}.", shortened(name)),
            IdError::TooDeep => write!(f, "An id has at most {PAIRS_MAX} pairs of type and name below a provider."),
            IdError::Unexpected { word } => write!(
                f,
                "'{}' cannot stand there in an id. After a subscription or a resource group comes /providers/, and after \
                 a type its name.",
                shortened(word)
            ),
            IdError::NotAResource { tail } => {
                write!(f, "The id ends with '{}', which has no name. Add the resource's name.", shortened(tail))
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
