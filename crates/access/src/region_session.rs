//! Portal sessions and sign-in links of a cluster. They are attachments of the region, so a session that was started at one server
//! is valid at all of them, and ends everywhere.
//!
//! The leader makes each change. As in the file of a single server, only digests are stored.

use forewarn_store::{ATTACHMENTS_PAGE_MAX, Attachment, Owner, Reader, StoreError};
use serde::{Deserialize, Serialize};

use crate::credential::Holder;
use crate::digest::digest_of;
use crate::session::{
    CODES_MAX, CODES_PER_PRINCIPAL, SESSIONS_MAX, SESSIONS_PER_PRINCIPAL, Session, SessionRecord, find_replaced,
    link_path,
};

const SESSION_PREFIX: &str = "portal-session/";
const CODE_PREFIX: &str = "portal-code/";

/// A change of the sessions of a region.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionChange {
    Begin(SessionRecord),
    /// The digest of the cookie.
    End(String),
    AddLink(SessionRecord),
    /// Uses up the link whose code has this digest.
    Redeem(String),
}

/// The attachments to store, and the link that was used up.
#[derive(Debug, Default)]
pub struct PlannedChange {
    pub attachments: Vec<Attachment>,
    pub redeemed: Option<SessionRecord>,
}

impl SessionChange {
    /// A new link for this holder, and its path and query.
    pub fn add_link(holder: &Holder) -> (SessionChange, String) {
        let (record, code) = SessionRecord::code(holder);
        (SessionChange::AddLink(record), link_path(&code))
    }

    pub fn redeem(code: &str) -> SessionChange {
        SessionChange::Redeem(digest_of("code", code))
    }

    pub fn end(cookie: &str) -> SessionChange {
        SessionChange::End(digest_of("session", cookie))
    }

    /// The holder that gets something by this change.
    pub fn holder(&self) -> Option<Holder> {
        match self {
            SessionChange::Begin(record) | SessionChange::AddLink(record) => Some(record.holder()),
            SessionChange::End(_) | SessionChange::Redeem(_) => None,
        }
    }

    /// The attachments that the change stores. Blocking. The caller makes one change at a time, so that a link works once.
    pub fn plan(self, reader: &dyn Reader) -> Result<PlannedChange, StoreError> {
        let plan = |attachments| PlannedChange { attachments, redeemed: None };
        match self {
            SessionChange::Begin(record) => {
                add(reader, SESSION_PREFIX, &record, SESSIONS_PER_PRINCIPAL, SESSIONS_MAX).map(plan)
            }
            SessionChange::AddLink(record) => {
                add(reader, CODE_PREFIX, &record, CODES_PER_PRINCIPAL, CODES_MAX).map(plan)
            }
            SessionChange::End(digest) => Ok(plan(vec![remove(SESSION_PREFIX, &digest)])),
            SessionChange::Redeem(digest) => {
                let Some(found) = read(reader, CODE_PREFIX, &digest)? else { return Ok(PlannedChange::default()) };
                let redeemed = Some(found).filter(SessionRecord::is_current);
                Ok(PlannedChange { attachments: vec![remove(CODE_PREFIX, &digest)], redeemed })
            }
        }
    }
}

/// The session of a cookie. The caller checks whether its credential is still valid. Blocking.
pub fn find_region_session(reader: &dyn Reader, cookie: &str) -> Result<Option<Session>, StoreError> {
    let found = read(reader, SESSION_PREFIX, &digest_of("session", cookie))?;
    Ok(found.filter(SessionRecord::is_current).map(|record| record.open(cookie)))
}

/// Stores a record, and removes those that have ended or that it replaces.
fn add(
    reader: &dyn Reader,
    prefix: &str,
    record: &SessionRecord,
    per_principal: usize,
    total: usize,
) -> Result<Vec<Attachment>, StoreError> {
    let (current, ended): (Vec<_>, Vec<_>) = list(reader, prefix)?.into_iter().partition(SessionRecord::is_current);
    let ages = current.iter().map(|found| (found.principal_key(), (found.ends, found.digest.clone())));
    let replaced = find_replaced(ages, &record.principal_key(), per_principal, total);
    let gone = ended.into_iter().map(|record| record.digest).chain(replaced.map(|(_, digest)| digest));
    let text = serde_json::to_string(record).expect("texts and numbers can be written as JSON");
    let put = Attachment::put(Owner::Region, format!("{prefix}{}", record.digest), text);
    Ok(gone.map(|digest| remove(prefix, &digest)).chain([put]).collect())
}

