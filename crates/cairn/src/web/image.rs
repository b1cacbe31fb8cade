//! Making pictures over OpenAI's images interface. Must never know: who asks, or where the picture goes.
//!
//! `POST /images/generations` takes JSON, `POST /images/edits` a form with the pictures to start from; the answer
//! holds `data[0].b64_json`, or an address in `data[0].url`. [OpenAI's API reference]

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::WebServiceError;
use super::http::Service;
use crate::config::{ConfigError, ImageGenerationConfig};

const TABLE: &str = "image_generation";
const EXPECTED: &str = "a picture as OpenAI's images interface sends it";
/// Pictures take minutes at some services.
const LIMIT: Duration = Duration::from_secs(300);
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;

/// A picture to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImageRequest {
    /// What it shows.
    pub description: String,
    /// Its shape; absent where the service shall choose.
    pub size: Option<ImageSize>,
    /// Files of pictures to start from.
    pub references: Vec<Bytes>,
}

/// The shapes that the interface knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImageSize {
    /// 1024 by 1024.
    Square,
    /// 1536 by 1024.
    Landscape,
    /// 1024 by 1536.
    Portrait,
}

impl ImageSize {
    fn as_str(self) -> &'static str {
        match self {
            Self::Square => "1024x1024",
            Self::Landscape => "1536x1024",
            Self::Portrait => "1024x1536",
        }
    }
}

/// A configured service.
#[derive(Debug)]
pub(super) struct ImageService {
    service: Service,
    model: String,
    key: Option<SecretString>,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Picture>,
}

#[derive(Deserialize)]
struct Picture {
    b64_json: Option<String>,
    url: Option<String>,
}

impl ImageService {
    pub(super) fn new(config: &ImageGenerationConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            service: Service::new(TABLE, &config.base_url, LIMIT, LARGEST_ANSWER)?,
            model: config.model.clone(),
            key: config.api_key.clone(),
        })
    }

    pub(super) async fn make(&self, request: &ImageRequest) -> Result<Vec<u8>, WebServiceError> {
        let (path, kind, body) = match request.references.is_empty() {
            true => (
                "images/generations",
                "application/json".to_owned(),
                self.json(request),
            ),
            false => {
                let (boundary, body) = self.form(request);
                (
                    "images/edits",
                    format!("multipart/form-data; boundary={boundary}"),
                    body,
                )
            }
        };
        let mut http = self
            .service
            .client()
            .post(self.service.url(path))
            .header(CONTENT_TYPE, kind)
            .body(body);
        if let Some(key) = &self.key {
            http = http.bearer_auth(key.expose_secret());
        }
        let unreadable = || self.service.unreadable(EXPECTED);
        let body = self.service.exchange(http, EXPECTED).await?;
        let answer: Answer = serde_json::from_slice(&body).map_err(|_| unreadable())?;
        match answer.data.into_iter().next() {
            Some(Picture {
                b64_json: Some(text), ..
            }) => STANDARD.decode(text).map_err(|_| unreadable()),
            // The address is the service's own; it gets no key.
            Some(Picture { url: Some(url), .. }) => {
                let url: reqwest::Url = url.parse().map_err(|_| unreadable())?;
                self.service
                    .exchange(self.service.client().get(url), EXPECTED)
                    .await
            }
            _ => Err(unreadable()),
        }
    }

    fn json(&self, request: &ImageRequest) -> Vec<u8> {
        let mut body = serde_json::json!({ "model": self.model, "prompt": request.description, "n": 1 });
        if let Some(size) = request.size {
            body["size"] = size.as_str().into();
        }
        body.to_string().into_bytes()
    }

    /// A form, and a boundary that cannot stand in it: it is made from all that the form holds.
    fn form(&self, request: &ImageRequest) -> (String, Vec<u8>) {
        let mut digest = Sha256::new();
        digest.update(&request.description);
        for reference in &request.references {
            digest.update(reference);
        }
        let boundary = hex::encode(digest.finalize());
        let mut body = Vec::new();
        let mut part = |head: &str, content: &[u8]| {
            body.extend_from_slice(
                format!("--{boundary}\r\ncontent-disposition: form-data; {head}\r\n\r\n").as_bytes(),
            );
            body.extend_from_slice(content);
            body.extend_from_slice(b"\r\n");
        };
        part("name=\"model\"", self.model.as_bytes());
        part("name=\"prompt\"", request.description.as_bytes());
        part("name=\"n\"", b"1");
        if let Some(size) = request.size {
            part("name=\"size\"", size.as_str().as_bytes());
        }
        for (index, reference) in request.references.iter().enumerate() {
            let (kind, ending) = kind_of(reference);
            part(
                &format!("name=\"image[]\"; filename=\"{index}.{ending}\"\r\ncontent-type: {kind}"),
                reference,
            );
        }
        body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        (boundary, body)
    }
}

/// What a picture's first bytes show.
fn kind_of(picture: &[u8]) -> (&'static str, &'static str) {
    match picture {
        [0xFF, 0xD8, 0xFF, ..] => ("image/jpeg", "jpg"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => ("image/webp", "webp"),
        _ => ("image/png", "png"),
    }
}
