//! OpenAI Responses and the endpoints that speak it, without any state at the endpoint.
//!
//! A pure encoder and a stateful, strict decoder; leniency lives only in the named options of [`ResponsesProfile`]. Must
//! never know: HTTP, retries of the same bytes, or how a stream was framed.

mod calls;
mod decoder;
mod encoder;
mod items;
mod profile;
mod replay;
mod wire;

use std::sync::Arc;

use futures_util::{StreamExt, stream};

use super::bodies::Bodies;
use super::call::{Signal, call};
use super::fault::is_of_encrypted_reasoning;
use super::options::Options;
use super::sent::announced;
use super::transport::Transport;
use super::{ModelInvocation, ModelStream, Provider, RouteError};
use crate::config::ModelConfig;
use crate::model::{ModelRequest, ProviderFailure, ProviderFault, RequestDigest};

pub use decoder::ResponsesDecoder;
pub use encoder::{ResponsesRequest, encode};
pub use profile::ResponsesProfile;

/// A configured model behind an OpenAI Responses endpoint.
#[derive(Clone, Debug)]
pub struct OpenAiResponses {
    profile: Arc<ResponsesProfile>,
    transport: Arc<Transport>,
    bodies: Arc<Bodies<ResponsesRequest>>,
}

impl OpenAiResponses {
    /// Checks the model's configuration and makes ready to call it. Nothing is sent.
    pub fn new(config: &ModelConfig) -> Result<Self, RouteError> {
        let mut options = Options::new(&config.id, &config.options);
        let profile = ResponsesProfile::from_options(config, &mut options)?;
        let transport = Transport::new(Arc::clone(&profile.endpoint), &mut options)?;
        options.finish()?;
        Ok(Self {
            profile: Arc::new(profile),
            transport: Arc::new(transport),
            bodies: Arc::default(),
        })
    }

    /// How this model's endpoint differs from the API as documented.
    pub fn profile(&self) -> &ResponsesProfile {
        &self.profile
    }

    fn send(
        &self,
        request: ResponsesRequest,
        invocation: ModelInvocation,
        new_decoder: fn(&ResponsesProfile) -> ResponsesDecoder,
    ) -> ModelStream {
        let profile = Arc::clone(&self.profile);
        call(Arc::clone(&self.transport), request.body, invocation, move || {
            let mut decoder = new_decoder(&profile);
            move |signal: Signal<'_>, events: &mut _| match signal {
                Signal::Event(event) => decoder.push(event, events),
                Signal::End => decoder.finish(events),
            }
        })
    }

    fn digest(&self, request: &ResponsesRequest, without_reasoning: bool) -> RequestDigest {
        self.profile
            .endpoint
            .digest(request.digests().to_vec(), without_reasoning)
    }

    /// Sends the request once more without the reasoning of its history. The answer's replay state says so, and with it
    /// every later request leaves that reasoning out: the one reset that this API forces, and it is durable.
    fn send_reset(&self, request: &ModelRequest, invocation: ModelInvocation) -> ModelStream {
        tracing::warn!(
            run = %invocation.run,
            provider_call_index = invocation.provider_call_index,
            model = self.profile.endpoint.model_id,
            "the endpoint refused the reasoning of the history; it is left out from here on"
        );
        match encoder::encode_reset(request, &self.profile) {
            Ok(encoded) => {
                let (digest, cancel) = (self.digest(&encoded, true), invocation.cancel.clone());
                let events = self.send(encoded, invocation, ResponsesDecoder::after_reset);
                announced(digest, cancel, events)
            }
            Err(failure) => failed(failure),
        }
    }
}

impl Provider for OpenAiResponses {
    fn call(&self, request: &ModelRequest, invocation: ModelInvocation) -> ModelStream {
        let encoded = match self.bodies.encode(request, &self.profile, Clone::clone) {
            Ok(encoded) => encoded,
            Err(failure) => return failed(failure),
        };
        let may_reset = encoded.carries_reasoning();
        let (digest, cancel) = (self.digest(&encoded, false), invocation.cancel.clone());
        let mut first = self.send(encoded, invocation.clone(), ResponsesDecoder::new);
        if !may_reset {
            return announced(digest, cancel, first);
        }
        let (provider, request) = (self.clone(), request.clone());
        let stream = stream::once(async move {
            match first.next().await {
                Some(Err(failure)) if refuses_reasoning(&failure) => {
                    provider.send_reset(&request, invocation)
                }
                Some(item) => Box::pin(stream::iter([item]).chain(first)),
                None => Box::pin(stream::empty()),
            }
        });
        announced(digest, cancel, Box::pin(stream.flatten()))
    }
}

fn failed(failure: ProviderFailure) -> ModelStream {
    Box::pin(stream::iter([Err(failure)]))
}

/// Whether the endpoint cannot read the encrypted reasoning that it is said to have made: its account or its keys changed.
fn refuses_reasoning(failure: &ProviderFailure) -> bool {
    if failure.fault != ProviderFault::InvalidRequest {
        return false;
    }
    failure.code.as_deref() == Some("invalid_encrypted_content")
        || is_of_encrypted_reasoning(&failure.message.to_ascii_lowercase())
}
