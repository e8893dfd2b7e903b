//! Records over 1 MiB: etcd refuses requests over 1.5 MiB, so a large record is stored in parts, and its key names them.

use super::EtcdConnection;
use super::keys::Keys;
use super::messages::KeyValue;
use super::txn::{always, get_at, put};
use crate::contract::{LogError, Token};
use crate::encoding::decode_record;
use crate::record::{Entry, Nonce};

/// The largest value. etcd accepts 1.57 MB per request, including keys and the head.
const PART_BYTES: usize = 1 << 20;

/// First byte of a value that names parts. Formats of records are small numbers.
const MANIFEST: u8 = 0xff;

impl EtcdConnection {
    /// Stores a record that is too large in parts. Returns the value for its key. Parts without a record are deleted by
    /// the truncation that passes their revision.
    pub(super) async fn store_parts(
        &mut self,
        token: Token,
        revision: u64,
        nonce: Nonce,
        value: Vec<u8>,
    ) -> Result<Vec<u8>, LogError> {
        if value.len() <= PART_BYTES {
            return Ok(value);
        }
        let mut count = 0;
        for part in value.chunks(PART_BYTES) {
            let key = self.keys.part(revision, nonce, count);
            // If this is no longer the leader, the commit finds out.
            self.fenced(token, vec![put(key, part)]).await.map_err(certain)?;
            count += 1;
        }
        let Nonce { session, counter } = nonce;
        let numbers = [&[MANIFEST][..], &count.to_be_bytes(), &session.to_be_bytes(), &counter.to_be_bytes()];
        Ok(numbers.concat())
    }

    /// Reads an entry, with its parts as they were at this revision of etcd.
    pub(super) async fn entry_of(&mut self, kv: KeyValue, etcd_revision: i64) -> Result<Entry, LogError> {
        let invalid = || LogError::Refused(format!("invalid key in the log: {}", String::from_utf8_lossy(&kv.key)));
        let revision = u64::from_str_radix(Keys::last_part(&kv.key), 16).map_err(|_| invalid())?;
        let bytes = match kv.value.split_first() {
            Some((&MANIFEST, manifest)) => {
                let (count, nonce) = parse_manifest(manifest).ok_or_else(invalid)?;
                self.load_parts(revision, nonce, count, etcd_revision).await?
            }
            Some(_) | None => kv.value,
        };
        Ok(Entry::new(revision, decode_record(&bytes).map_err(super::invalid)?))
    }

    async fn load_parts(&mut self, revision: u64, nonce: Nonce, count: u32, at: i64) -> Result<Vec<u8>, LogError> {
        let mut bytes = Vec::with_capacity(count as usize * PART_BYTES);
        for number in 0..count {
            let key = self.keys.part(revision, nonce, number);
            let mut answer = self.txn(always(vec![get_at(key, at)])).await.map_err(certain)?;
            let part = answer.next_key().ok_or_else(|| LogError::Unavailable("a record was truncated".into()))?;
            bytes.extend(part.value);
        }
        Ok(bytes)
    }
}

/// The record itself was certainly not written by a request about its parts.
fn certain(error: LogError) -> LogError {
    match error {
        LogError::InDoubt(why) => LogError::Unavailable(why),
        LogError::Unavailable(_) | LogError::Refused(_) => error,
    }
}

fn parse_manifest(bytes: &[u8]) -> Option<(u32, Nonce)> {
    let (count, rest) = bytes.split_first_chunk::<4>()?;
    let (session, rest) = rest.split_first_chunk::<8>()?;
    let counter: &[u8; 8] = rest.try_into().ok()?;
    let nonce = Nonce { session: u64::from_be_bytes(*session), counter: u64::from_be_bytes(*counter) };
    Some((u32::from_be_bytes(*count), nonce))
}
