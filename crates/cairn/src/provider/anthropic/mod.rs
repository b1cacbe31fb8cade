//! The Anthropic Messages API.
//!
//! A pure encoder and a stateful, strict decoder; what an endpoint may do differently is a named option of
//! [`AnthropicProfile`]. Must never know: HTTP, retries, or how a stream was framed.

mod blocks;
mod cache;
mod decoder;
mod encoder;
mod finish;
mod profile;
mod replay;
mod wire;

use std::sync::Arc;

use futures_util::stream;

use super::bodies::Bodies;
use super::call::{Signal, call};
use super::options::Options;
use super::sent::announced;
use super::transport::Transport;
use super::{ModelInvocation, ModelStream, Provider, RouteError};
use crate::config::ModelConfig;
use crate::model::ModelRequest;

pub use decoder::AnthropicDecoder;
pub(crate) use encoder::Unmarked;
pub use encoder::{AnthropicRequest, encode};
pub use profile::AnthropicProfile;

/// A configured model behind an Anthropic Messages endpoint.
#[derive(Debug)]
pub struct Anthropic {
    profile: Arc<AnthropicProfile>,
    transport: Arc<Transport>,
    bodies: Bodies<Unmarked>,
}

impl Anthropic {
    /// Checks the model's configuration and makes ready to call it. Nothing is sent.
    pub fn new(config: &ModelConfig) -> Result<Self, RouteError> {
        let mut options = Options::new(&config.id, &config.options);
        let profile = AnthropicProfile::from_options(config, &mut options)?;
        let transport = Transport::new(Arc::clone(&profile.endpoint), &mut options)?;
        options.finish()?;
        Ok(Self {
            profile: Arc::new(profile),
            transport: Arc::new(transport),
            bodies: Bodies::default(),
        })
    }

    /// What this model's endpoint takes and how it is asked.
    pub fn profile(&self) -> &AnthropicProfile {
        &self.profile
    }
}

impl Provider for Anthropic {
    fn call(&self, request: &ModelRequest, invocation: ModelInvocation) -> ModelStream {
        let marked = |body: &Unmarked| body.marked(&self.profile);
        let encoded = match self.bodies.encode(request, &self.profile, marked) {
            Ok(Ok(encoded)) => encoded,
            Ok(Err(failure)) | Err(failure) => return Box::pin(stream::iter([Err(failure)])),
        };
        let digest = self.profile.endpoint.digest(encoded.items().to_vec(), false);
        let cancel = invocation.cancel.clone();
        let profile = Arc::clone(&self.profile);
        let events = call(Arc::clone(&self.transport), encoded.body, invocation, move || {
            let mut decoder = AnthropicDecoder::new(&profile);
            move |signal: Signal<'_>, events: &mut _| match signal {
                Signal::Event(event) => decoder.push(event, events),
                Signal::End => decoder.finish(),
            }
        });
        announced(digest, cancel, events)
    }
}
