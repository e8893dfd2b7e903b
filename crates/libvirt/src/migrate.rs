//! Live migration, and jobs on domains.

use crate::connection::Connection;
use crate::domain::Domain;
use crate::error::Result;
use crate::flags::MigrateFlags;
use crate::params::{self, Parameter, Value};
use crate::procedure::Procedure;
use crate::xdr::{Decoder, Encoder};

/// Statistics of one job.
const STATS_MAX: usize = 64;

/// Where and how a domain migrates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migration {
    /// The libvirtd of the target as the source host reaches it, such as `qemu+tls://host2/system`.
    pub target_uri: String,
    /// Flags; `PEER2PEER` is added.
    pub flags: MigrateFlags,
    /// Address for the data, such as `tcp://10.0.0.2`. None lets the target choose.
    pub data_uri: Option<String>,
    /// Configuration at the target, if it differs.
    pub xml: Option<String>,
    /// Persistent configuration at the target, if it differs.
    pub persistent_xml: Option<String>,
    /// Bandwidth in MiB/s; None for the default.
    pub bandwidth_mib: Option<u64>,
}

/// The kind of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// No job is active.
    None,
    /// A job whose length is known.
    Bounded,
    /// A job whose length is not known.
    Unbounded,
    /// The last job has completed.
    Completed,
    /// The last job has failed.
    Failed,
    /// The last job was aborted.
    Cancelled,
    /// A kind that this version of the crate does not know.
    Other(i32),
}

/// Progress of the active job of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobInfo {
    /// The kind of the job.
    pub kind: JobKind,
    /// Elapsed time in milliseconds.
    pub elapsed_ms: u64,
    /// Estimated remaining time in milliseconds.
    pub remaining_ms: u64,
    /// Bytes to copy.
    pub total_bytes: u64,
    /// Bytes copied.
    pub processed_bytes: u64,
    /// Bytes left to copy.
    pub remaining_bytes: u64,
}

/// Statistics of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobStats {
    /// The kind of the job.
    pub kind: JobKind,
    /// Named values, such as `downtime` and `memory_remaining`.
    pub parameters: Vec<Parameter>,
}

impl Connection {
    /// Migrates a domain to another host, peer to peer, and returns when it runs there.
    ///
    /// The call has no time limit; use [`Connection::abort_job`] on another connection to end it early. If this
    /// connection ends, libvirt finishes the migration by itself.
    ///
    /// # Errors
    ///
    /// If the target refuses, or the migration failed or was aborted: then the domain runs on at the source.
    pub async fn migrate(&self, domain: &Domain, migration: &Migration) -> Result<()> {
        let flags = migration.flags | MigrateFlags::PEER2PEER;
        let arguments = domain.encode(Encoder::new()).optional_string(Some(&migration.target_uri));
        let arguments = params::encode_list(arguments, &migration.parameters());
        let arguments = arguments.opaque(&[]).u32(flags.0);
        let read = |decoder: &mut Decoder<'_>| decoder.opaque().map(drop);
        self.call_unlimited(Procedure::DomainMigratePerform3Params, arguments, read).await
    }

    /// Progress of the active job.
    ///
    /// # Errors
    ///
    /// As for every call.
    pub async fn job_info(&self, domain: &Domain) -> Result<JobInfo> {
        let read = |decoder: &mut Decoder<'_>| {
            let info = JobInfo {
                kind: JobKind::from_wire(decoder.i32()?),
                elapsed_ms: decoder.u64()?,
                remaining_ms: decoder.u64()?,
                total_bytes: decoder.u64()?,
                processed_bytes: decoder.u64()?,
                remaining_bytes: decoder.u64()?,
            };
            // The same numbers once more, for memory and files apart.
            for _ in 0..6 {
                decoder.u64()?;
            }
            Ok(info)
        };
        self.call(Procedure::DomainGetJobInfo, domain.encode(Encoder::new()), read).await
    }

    /// Statistics of the active job, or of the last one if `completed`.
    ///
    /// # Errors
    ///
    /// As for every call.
    pub async fn job_stats(&self, domain: &Domain, completed: bool) -> Result<JobStats> {
        let arguments = domain.encode(Encoder::new()).u32(completed.into());
        let read = |decoder: &mut Decoder<'_>| {
            let kind = JobKind::from_wire(decoder.i32()?);
            Ok(JobStats { kind, parameters: params::decode_list(decoder, STATS_MAX)? })
        };
        self.call(Procedure::DomainGetJobStats, arguments, read).await
    }

    /// Aborts the active job. Returns before it has ended.
    ///
    /// # Errors
    ///
    /// [`OPERATION_INVALID`](crate::ErrorCode::OPERATION_INVALID) if no job is active.
    pub async fn abort_job(&self, domain: &Domain) -> Result<()> {
        self.call_empty(Procedure::DomainAbortJob, domain.encode(Encoder::new())).await
    }
}

impl Migration {
    fn parameters(&self) -> Vec<Parameter> {
        let text = |name: &str, value: &Option<String>| {
            value.clone().map(|value| Parameter { name: name.into(), value: Value::String(value) })
        };
        let bandwidth = self.bandwidth_mib.map(Value::ULong);
        let parameters = [
            text("migrate_uri", &self.data_uri),
            text("destination_xml", &self.xml),
            text("persistent_xml", &self.persistent_xml),
            bandwidth.map(|value| Parameter { name: "bandwidth".into(), value }),
        ];
        parameters.into_iter().flatten().collect()
    }
}

impl JobKind {
    fn from_wire(word: i32) -> JobKind {
        match word {
            0 => JobKind::None,
            1 => JobKind::Bounded,
            2 => JobKind::Unbounded,
            3 => JobKind::Completed,
            4 => JobKind::Failed,
            5 => JobKind::Cancelled,
            other => JobKind::Other(other),
        }
    }
}
