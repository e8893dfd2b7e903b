//! Storage volumes: finding the volume behind a disk, and deleting it.

use crate::connection::Connection;
use crate::error::Result;
use crate::procedure::Procedure;
use crate::uuid::Uuid;
use crate::xdr::{Decoder, Encoder, XdrResult};

/// A storage pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The name.
    pub name: String,
    /// The identity.
    pub uuid: Uuid,
}

/// A storage volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Name of its pool.
    pub pool: String,
    /// Name within the pool.
    pub name: String,
    /// The identity, often the path.
    pub key: String,
}

impl Connection {
    /// The storage pool with this name.
    ///
    /// # Errors
    ///
    /// [`NO_POOL`](crate::ErrorCode::NO_POOL) if there is none.
    pub async fn pool_by_name(&self, name: &str) -> Result<Pool> {
        let read = |decoder: &mut Decoder<'_>| Ok(Pool { name: decoder.string()?, uuid: Uuid(decoder.fixed()?) });
        self.call(Procedure::StoragePoolLookupByName, Encoder::new().string(name), read).await
    }

    /// The volume with this path on the host.
    ///
    /// # Errors
    ///
    /// [`NO_VOLUME`](crate::ErrorCode::NO_VOLUME) if the path is in none of the active pools.
    pub async fn volume_by_path(&self, path: &str) -> Result<Volume> {
        self.call(Procedure::StorageVolLookupByPath, Encoder::new().string(path), Volume::decode).await
    }

    /// Deletes a volume with its data.
    ///
    /// # Errors
    ///
    /// [`NO_VOLUME`](crate::ErrorCode::NO_VOLUME) if it does not exist.
    pub async fn delete_volume(&self, volume: &Volume) -> Result<()> {
        let arguments = Encoder::new().string(&volume.pool).string(&volume.name).string(&volume.key);
        self.call_empty(Procedure::StorageVolDelete, arguments.u32(0)).await
    }
}

impl Volume {
    fn decode(decoder: &mut Decoder<'_>) -> XdrResult<Volume> {
        Ok(Volume { pool: decoder.string()?, name: decoder.string()?, key: decoder.string()? })
    }
}
