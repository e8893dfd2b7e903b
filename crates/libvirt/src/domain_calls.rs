//! Calls about domains: finding them, their configuration, and their power.

use crate::connection::Connection;
use crate::domain::{DOMAINS_MAX, Domain, DomainInfo, State, StateInfo};
use crate::error::{ErrorCode, Result};
use crate::flags::{Affect, CreateFlags, DefineFlags, DestroyFlags, ShutdownFlags, UndefineFlags, XmlFlags};
use crate::procedure::Procedure;
use crate::uuid::Uuid;
use crate::xdr::{Decoder, Encoder};

/// Metadata in an element of its own, not a title or a description.
const METADATA_ELEMENT: i32 = 2;

impl Connection {
    /// All domains, running or not.
    ///
    /// # Errors
    ///
    /// As for every call.
    pub async fn domains(&self) -> Result<Vec<Domain>> {
        let arguments = Encoder::new().i32(1).u32(0);
        let read = |decoder: &mut Decoder<'_>| {
            let domains = decoder.list(DOMAINS_MAX, Domain::decode)?;
            decoder.u32()?;
            Ok(domains)
        };
        self.call(Procedure::ConnectListAllDomains, arguments, read).await
    }

    /// The domain with this UUID.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::NO_DOMAIN`] if there is none.
    pub async fn domain_by_uuid(&self, uuid: Uuid) -> Result<Domain> {
        self.call(Procedure::DomainLookupByUuid, Encoder::new().fixed(&uuid.0), Domain::decode).await
    }

    /// The domain with this name.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::NO_DOMAIN`] if there is none.
    pub async fn domain_by_name(&self, name: &str) -> Result<Domain> {
        self.call(Procedure::DomainLookupByName, Encoder::new().string(name), Domain::decode).await
    }

    /// The configuration of a domain as an XML document.
    ///
    /// # Errors
    ///
    /// As for every call.
    pub async fn xml(&self, domain: &Domain, flags: XmlFlags) -> Result<String> {
        self.call(Procedure::DomainGetXmlDesc, domain.arguments().u32(flags.0), |decoder| decoder.string()).await
    }

    /// The state of a domain and its reason.
    ///
    /// # Errors
    ///
    /// As for every call.
    pub async fn state(&self, domain: &Domain) -> Result<StateInfo> {
        let read = |decoder: &mut Decoder<'_>| {
            Ok(StateInfo { state: State::from_wire(decoder.i32()?), reason: decoder.i32()? })
        };
        self.call(Procedure::DomainGetState, domain.arguments().u32(0), read).await
    }

    /// Whether a domain has a definition that outlives its process.
    ///
    /// # Errors
    ///
    /// As for every call.
    pub async fn is_persistent(&self, domain: &Domain) -> Result<bool> {
        let read = |decoder: &mut Decoder<'_>| Ok(decoder.i32()? != 0);
        self.call(Procedure::DomainIsPersistent, domain.arguments(), read).await
    }

    /// State, memory and CPUs of a domain.
    ///
    /// # Errors
    ///
    /// As for every call.
    pub async fn domain_info(&self, domain: &Domain) -> Result<DomainInfo> {
        let read = |decoder: &mut Decoder<'_>| {
            Ok(DomainInfo {
                state: State::from_wire(decoder.i32()?),
                memory_max_kib: decoder.u64()?,
                memory_kib: decoder.u64()?,
                vcpus: decoder.u32()?,
                cpu_time_ns: decoder.u64()?,
            })
        };
        self.call(Procedure::DomainGetInfo, domain.arguments(), read).await
    }

    /// Pauses a domain. Succeeds if it is paused already.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::OPERATION_INVALID`] if the domain does not run.
    pub async fn suspend(&self, domain: &Domain) -> Result<()> {
        self.call_empty(Procedure::DomainSuspend, domain.arguments()).await
    }

    /// Continues a paused domain. Succeeds if it runs already.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::OPERATION_INVALID`] if the domain does not run.
    pub async fn resume(&self, domain: &Domain) -> Result<()> {
        self.call_empty(Procedure::DomainResume, domain.arguments()).await
    }

    /// Presses the reset button. A paused domain stays paused, before the first instruction of its firmware.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::OPERATION_INVALID`] if the domain does not run.
    pub async fn reset(&self, domain: &Domain) -> Result<()> {
        self.call_empty(Procedure::DomainReset, domain.arguments().u32(0)).await
    }

    /// Asks the guest to shut down, and returns immediately.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::OPERATION_INVALID`] if the domain does not run.
    pub async fn shutdown(&self, domain: &Domain, flags: ShutdownFlags) -> Result<()> {
        self.call_empty(Procedure::DomainShutdownFlags, domain.arguments().u32(flags.0)).await
    }

    /// Ends a domain immediately, as if its power cord were pulled.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::OPERATION_INVALID`] if the domain does not run.
    pub async fn destroy(&self, domain: &Domain, flags: DestroyFlags) -> Result<()> {
        self.call_empty(Procedure::DomainDestroyFlags, domain.arguments().u32(flags.0)).await
    }

    /// Starts a defined domain.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::OPERATION_INVALID`] if the domain runs already.
    pub async fn start(&self, domain: &Domain, flags: CreateFlags) -> Result<Domain> {
        self.call(Procedure::DomainCreateWithFlags, domain.arguments().u32(flags.0), Domain::decode).await
    }

    /// Defines a domain, or replaces the definition of the one with the same name and UUID.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::XML`] and others if the document is invalid; [`ErrorCode::OPERATION_FAILED`] if another domain has
    /// the name.
    pub async fn define(&self, xml: &str, flags: DefineFlags) -> Result<Domain> {
        self.call(Procedure::DomainDefineXmlFlags, Encoder::new().string(xml).u32(flags.0), Domain::decode).await
    }

    /// Removes the definition of a domain. A running domain keeps running without one.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::OPERATION_INVALID`] if the domain has something that only a flag removes.
    pub async fn undefine(&self, domain: &Domain, flags: UndefineFlags) -> Result<()> {
        self.call_empty(Procedure::DomainUndefineFlags, domain.arguments().u32(flags.0)).await
    }

    /// The metadata element of a namespace; None if the domain has none.
    ///
    /// # Errors
    ///
    /// As for every call.
    pub async fn metadata(&self, domain: &Domain, uri: &str, affect: Affect) -> Result<Option<String>> {
        let arguments = domain.arguments().i32(METADATA_ELEMENT).optional_string(Some(uri)).u32(affect.0);
        match self.call(Procedure::DomainGetMetadata, arguments, |decoder| decoder.string()).await {
            Ok(element) => Ok(Some(element)),
            Err(error) if error.is(ErrorCode::NO_METADATA) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets the metadata element of a namespace, or removes it.
    ///
    /// libvirt declares the namespace under the prefix `key`; the element itself must not.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::OPERATION_INVALID`] if `affect` has `LIVE` and the domain does not run.
    pub async fn set_metadata(
        &self,
        domain: &Domain,
        element: Option<&str>,
        key: &str,
        uri: &str,
        affect: Affect,
    ) -> Result<()> {
        let arguments = domain.arguments().i32(METADATA_ELEMENT).optional_string(element);
        let arguments = arguments.optional_string(Some(key)).optional_string(Some(uri)).u32(affect.0);
        self.call_empty(Procedure::DomainSetMetadata, arguments).await
    }
}
