//! The bytes that the store reads: records of a database that may be damaged, and archives from anywhere.

use forewarn_store::record::{self, Interner};
use forewarn_store::{MemoryStore, archive};

/// Three lines: kind, key and body of a record.
pub fn check_record(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut lines = text.splitn(3, '\n');
    let (Some(kind), Some(key), Some(body)) = (lines.next(), lines.next(), lines.next()) else { return };
    let Ok(entity) = record::decode(kind, key, record::VERSION, body, &mut Interner::default()) else { return };
    let stored = record::encode(&entity);
    let again = record::decode(stored.kind, &stored.key, stored.version, &stored.body, &mut Interner::default());
    assert_eq!(again.ok(), Some(entity), "a record that was read cannot be written and read again");
}

pub fn check_archive(input: &[u8]) {
    let mut store = MemoryStore::new();
    let Ok(imported) = archive::import(input, &mut store) else { return };
    let mut exported = Vec::new();
    let written = archive::export(&mut store, &mut exported).expect("an imported archive can be exported");
    // A record of an older version can contain two entities.
    assert!(written.records >= imported.records, "records were lost");
    let again = archive::import(&exported[..], &mut MemoryStore::new()).expect("an exported archive can be imported");
    assert_eq!(again.records, written.records, "records were lost");
}