fn remove(prefix: &str, digest: &str) -> Attachment {
    Attachment::remove(Owner::Region, format!("{prefix}{digest}"))
}

fn read(reader: &dyn Reader, prefix: &str, digest: &str) -> Result<Option<SessionRecord>, StoreError> {
    let text = reader.attachment(Owner::Region, &format!("{prefix}{digest}"))?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

fn list(reader: &dyn Reader, prefix: &str) -> Result<Vec<SessionRecord>, StoreError> {
    let (mut records, mut after): (Vec<SessionRecord>, Option<String>) = (Vec::new(), None);
    loop {
        let page = reader.attachments(Owner::Region, prefix, after.as_deref(), ATTACHMENTS_PAGE_MAX)?;
        let Some((last, _)) = page.last() else { return Ok(records) };
        after = Some(last.clone());
        records.extend(page.iter().filter_map(|(_, text)| serde_json::from_str(text).ok()));
    }
}

#[cfg(test)]
mod tests {
    use forewarn_store::{Batch, MemoryStore, Store as _};

    use super::*;
    use crate::{Credential, Principal, Role};

    struct Region(MemoryStore, u64);

    impl Region {
        fn new() -> Region {
            Region(MemoryStore::new(), 0)
        }

        fn make(&mut self, change: SessionChange) -> Option<SessionRecord> {
            let planned = change.plan(&*self.0.reader()).unwrap();
            let batch = Batch { attachments: planned.attachments, ..Batch::default() };
            self.1 = self.0.commit(self.1, &batch).unwrap();
            planned.redeemed
        }

        fn begin(&mut self, holder: &Holder) -> String {
            let (record, cookie) = SessionRecord::session(holder);
            self.make(SessionChange::Begin(record));
            cookie
        }

        fn find(&self, cookie: &str) -> Option<Session> {
            find_region_session(&*self.0.reader(), cookie).unwrap()
        }
    }

    fn holder(name: &str, role: Role) -> Holder {
        Holder { principal: Principal { name: name.into(), role }, credential: Credential::Open }
    }

    #[test]
    fn a_session_is_found_until_it_is_ended() {
        let mut region = Region::new();
        let cookie = region.begin(&holder("ann", Role::Operator));
        let session = region.find(&cookie).unwrap();
        assert_eq!(session.holder.principal, Principal { name: "ann".into(), role: Role::Operator });
        assert!(session.accepts(&session.csrf.clone()) && !session.accepts(""));
        let stored = format!("{:?}", region.0.reader().all_attachments(None).unwrap());
        assert!(!stored.contains(&cookie) && !stored.contains(&session.csrf), "{stored}");
        region.make(SessionChange::end(&cookie));
        assert!(region.find(&cookie).is_none());
    }

    #[test]
    fn a_link_works_once() {
        let mut region = Region::new();
        let (change, path) = SessionChange::add_link(&holder("ann", Role::Reader));
        region.make(change);
        let code = path.split_once("code=").unwrap().1;
        assert!(region.make(SessionChange::redeem("other")).is_none());
        let redeemed = region.make(SessionChange::redeem(code)).unwrap();
        assert_eq!(redeemed.holder().principal.role, Role::Reader);
        assert!(region.make(SessionChange::redeem(code)).is_none());
    }

    #[test]
    fn a_principal_replaces_only_its_own_sessions() {
        let mut region = Region::new();
        let owner = region.begin(&holder("owner", Role::Owner));
        for _ in 0..=SESSIONS_PER_PRINCIPAL {
            region.begin(&holder("reader", Role::Reader));
        }
        assert!(region.find(&owner).is_some(), "the owner was signed out");
        assert_eq!(list(&*region.0.reader(), SESSION_PREFIX).unwrap().len(), SESSIONS_PER_PRINCIPAL + 1);
    }
}
