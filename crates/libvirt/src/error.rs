//! Errors: libvirt's own, and those of the connection.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::xdr::{Decoder, XdrError, XdrResult};

/// Result of every operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Failure of a call or of the connection.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The socket cannot be opened: libvirtd does not run, or the user may not use it.
    #[error("cannot connect to {}: {source}", socket.display())]
    Connect {
        /// Path of the socket.
        socket: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// libvirt refused the call or could not carry it out.
    #[error(transparent)]
    Libvirt(#[from] LibvirtError),
    /// The connection ended before the answer arrived. The call may or may not have taken effect.
    #[error("the connection to libvirtd ended: {0}")]
    Disconnected(String),
    /// No answer arrived in time. The call may still take effect.
    #[error("libvirtd did not answer {procedure} within {} s", after.as_secs())]
    Timeout {
        /// Name of the remote procedure.
        procedure: &'static str,
        /// The time limit of the connection.
        after: Duration,
    },
    /// An answer does not follow the protocol.
    #[error("libvirtd sent an invalid answer to {procedure}: {source}")]
    Malformed {
        /// Name of the remote procedure.
        procedure: &'static str,
        /// The violation of the protocol.
        source: XdrError,
    },
    /// A call is larger than libvirt accepts.
    #[error("a call of {bytes} bytes is larger than {max} bytes")]
    TooLarge {
        /// Size of the call.
        bytes: usize,
        /// Largest size that libvirt accepts.
        max: usize,
    },
    /// More calls wait for their answers than [`CALLS_MAX`](crate::CALLS_MAX).
    #[error("{0} calls are already waiting for libvirtd")]
    Busy(usize),
    /// libvirtd wants credentials that a Unix socket cannot carry.
    #[error(
        "libvirtd requires authentication by {0}, which is not supported: set auth_unix_rw to \"none\" or \"polkit\""
    )]
    Authentication(String),
}

impl Error {
    /// The error code, if the error is libvirt's own.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Error::Libvirt(error) => Some(error.code),
            Error::Connect { .. }
            | Error::Disconnected(_)
            | Error::Timeout { .. }
            | Error::Malformed { .. }
            | Error::TooLarge { .. }
            | Error::Busy(_)
            | Error::Authentication(_) => None,
        }
    }

    /// Whether this is libvirt's error with this code.
    pub fn is(&self, code: ErrorCode) -> bool {
        self.code() == Some(code)
    }
}

/// An error reported by libvirt, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LibvirtError {
    /// The kind of the error.
    pub code: ErrorCode,
    /// The part of libvirt that reported it (`virErrorDomain`), such as 10 for the QEMU driver.
    pub domain: i32,
    /// The message, such as `Domain not found: no domain with matching name 'web1'`.
    pub message: String,
}

/// A code of libvirt (`virErrorNumber`). Only those that callers branch on have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub i32);

impl ErrorCode {
    /// The function is not supported by the driver.
    pub const NO_SUPPORT: ErrorCode = ErrorCode(3);
    /// An argument is invalid.
    pub const INVALID_ARGUMENT: ErrorCode = ErrorCode(8);
    /// The hypervisor could not carry out a command.
    pub const OPERATION_FAILED: ErrorCode = ErrorCode(9);
    /// An XML document is not well-formed or has unknown elements.
    pub const XML: ErrorCode = ErrorCode(27);
    /// A domain with this name or UUID exists already.
    pub const DOMAIN_EXISTS: ErrorCode = ErrorCode(28);
    /// The connection is read-only.
    pub const DENIED: ErrorCode = ErrorCode(29);
    /// The domain does not exist, or has just disappeared.
    pub const NO_DOMAIN: ErrorCode = ErrorCode(42);
    /// The network does not exist.
    pub const NO_NETWORK: ErrorCode = ErrorCode(43);
    /// Authentication failed.
    pub const AUTHENTICATION: ErrorCode = ErrorCode(45);
    /// The storage pool does not exist.
    pub const NO_POOL: ErrorCode = ErrorCode(49);
    /// The storage volume does not exist.
    pub const NO_VOLUME: ErrorCode = ErrorCode(50);
    /// The operation does not apply to the current state, such as suspending a domain that is shut off.
    pub const OPERATION_INVALID: ErrorCode = ErrorCode(55);
    /// Another job on the domain did not end in time.
    pub const OPERATION_TIMEOUT: ErrorCode = ErrorCode(68);
    /// The job was aborted on request.
    pub const OPERATION_ABORTED: ErrorCode = ErrorCode(78);
    /// The domain has no such metadata.
    pub const NO_METADATA: ErrorCode = ErrorCode(80);
    /// The migration could corrupt a disk.
    pub const MIGRATION_UNSAFE: ErrorCode = ErrorCode(81);
    /// The domain or its driver does not support the operation.
    pub const OPERATION_UNSUPPORTED: ErrorCode = ErrorCode(84);
    /// The agent in the guest does not answer.
    pub const AGENT_UNRESPONSIVE: ErrorCode = ErrorCode(86);
}

impl LibvirtError {
    /// Reads the payload of a failed call.
    pub(crate) fn decode(payload: &[u8]) -> XdrResult<LibvirtError> {
        let mut decoder = Decoder::new(payload);
        let (code, domain) = (ErrorCode(decoder.i32()?), decoder.i32()?);
        let message = decoder.optional_string()?;
        // The rest repeats the message in pieces. It is read only to check the structure.
        decoder.i32()?;
        decoder.optional(|decoder| {
            decoder.string()?;
            decoder.fixed::<16>()?;
            decoder.i32()
        })?;
        for _ in 0..3 {
            decoder.optional_string()?;
        }
        decoder.i32()?;
        decoder.i32()?;
        decoder.optional(|decoder| {
            decoder.string()?;
            decoder.fixed::<16>()
        })?;
        decoder.end()?;
        Ok(LibvirtError { code, domain, message: message.unwrap_or_else(|| format!("error {} without text", code.0)) })
    }
}
