//! The host: name, capabilities, resources.

use crate::connection::Connection;
use crate::error::Result;
use crate::procedure::Procedure;
use crate::xdr::{Decoder, Encoder, XdrResult};

/// Hardware of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// CPU model, such as `x86_64`.
    pub model: String,
    /// Memory in KiB.
    pub memory_kib: u64,
    /// Number of active CPUs.
    pub cpus: i32,
    /// Frequency in MHz.
    pub mhz: i32,
    /// Number of NUMA nodes.
    pub nodes: i32,
    /// Sockets per node.
    pub sockets: i32,
    /// Cores per socket.
    pub cores: i32,
    /// Threads per core.
    pub threads: i32,
}

/// A version number, such as 11.3.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// First number.
    pub major: u64,
    /// Second number.
    pub minor: u64,
    /// Third number.
    pub release: u64,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.release)
    }
}

impl Connection {
    /// The host name.
    ///
    /// # Errors
    ///
    /// As for every call.
    pub async fn hostname(&self) -> Result<String> {
        self.call(Procedure::ConnectGetHostname, Encoder::new(), |decoder| decoder.string()).await
    }

    /// The canonical URI of the driver.
    ///
    /// # Errors
    ///
    /// As for every call.
    pub async fn uri(&self) -> Result<String> {
        self.call(Procedure::ConnectGetUri, Encoder::new(), |decoder| decoder.string()).await
    }

    /// The version of libvirt.
    ///
    /// # Errors
    ///
    /// As for every call.
    pub async fn libvirt_version(&self) -> Result<Version> {
        self.call(Procedure::ConnectGetLibVersion, Encoder::new(), read_version).await
    }

    /// The version of the hypervisor.
    ///
    /// # Errors
    ///
    /// As for every call.
    pub async fn hypervisor_version(&self) -> Result<Version> {
        self.call(Procedure::ConnectGetVersion, Encoder::new(), read_version).await
    }

    /// Capabilities of host and hypervisor as an XML document.
    ///
    /// # Errors
    ///
    /// As for every call.
    pub async fn capabilities(&self) -> Result<String> {
        self.call(Procedure::ConnectGetCapabilities, Encoder::new(), |decoder| decoder.string()).await
    }

    /// Hardware of the host.
    ///
    /// # Errors
    ///
    /// As for every call.
    pub async fn node_info(&self) -> Result<NodeInfo> {
        self.call(Procedure::NodeGetInfo, Encoder::new(), NodeInfo::decode).await
    }

    /// Free memory of the host in bytes.
    ///
    /// # Errors
    ///
    /// As for every call.
    pub async fn free_memory(&self) -> Result<u64> {
        self.call(Procedure::NodeGetFreeMemory, Encoder::new(), |decoder| decoder.u64()).await
    }
}

fn read_version(decoder: &mut Decoder<'_>) -> XdrResult<Version> {
    let number = decoder.u64()?;
    Ok(Version { major: number / 1_000_000, minor: number / 1000 % 1000, release: number % 1000 })
}

/// Characters of the CPU model, each in a word of its own.
const MODEL_CHARS: usize = 32;

impl NodeInfo {
    fn decode(decoder: &mut Decoder<'_>) -> XdrResult<NodeInfo> {
        let mut model = Vec::with_capacity(MODEL_CHARS);
        for _ in 0..MODEL_CHARS {
            model.push(decoder.i32()?.to_le_bytes()[0]);
        }
        let end = model.iter().position(|byte| *byte == 0).unwrap_or(model.len());
        Ok(NodeInfo {
            model: String::from_utf8_lossy(&model[..end]).into_owned(),
            memory_kib: decoder.u64()?,
            cpus: decoder.i32()?,
            mhz: decoder.i32()?,
            nodes: decoder.i32()?,
            sockets: decoder.i32()?,
            cores: decoder.i32()?,
            threads: decoder.i32()?,
        })
    }
}
