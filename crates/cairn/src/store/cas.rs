//! Content-addressed bytes: a blob's key is its SHA-256, so a repeat costs nothing and damage is seen.
//!
//! Must never know: what the bytes mean or whose they are.

use bytes::Bytes;
use sha2::{Digest, Sha256};
use sqlx::SqliteConnection;

use super::{Store, StoreError};

/// A blob's key: the SHA-256 of its bytes.
pub type BlobHash = [u8; 32];

impl Store {
    /// Keeps the bytes and returns their key. Keeping them again does nothing.
    pub async fn put_blob(&self, bytes: &[u8]) -> Result<BlobHash, StoreError> {
        let hash = hash_of(bytes);
        let mut tx = self.write().await?;
        insert(&mut tx, &hash, bytes).await?;
        tx.commit().await.map_err(StoreError::database("commit a blob"))?;
        Ok(hash)
    }

    /// Keeps many blobs in one transaction and returns their keys in the same order.
    pub async fn put_blobs(&self, blobs: &[Bytes]) -> Result<Vec<BlobHash>, StoreError> {
        if blobs.is_empty() {
            return Ok(Vec::new());
        }
        let mut tx = self.write().await?;
        let mut hashes = Vec::with_capacity(blobs.len());
        for bytes in blobs {
            let hash = hash_of(bytes);
            insert(&mut tx, &hash, bytes).await?;
            hashes.push(hash);
        }
        tx.commit().await.map_err(StoreError::database("commit blobs"))?;
        Ok(hashes)
    }

    /// The bytes with this key, if they are kept. Bytes that do not have their own hash are
    /// [`StoreError::Damaged`].
    pub async fn get_blob(&self, hash: &BlobHash) -> Result<Option<Bytes>, StoreError> {
        let mut connection = self.read().await?;
        fetch(&mut connection, hash).await
    }
}

pub(super) fn hash_of(bytes: &[u8]) -> BlobHash {
    Sha256::digest(bytes).into()
}

pub(super) async fn insert(
    connection: &mut SqliteConnection,
    hash: &BlobHash,
    bytes: &[u8],
) -> Result<(), StoreError> {
    sqlx::query("INSERT INTO cas (hash, bytes) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING")
        .bind(hash.as_slice())
        .bind(bytes)
        .execute(connection)
        .await
        .map_err(StoreError::database("keep a blob"))?;
    Ok(())
}

pub(super) async fn fetch(
    connection: &mut SqliteConnection,
    hash: &BlobHash,
) -> Result<Option<Bytes>, StoreError> {
    let bytes: Option<Vec<u8>> = sqlx::query_scalar("SELECT bytes FROM cas WHERE hash = ?")
        .bind(hash.as_slice())
        .fetch_optional(connection)
        .await
        .map_err(StoreError::database("read a blob"))?;
    match bytes {
        Some(bytes) if hash_of(&bytes) != *hash => Err(StoreError::damaged(
            "cas",
            hex::encode(hash),
            "the bytes have another hash",
        )),
        bytes => Ok(bytes.map(Bytes::from)),
    }
}
