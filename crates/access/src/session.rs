//! Portal sessions: single-use codes become sessions, and sessions survive a restart.
//!
//! ```text
//!  link(holder) ─▶ code (once, soon) ─▶ begin ─▶ cookie ─▶ find ─▶ Session (who, CSRF token) ─▶ end
//! ```
//!
//! `Access::session` checks each time whether the credential is still valid. Only digests are kept, in memory and in the file,
//! so reading them does not help to sign in. Codes live in memory. Times are real, whatever the program's clock shows.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use super::credential::{Credential, Holder};
use super::token_file::random_token;
use super::{Principal, Role};
use crate::digest::digest_of;
use crate::secret_file::{self, SecretFileError};
use crate::tls::now;

/// Long enough to open a browser, too short to be misused from a terminal's history.
pub const CODE_LIFE: Duration = Duration::from_secs(300);

/// Unused links of one principal. One more replaces the principal's oldest.
pub(crate) const CODES_PER_PRINCIPAL: usize = 16;

/// Unused links of all principals. One more replaces the oldest of the principal with the most.
pub(crate) const CODES_MAX: usize = 256;

/// The lifetime of a session: a working day.
pub const SESSION_SECS: i64 = 12 * 3600;

/// Concurrent sessions of one principal: a few devices of each person who shares a token. One more replaces the principal's
/// oldest, so that a reader cannot sign out an operator.
pub(crate) const SESSIONS_PER_PRINCIPAL: usize = 64;

/// Concurrent sessions of all principals. One more replaces the oldest of the principal with the most.
pub(crate) const SESSIONS_MAX: usize = 1024;

/// Its name in the data directory.
pub const SESSIONS_FILE: &str = "portal-sessions.json";

/// A session takes about 200 bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

pub struct Sessions {
    /// None: sessions end with the process.
    file: Option<PathBuf>,
    kept: Mutex<SessionTables>,
}

#[derive(Default)]
struct SessionTables {
    codes: HashMap<String, Code>,
    sessions: Vec<SessionRecord>,
}

struct Code {
    holder: Holder,
    made: Instant,
}

/// A session or a sign-in link as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The digest of the cookie's value, or of the link's code.
    pub(crate) digest: String,
    name: String,
    role: Role,
    /// The credential that it was started with.
    #[serde(default)]
    credential: Credential,
    /// Seconds since 1970.
    pub(crate) ends: i64,
}

impl SessionRecord {
    /// A new session, and the value of its cookie.
    pub fn session(holder: &Holder) -> (SessionRecord, String) {
        SessionRecord::new("session", holder, SESSION_SECS)
    }

    /// A new sign-in link, and its code.
    pub(crate) fn code(holder: &Holder) -> (SessionRecord, String) {
        SessionRecord::new("code", holder, CODE_LIFE.as_secs().cast_signed())
    }

    fn new(purpose: &str, Holder { principal, credential }: &Holder, life_secs: i64) -> (SessionRecord, String) {
        let value = random_token();
        let ends = now() + life_secs;
        let record = SessionRecord {
            digest: digest_of(purpose, &value),
            name: principal.name.to_string(),
            role: principal.role,
            credential: credential.clone(),
            ends: credential.expires_at().map_or(ends, |until| until.min(ends)),
        };
        (record, value)
    }

    pub fn holder(&self) -> Holder {
        let principal = Principal { name: self.name.as_str().into(), role: self.role };
        Holder { principal, credential: self.credential.clone() }
    }

    pub(crate) fn principal_key(&self) -> PrincipalKey {
        (self.name.clone(), self.role)
    }

    pub(crate) fn is_current(&self) -> bool {
        self.ends > now()
    }

    /// The session of a browser that has this cookie.
    pub(crate) fn open(&self, cookie: &str) -> Session {
        Session { holder: self.holder(), csrf: digest_of("csrf", cookie) }
    }
}

/// The path and query of a sign-in link.
pub(crate) fn link_path(code: &str) -> String {
    format!("/portal/sign-in?code={code}")
}

/// A signed-in browser.
#[derive(Clone, Debug)]
pub struct Session {
    pub holder: Holder,
    /// The token that every form must send.
    pub csrf: String,
}

impl Sessions {
    pub fn in_memory() -> Sessions {
        Sessions { file: None, kept: Mutex::default() }
    }

