//! Access control: tokens, roles, portal sessions, machine identities, TLS certificates, and the files that hold secrets.
//!
//! It knows no HTTP routes and no rules. It never logs a secret.
//!
//! | module | contents |
//! |---|---|
//! | `access`, `principal`, `role` | who a caller is, and the access that a request requires |
//! | `token_file`, `token`, `sign_in`, `secrets` | the owner's token, signed tokens, clients and their secrets |
//! | `session`, `region_session`, `credential` | portal sessions and sign-in links, of one server or of a region; how long they are valid |
//! | `oidc` | signing in with an identity provider |
//! | `machine`, `signed_data` | identities of machines, and the signature of attested documents |
//! | `tls` (`tls::plan`: which names, and when it is renewed), `system_tls` | the certificate of the HTTPS listener, and the authorities that this computer trusts |
//! | `host_access`, `host_certificate`, `host_listeners` | join tokens and certificates of host agents, and the addresses at which they find servers |
//! | `secret_file`, `digest`, `random` | private files, digests of secrets, random values |

mod access;
mod credential;
pub mod digest;
mod host_access;
mod host_certificate;
mod host_listeners;
mod machine;
pub mod oidc;
mod principal;
mod random;
mod region_session;
mod role;
pub mod secret_file;
mod secrets;
mod session;
mod sign_in;
mod signed_data;
mod system_tls;
pub mod tls;
mod token;
mod token_file;

pub use access::{Access, AccessError, Auth, AuthenticationError};
pub use credential::{Credential, Holder};
pub use host_access::{HostAccess, HostAccessError, JOIN_TOKEN_LIFE, JoinToken, SignedCertificate};
pub use host_certificate::{
    CERTIFICATE_SECS as HOST_CERTIFICATE_SECS, HOSTS_TLS_FILE, HostAuthority, HostKey, LINK_NAME, fingerprint_of,
    new_hosts_authority,
};
pub use host_listeners::{put_host_listener, read_host_listeners, remove_host_listener};
pub use machine::{ATTACHMENT as MACHINE_ATTACHMENT, MachineIdentity};
pub use principal::{Principal, Subject};
pub use random::{random_bytes, random_guid};
pub use region_session::{PlannedChange, SessionChange, find_region_session};
pub use role::{RequiredAccess, Role, is_arm_path};
pub use secret_file::SecretFileError;
pub use secrets::{CLIENTS_FILE, Client, SIGNING_KEY_FILE, client_in};
pub use session::{CODE_LIFE, SESSION_SECS, Session, SessionRecord};
pub use sign_in::{AUDIENCE, IssuedToken, SignIn, TOKEN_HOURS_MAX, TOKEN_SECS, TokenIssuer, is_known_audience};
pub use system_tls::{AuthoritiesError, SystemTls};
pub use tls::{AUTHORITY_FILE, Certificate, Tls};
pub use token::{Claims, TokenRefusal};
pub use token_file::{TOKEN_FILE, TokenError, random_token, rotate_token};
