//! Content-addressed blobs: an id is the SHA-256 of the bytes, so a reference proves what it names.
//!
//! Must never know: what a blob holds; that follows from the field that refers to it.

use std::fmt;

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// The id of a blob: SHA-256 of its bytes. [capture]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId([u8; 32]);

/// A blob with its id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blob {
    /// SHA-256 of the data.
    pub id: BlobId,
    /// The bytes.
    pub data: Bytes,
}

/// A blob id on the wire that is not 32 bytes long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a blob id has {0} bytes; it must have 32")]
pub struct InvalidBlobId(pub usize);

impl BlobId {
    /// The id of these bytes.
    pub fn of(data: &[u8]) -> Self {
        Self(Sha256::digest(data).into())
    }

    /// Reads an id from the wire.
    ///
    /// # Errors
    /// If it is not 32 bytes long.
    pub fn from_wire(bytes: &[u8]) -> Result<Self, InvalidBlobId> {
        bytes.try_into().map(Self).map_err(|_| InvalidBlobId(bytes.len()))
    }

    /// The id as it goes on the wire.
    pub fn to_wire(self) -> Bytes {
        Bytes::copy_from_slice(&self.0)
    }

    /// The raw bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Blob {
    /// Makes the blob of these bytes.
    pub fn new(data: impl Into<Bytes>) -> Self {
        let data = data.into();
        Self {
            id: BlobId::of(&data),
            data,
        }
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobId({self})")
    }
}