    pub fn in_directory(dir: &Path) -> Result<Sessions, SecretFileError> {
        let path = dir.join(SESSIONS_FILE);
        let text = secret_file::read(&path, FILE_BYTES_MAX)?.map(|(text, _)| text);
        let sessions = match text {
            Some(text) => serde_json::from_str(&text)
                .map_err(|error| SecretFileError::Invalid { path: path.clone(), what: error.to_string() })?,
            None => Vec::new(),
        };
        Ok(Sessions { file: Some(path), kept: Mutex::new(SessionTables { codes: HashMap::new(), sessions }) })
    }

    /// The path and query of a single-use sign-in link for this holder.
    pub fn link(&self, holder: &Holder) -> String {
        let code = random_token();
        let mut kept = self.kept();
        kept.codes.retain(|_, code| code.made.elapsed() < CODE_LIFE);
        let holders =
            kept.codes.iter().map(|(digest, code)| (principal_key(&code.holder.principal), (code.made, digest)));
        let replaced = find_replaced(holders, &principal_key(&holder.principal), CODES_PER_PRINCIPAL, CODES_MAX);
        if let Some((_, digest)) = replaced.map(|(made, digest)| (made, digest.clone())) {
            kept.codes.remove(&digest);
        }
        kept.codes.insert(digest_of("code", &code), Code { holder: holder.clone(), made: Instant::now() });
        link_path(&code)
    }

    /// Uses up a code.
    pub fn redeem(&self, code: &str) -> Option<Holder> {
        let found = self.kept().codes.remove(&digest_of("code", code))?;
        (found.made.elapsed() < CODE_LIFE).then_some(found.holder)
    }

    /// Starts a session and returns the value of its cookie.
    pub fn begin(&self, holder: &Holder) -> String {
        let (record, value) = SessionRecord::session(holder);
        let mut kept = self.kept();
        kept.sessions.retain(SessionRecord::is_current);
        let rows = kept.sessions.iter().enumerate().map(|(place, row)| (row.principal_key(), place));
        let replaced = find_replaced(rows, &record.principal_key(), SESSIONS_PER_PRINCIPAL, SESSIONS_MAX);
        if let Some(place) = replaced {
            kept.sessions.remove(place);
        }
        kept.sessions.push(record);
        self.store(&kept);
        value
    }

    pub fn find(&self, value: &str) -> Option<Session> {
        let digest = digest_of("session", value);
        let kept = self.kept();
        let record = kept.sessions.iter().find(|record| record.digest == digest && record.is_current())?;
        Some(record.open(value))
    }

    pub fn end(&self, value: &str) {
        let digest = digest_of("session", value);
        let mut kept = self.kept();
        kept.sessions.retain(|row| row.digest != digest);
        self.store(&kept);
    }

    /// A session that cannot be stored ends with the process.
    fn store(&self, kept: &SessionTables) {
        let Some(file) = &self.file else { return };
        let text = serde_json::to_string(&kept.sessions).expect("texts and numbers can be written as JSON");
        if let Err(error) = secret_file::replace(file, &text) {
            tracing::warn!(%error, "cannot store the portal sessions");
        }
    }

