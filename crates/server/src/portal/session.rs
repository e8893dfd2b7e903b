//! Who is signed in at the portal: codes that become sessions, sessions that outlive a restart.
//!
//! ```text
//!  link(principal) ─▶ code (once, soon) ─▶ begin ─▶ cookie ─▶ find ─▶ Session (who, CSRF token) ─▶ end
//! ```
//!
//! Only digests are kept, in memory and in the file: who reads it cannot sign in with what is there. Codes live
//! in memory. Times are real, whatever the program's clock shows.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::api::random_token;
use crate::identity::{Principal, Role};
use crate::secret_file::{self, SecretFileError};
use crate::tls::now;

/// Long enough to fetch a browser, too short to be found in a scroll-back tomorrow.
pub const CODE_LIFE: Duration = Duration::from_secs(300);

/// Links that nobody has followed yet. One more takes the place of the oldest.
const CODES_MAX: usize = 64;

/// A working day; then one signs in again.
pub const SESSION_SECS: i64 = 12 * 3600;

/// Browsers that are signed in at once. One more takes the place of the one that ends first.
const SESSIONS_MAX: usize = 256;

/// In the data directory.
pub const SESSIONS_FILE: &str = "portal-sessions.json";

/// Some 200 bytes for each session.
const FILE_BYTES_MAX: u64 = 1 << 20;

pub struct Sessions {
    /// None: sessions end with the process.
    file: Option<PathBuf>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    codes: HashMap<String, Code>,
    sessions: Vec<Row>,
}

struct Code {
    principal: Principal,
    made: Instant,
}

#[derive(Clone, Serialize, Deserialize)]
struct Row {
    /// Of the cookie's value.
    digest: String,
    name: String,
    role: Role,
    /// Seconds since 1970.
    ends: i64,
}

/// Somebody who is signed in.
#[derive(Clone, Debug)]
pub struct Session {
    pub principal: Principal,
    /// What every form must bring along.
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
                .map_err(|error| SecretFileError::Strange { path: path.clone(), what: error.to_string() })?,
            None => Vec::new(),
        };
        Ok(Sessions { file: Some(path), kept: Mutex::new(Kept { codes: HashMap::new(), sessions }) })
    }

    /// Path and query of a link that signs a browser in as `principal`, once.
    pub fn link(&self, principal: &Principal) -> String {
        let code = random_token();
        let mut kept = self.kept();
        kept.codes.retain(|_, code| code.made.elapsed() < CODE_LIFE);
        if kept.codes.len() >= CODES_MAX {
            let oldest = kept.codes.iter().min_by_key(|(_, code)| code.made).map(|(digest, _)| digest.clone());
            oldest.map(|oldest| kept.codes.remove(&oldest));
        }
        kept.codes.insert(digest_of("code", &code), Code { principal: principal.clone(), made: Instant::now() });
        format!("/portal/sign-in?code={code}")
    }

    /// Who a code was made for, once.
    pub fn redeem(&self, code: &str) -> Option<Principal> {
        let found = self.kept().codes.remove(&digest_of("code", code))?;
        (found.made.elapsed() < CODE_LIFE).then_some(found.principal)
    }

    /// The value of the cookie of a new session.
    pub fn begin(&self, principal: &Principal) -> String {
        let value = random_token();
        let row = Row {
            digest: digest_of("session", &value),
            name: principal.name.to_string(),
            role: principal.role,
            ends: now() + SESSION_SECS,
        };
        let mut kept = self.kept();
        kept.sessions.retain(|row| row.ends > now());
        if kept.sessions.len() >= SESSIONS_MAX {
            kept.sessions.remove(0);
        }
        kept.sessions.push(row);
        self.store(&kept);
        value
    }

    pub fn find(&self, value: &str) -> Option<Session> {
        let digest = digest_of("session", value);
        let kept = self.kept();
        let row = kept.sessions.iter().find(|row| row.digest == digest && row.ends > now())?;
        let principal = Principal { name: row.name.as_str().into(), role: row.role };
        Some(Session { principal, csrf: digest_of("csrf", value) })
    }

    pub fn end(&self, value: &str) {
        let digest = digest_of("session", value);
        let mut kept = self.kept();
        kept.sessions.retain(|row| row.digest != digest);
        self.store(&kept);
    }

    /// A session that cannot be written down ends with the process, which hurts nobody.
    fn store(&self, kept: &Kept) {
        let Some(file) = &self.file else { return };
        let text = serde_json::to_string(&kept.sessions).expect("texts and numbers can be written as JSON");
        if let Err(error) = secret_file::replace(file, &text) {
            tracing::warn!(%error, "the portal's sessions could not be written down");
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    pub fn takes(&self, csrf: &str) -> bool {
        self.csrf.as_bytes().ct_eq(csrf.as_bytes()).into()
    }
}

/// `purpose` keeps what is shown in pages from being what is stored.
fn digest_of(purpose: &str, secret: &str) -> String {
    let digest = digest(&SHA256, format!("{purpose}:{secret}").as_bytes());
    digest.as_ref().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_signs_in_once() {
        let sessions = Sessions::in_memory();
        let link = sessions.link(&Principal::owner());
        let code = link.split_once("code=").unwrap().1;
        assert_eq!(sessions.redeem(code), Some(Principal::owner()));
        assert_eq!(sessions.redeem(code), None);
        assert_eq!(sessions.redeem(""), None);
    }

    #[test]
    fn there_are_only_so_many_codes_and_sessions() {
        let sessions = Sessions::in_memory();
        let first = sessions.link(&Principal::owner());
        let cookie = sessions.begin(&Principal::owner());
        for _ in 0..CODES_MAX {
            sessions.link(&Principal::owner());
        }
        for _ in 0..SESSIONS_MAX {
            sessions.begin(&Principal::owner());
        }
        assert_eq!(sessions.redeem(first.split_once("code=").unwrap().1), None);
        assert!(sessions.find(&cookie).is_none());
        assert_eq!(sessions.kept().codes.len(), CODES_MAX);
        assert_eq!(sessions.kept().sessions.len(), SESSIONS_MAX);
    }

    #[test]
    fn sessions_outlive_a_restart_until_they_are_ended() {
        let dir = tempfile::tempdir().unwrap();
        let sessions = Sessions::in_directory(dir.path()).unwrap();
        let cookie = sessions.begin(&Principal::owner());
        let again = Sessions::in_directory(dir.path()).unwrap();
        let session = again.find(&cookie).unwrap();
        assert_eq!(session.principal, Principal::owner());
        assert!(session.takes(&session.csrf.clone()) && !session.takes("") && !session.takes(&cookie));
        let stored = std::fs::read_to_string(dir.path().join(SESSIONS_FILE)).unwrap();
        assert!(!stored.contains(&cookie) && !stored.contains(&session.csrf));
        again.end(&cookie);
        assert!(Sessions::in_directory(dir.path()).unwrap().find(&cookie).is_none());
    }
}
