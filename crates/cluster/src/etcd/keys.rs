//! The keys of a region in etcd. Operators see them with `etcdctl get --prefix /forewarn/`.

use crate::record::Nonce;

#[derive(Clone, Debug)]
pub struct Keys {
    prefix: String,
}

/// A range of keys: the first one, and the one after the last.
pub type KeyRange = (Vec<u8>, Vec<u8>);

impl Keys {
    pub fn new(region: &str) -> Keys {
        Keys { prefix: format!("/forewarn/{region}/") }
    }

    fn key(&self, name: &str) -> Vec<u8> {
        [&self.prefix, name].concat().into_bytes()
    }

    pub fn leader(&self) -> Vec<u8> {
        self.key("leader")
    }

    pub fn head(&self) -> Vec<u8> {
        self.key("head")
    }

    pub fn heartbeat(&self) -> Vec<u8> {
        self.key("beat")
    }

    pub fn log(&self, revision: u64) -> Vec<u8> {
        self.key(&format!("log/{revision:016x}"))
    }

    /// All records from a revision.
    pub fn log_from(&self, revision: u64) -> KeyRange {
        (self.log(revision), self.key("log0"))
    }

    /// All records before a revision.
    pub fn log_before(&self, revision: u64) -> KeyRange {
        (self.key("log/"), self.log(revision))
    }

    /// A part of a record. The nonce keeps a late part of a failed attempt from replacing one of the next attempt.
    pub fn part(&self, revision: u64, nonce: Nonce, number: u32) -> Vec<u8> {
        let Nonce { session, counter } = nonce;
        self.key(&format!("part/{revision:016x}/{session:016x}{counter:016x}/{number:08x}"))
    }

    /// All parts of records before a revision.
    pub fn parts_before(&self, revision: u64) -> KeyRange {
        (self.key("part/"), self.key(&format!("part/{revision:016x}")))
    }

    /// A sealed secret.
    pub fn secret(&self, name: &str) -> Vec<u8> {
        self.key(&format!("secret/{name}"))
    }

    pub fn member(&self, name: &str) -> Vec<u8> {
        self.key(&format!("member/{name}"))
    }

    pub fn members(&self) -> KeyRange {
        (self.key("member/"), self.key("member0"))
    }

    /// The end of a key that [`Keys::log`] or [`Keys::member`] made.
    pub fn last_part(key: &[u8]) -> &str {
        let key = std::str::from_utf8(key).unwrap_or_default();
        key.rsplit_once('/').map_or(key, |(_, last)| last)
    }

    /// Head, leader and records, which change with commits and takeovers but not with heartbeats.
    pub fn watched(&self) -> KeyRange {
        (self.head(), self.key("log0"))
    }

    /// The revision of a key that [`Keys::log`] made.
    pub fn parse_log(&self, key: &[u8]) -> Option<u64> {
        let rest = key.strip_prefix(self.prefix.as_bytes())?.strip_prefix(b"log/")?;
        u64::from_str_radix(std::str::from_utf8(rest).ok()?, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains((from, to): &KeyRange, key: &[u8]) -> bool {
        from.as_slice() <= key && key < to.as_slice()
    }

    #[test]
    fn ranges_contain_exactly_their_keys() {
        let keys = Keys::new("r");
        assert!(contains(&keys.watched(), &keys.head()) && contains(&keys.watched(), &keys.leader()));
        assert!(contains(&keys.watched(), &keys.log(1)) && contains(&keys.watched(), &keys.log(u64::MAX)));
        assert!(!contains(&keys.watched(), &keys.heartbeat()) && !contains(&keys.watched(), &keys.member("a")));
        assert_eq!(keys.parse_log(&keys.log(u64::MAX)), Some(u64::MAX));
        assert_eq!(keys.parse_log(&keys.head()).or(keys.parse_log(&Keys::new("s").log(1))), None);
        assert!(contains(&keys.log_from(9), &keys.log(9)) && contains(&keys.log_from(9), &keys.log(u64::MAX)));
        assert!(!contains(&keys.log_from(9), &keys.log(8)) && !contains(&keys.log_from(9), &keys.member("a")));
        assert!(contains(&keys.log_before(16), &keys.log(15)) && !contains(&keys.log_before(16), &keys.log(16)));
        let nonce = Nonce { session: 1, counter: 2 };
        assert!(contains(&keys.parts_before(16), &keys.part(15, nonce, 7)));
        assert!(!contains(&keys.parts_before(16), &keys.part(16, nonce, 0)));
        assert!(contains(&keys.members(), &keys.member("z")) && !contains(&keys.members(), &keys.part(1, nonce, 1)));
        assert_eq!(Keys::last_part(&keys.member("a.b")), "a.b");
    }
}