    fn kept(&self) -> MutexGuard<'_, SessionTables> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) type PrincipalKey = (String, Role);

fn principal_key(principal: &Principal) -> PrincipalKey {
    (principal.name.to_string(), principal.role)
}

/// The entry that a new one of this principal replaces: the oldest of the same principal at its limit, else the oldest of the
/// principal with the most when the total is reached.
pub(crate) fn find_replaced<Age: Ord>(
    entries: impl Iterator<Item = (PrincipalKey, Age)>,
    principal: &PrincipalKey,
    per_principal: usize,
    total: usize,
) -> Option<Age> {
    let mut by_principal: BTreeMap<PrincipalKey, Vec<Age>> = BTreeMap::new();
    for (key, age) in entries {
        by_principal.entry(key).or_default().push(age);
    }
    let is_full = by_principal.values().map(Vec::len).sum::<usize>() >= total;
    let has_all = by_principal.get(principal).is_some_and(|own| own.len() >= per_principal);
    let replaced = match (has_all, is_full) {
        (true, _) => by_principal.remove(principal),
        (false, true) => by_principal.into_values().max_by_key(Vec::len),
        (false, false) => None,
    };
    replaced?.into_iter().min()
}

impl Session {
    pub fn accepts(&self, csrf: &str) -> bool {
        self.csrf.as_bytes().ct_eq(csrf.as_bytes()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Holder {
        Holder { principal: Principal::owner(), credential: Credential::Open }
    }

    #[test]
    fn a_code_signs_in_once() {
        let sessions = Sessions::in_memory();
        let link = sessions.link(&owner());
        let code = link.split_once("code=").unwrap().1;
        assert_eq!(sessions.redeem(code).map(|holder| holder.principal), Some(Principal::owner()));
        assert!(sessions.redeem(code).is_none() && sessions.redeem("").is_none());
    }

    fn named(name: &str, role: Role) -> Holder {
        Holder { principal: Principal { name: name.into(), role }, credential: Credential::Open }
    }

    fn code_of(link: &str) -> &str {
        link.split_once("code=").unwrap().1
    }

    #[test]
    fn a_principal_replaces_only_its_own_sessions_and_links() {
        let sessions = Sessions::in_memory();
        let (link, cookie) = (sessions.link(&owner()), sessions.begin(&owner()));
        let reader = named("reader", Role::Reader);
        let (first_link, first) = (sessions.link(&reader), sessions.begin(&reader));
        for _ in 0..300 {
            sessions.link(&reader);
            sessions.begin(&reader);
        }
        assert!(sessions.find(&cookie).is_some(), "the owner was signed out");
        assert!(sessions.redeem(code_of(&link)).is_some(), "the owner's link was removed");
        assert!(sessions.find(&first).is_none() && sessions.redeem(code_of(&first_link)).is_none());
        assert_eq!(sessions.kept().codes.len(), CODES_PER_PRINCIPAL);
        assert_eq!(sessions.kept().sessions.len(), SESSIONS_PER_PRINCIPAL + 1);
    }

    #[test]
    fn the_sessions_and_links_of_all_principals_are_limited() {
        let sessions = Sessions::in_memory();
        let (link, cookie) = (sessions.link(&owner()), sessions.begin(&owner()));
        for number in 0..2 * SESSIONS_MAX / SESSIONS_PER_PRINCIPAL {
            for _ in 0..SESSIONS_PER_PRINCIPAL {
                sessions.link(&named(&number.to_string(), Role::Reader));
                sessions.begin(&named(&number.to_string(), Role::Reader));
            }
        }
        assert_eq!(sessions.kept().codes.len(), CODES_MAX);
        assert_eq!(sessions.kept().sessions.len(), SESSIONS_MAX);
        assert!(sessions.find(&cookie).is_some() && sessions.redeem(code_of(&link)).is_some());
    }

    #[test]
    fn sessions_outlive_a_restart_until_they_are_ended() {
        let dir = tempfile::tempdir().unwrap();
        let sessions = Sessions::in_directory(dir.path()).unwrap();
        let cookie = sessions.begin(&owner());
        let again = Sessions::in_directory(dir.path()).unwrap();
        let session = again.find(&cookie).unwrap();
        assert_eq!(session.holder.principal, Principal::owner());
        assert!(session.accepts(&session.csrf.clone()) && !session.accepts("") && !session.accepts(&cookie));
        let stored = std::fs::read_to_string(dir.path().join(SESSIONS_FILE)).unwrap();
        assert!(!stored.contains(&cookie) && !stored.contains(&session.csrf));
        again.end(&cookie);
        assert!(Sessions::in_directory(dir.path()).unwrap().find(&cookie).is_none());
    }

    #[test]
    fn a_session_ends_with_the_token_that_started_it() {
        let sessions = Sessions::in_memory();
        let signed = |until| Credential::Signed { key: "k".into(), client: None, until };
        let begin = |until| sessions.begin(&Holder { principal: Principal::owner(), credential: signed(until) });
        let (over, good, long) = (begin(now() - 1), begin(now() + 600), begin(now() + 10 * SESSION_SECS));
        assert!(sessions.find(&over).is_none() && sessions.find(&good).is_some() && sessions.find(&long).is_some());
        let ends: Vec<i64> = sessions.kept().sessions.iter().map(|row| row.ends).collect();
        assert!(ends.iter().all(|ends| *ends <= now() + SESSION_SECS), "{ends:?}");
    }

    #[test]
    fn a_file_of_an_older_program_is_read_and_its_sessions_count_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let digest = digest_of("session", "cookie");
        let text = format!(r#"[{{"digest":"{digest}","name":"owner","role":"owner","ends":{}}}]"#, now() + 600);
        secret_file::create(&dir.path().join(SESSIONS_FILE), &text).unwrap();
        let session = Sessions::in_directory(dir.path()).unwrap().find("cookie").unwrap();
        assert_eq!(session.holder.credential, Credential::Unknown);
    }
}
