//! OpenAI Chat Completions and the many endpoints that speak a dialect of it.
//!
//! A pure encoder and a stateful, strict decoder; leniency lives only in the named options of [`ChatProfile`]. Must never
//! know: HTTP, retries, or how a stream was framed.

mod calls;
mod decoder;
mod encoder;
mod profile;
mod reasoning;
mod results;
mod wire;

use std::sync::Arc;

use futures_util::stream;
use http::HeaderValue;

use super::bodies::Bodies;
use super::call::{Signal, call};
use super::openai;
use super::options::Options;
use super::sent::announced;
use super::transport::{Outgoing, Transport};
use super::{ModelInvocation, ModelStream, Provider, RouteError};
use crate::config::ModelConfig;
use crate::model::ModelRequest;

pub use decoder::ChatDecoder;
pub use encoder::{ChatRequest, encode};
pub use profile::ChatProfile;

/// A configured model behind an OpenAI Chat endpoint.
#[derive(Debug)]
pub struct OpenAiChat {
    profile: Arc<ChatProfile>,
    transport: Arc<Transport>,
    bodies: Bodies<ChatRequest>,
}

impl OpenAiChat {
    /// Checks the model's configuration and makes ready to call it. Nothing is sent.
    pub fn new(config: &ModelConfig) -> Result<Self, RouteError> {
        let mut options = Options::new(&config.id, &config.options);
        let profile = ChatProfile::from_options(config, &mut options)?;
        let transport = Transport::new(Arc::clone(&profile.endpoint), &mut options)?;
        options.finish()?;
        Ok(Self {
            profile: Arc::new(profile),
            transport: Arc::new(transport),
            bodies: Bodies::default(),
        })
    }

    /// How this model's endpoint differs from the API as documented.
    pub fn profile(&self) -> &ChatProfile {
        &self.profile
    }
}

impl Provider for OpenAiChat {
    fn call(&self, request: &ModelRequest, invocation: ModelInvocation) -> ModelStream {
        let sent = |encoded: &ChatRequest| (encoded.body.clone(), encoded.items().to_vec());
        let (body, items) = match self.bodies.encode(request, &self.profile, sent) {
            Ok(encoded) => encoded,
            Err(failure) => return Box::pin(stream::iter([Err(failure)])),
        };
        let mut outgoing = Outgoing::from(body);
        // The key is of hexadecimal digits, which every header takes.
        if let Some(name) = &self.profile.conversation_header
            && let Ok(key) = HeaderValue::from_str(&openai::prompt_cache_key(&request.conversation))
        {
            outgoing.headers.insert(name.clone(), key);
        }
        let digest = self.profile.endpoint.digest(items, false);
        let cancel = invocation.cancel.clone();
        let profile = Arc::clone(&self.profile);
        let events = call(Arc::clone(&self.transport), outgoing, invocation, move || {
            let mut decoder = ChatDecoder::new(&profile);
            move |signal: Signal<'_>, events: &mut _| match signal {
                Signal::Event(event) => decoder.push(event, events),
                Signal::End => decoder.finish(events),
            }
        });
        announced(digest, cancel, events)
    }
}
