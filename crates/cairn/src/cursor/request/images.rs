//! Bytes that a message refers to by content hash, and the pictures among them.
//!
//! Must never know: where blobs are kept or how they are fetched.

use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::RequestError;
use crate::cursor::proto::agent::selected_image::DataOrBlobId;
use crate::cursor::proto::agent::{SelectedContext, SelectedImage};
use crate::model::{Image, Part};

/// Gives the bytes of a blob, if they are at hand.
pub type BlobResolver<'a> = dyn Fn(&[u8]) -> Option<Bytes> + 'a;

/// A blob that a message refers to and does not carry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlobNeed {
    /// The blob's id: the SHA-256 of its bytes.
    pub id: Bytes,
    /// The field of the message that refers to it.
    pub field: &'static str,
    /// What it holds, with its place in the message, for errors.
    pub what: String,
}

impl BlobNeed {
    /// The blob's bytes, once they are proved to be what the id stands for.
    pub(super) fn resolve(&self, blobs: &BlobResolver<'_>) -> Result<Bytes, RequestError> {
        let data = blobs(&self.id).ok_or_else(|| RequestError::MissingBlob {
            what: self.what.clone(),
            id: hex::encode(&self.id),
        })?;
        self.verify(&data)?;
        Ok(data)
    }

    /// Checks that bytes are what the id stands for.
    fn verify(&self, data: &[u8]) -> Result<(), RequestError> {
        if Sha256::digest(data)[..] == self.id[..] {
            return Ok(());
        }
        Err(RequestError::BlobMismatch {
            what: self.what.clone(),
            id: hex::encode(&self.id),
        })
    }

    /// The error for bytes that are not what the field that names them says.
    pub(super) fn undecodable(&self) -> RequestError {
        RequestError::BadBlob {
            what: self.what.clone(),
            id: hex::encode(&self.id),
        }
    }
}

/// The blobs that the images of a message refer to and do not carry.
pub(super) fn image_needs(context: &SelectedContext) -> impl Iterator<Item = BlobNeed> + '_ {
    let numbered = (1..).zip(&context.selected_images);
    numbered.filter_map(|(position, image)| match &image.data_or_blob_id {
        Some(DataOrBlobId::BlobId(id)) => Some(need(position, id)),
        Some(DataOrBlobId::Data(_) | DataOrBlobId::BlobIdWithData(_)) | None => None,
    })
}

/// The images of a message in their order, each with its bytes and the type that the client names.
pub(super) fn image_parts(
    context: &SelectedContext,
    blobs: &BlobResolver<'_>,
) -> Result<Vec<Part>, RequestError> {
    let numbered = (1..).zip(&context.selected_images);
    numbered
        .map(|(position, image)| image_part(position, image, blobs))
        .collect()
}

fn image_part(
    position: usize,
    image: &SelectedImage,
    blobs: &BlobResolver<'_>,
) -> Result<Part, RequestError> {
    let data = match &image.data_or_blob_id {
        Some(DataOrBlobId::Data(data)) => data.clone(),
        Some(DataOrBlobId::BlobIdWithData(blob)) => {
            need(position, &blob.blob_id).verify(&blob.data)?;
            blob.data.clone()
        }
        Some(DataOrBlobId::BlobId(id)) => need(position, id).resolve(blobs)?,
        None => return Err(RequestError::NoImageData { position }),
    };
    Ok(Part::Image(Image {
        mime_type: Arc::from(image.mime_type.as_str()),
        data,
    }))
}

fn need(position: usize, id: &Bytes) -> BlobNeed {
    BlobNeed {
        id: id.clone(),
        field: "selected_context",
        what: format!("selected image {position}"),
    }
}
