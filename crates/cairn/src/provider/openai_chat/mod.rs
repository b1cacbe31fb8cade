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
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{StreamExt, stream};
use http::HeaderValue;

use super::bodies::Bodies;
use super::call::{Signal, call};
use super::openai;
use super::options::Options;
use super::sent::announced;
use super::transport::{Outgoing, Transport};
use super::{ModelInvocation, ModelStream, Provider, RouteError};
use crate::config::ModelConfig;
use crate::model::{ModelRequest, ProviderFailure, ProviderFault, RequestDigest};

pub use decoder::ChatDecoder;
pub use encoder::{ChatRequest, encode};
pub use profile::ChatProfile;

/// A configured model behind an OpenAI Chat endpoint.
#[derive(Clone, Debug)]
pub struct OpenAiChat {
    transport: Arc<Transport>,
    configured: Arc<Route>,
    /// The same without `stream_options`.
    uncounted: Arc<Route>,
    /// The endpoint has refused `stream_options` since this process began.
    refuses_counting: Arc<AtomicBool>,
}

/// How requests are written, and the latest ones that were.
#[derive(Debug)]
struct Route {
    profile: Arc<ChatProfile>,
    bodies: Bodies<ChatRequest>,
}

impl Route {
    fn new(profile: ChatProfile) -> Arc<Self> {
        Arc::new(Self {
            profile: Arc::new(profile),
            bodies: Bodies::default(),
        })
    }
}

impl OpenAiChat {
    /// Checks the model's configuration and makes ready to call it. Nothing is sent.
    pub fn new(config: &ModelConfig) -> Result<Self, RouteError> {
        let mut options = Options::new(&config.id, &config.options);
        let profile = ChatProfile::from_options(config, &mut options)?;
        let transport = Transport::new(Arc::clone(&profile.endpoint), &mut options)?;
        options.finish()?;
        let uncounted = ChatProfile {
            include_usage: false,
            ..profile.clone()
        };
        Ok(Self {
            transport: Arc::new(transport),
            configured: Route::new(profile),
            uncounted: Route::new(uncounted),
            refuses_counting: Arc::default(),
        })
    }

    /// How this model's endpoint differs from the API as documented.
    pub fn profile(&self) -> &ChatProfile {
        &self.configured.profile
    }

    /// What is sent on this way, and what comes back.
    fn send(
        &self,
        route: &Route,
        request: &ModelRequest,
        invocation: ModelInvocation,
    ) -> Result<(RequestDigest, ModelStream), ProviderFailure> {
        let sent = |encoded: &ChatRequest| (encoded.body.clone(), encoded.items().to_vec());
        let (body, items) = route.bodies.encode(request, &route.profile, sent)?;
        let mut outgoing = Outgoing::from(body);
        // The key is of hexadecimal digits, which every header takes.
        if let Some(name) = &route.profile.conversation_header
            && let Ok(key) = HeaderValue::from_str(&openai::prompt_cache_key(&request.conversation))
        {
            outgoing.headers.insert(name.clone(), key);
        }
        let digest = route.profile.endpoint.digest(items, false);
        let profile = Arc::clone(&route.profile);
        let events = call(Arc::clone(&self.transport), outgoing, invocation, move || {
            let mut decoder = ChatDecoder::new(&profile);
            move |signal: Signal<'_>, events: &mut _| match signal {
                Signal::Event(event) => decoder.push(event, events),
                Signal::End => decoder.finish(events),
            }
        });
        Ok((digest, events))
    }

    /// Sends the request on the way without `stream_options`, from here on for as long as this process lives. What a
    /// model reads is the same.
    fn send_uncounted(&self, request: &ModelRequest, invocation: ModelInvocation) -> ModelStream {
        if !self.refuses_counting.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                model = self.transport.endpoint.model_id,
                "the endpoint refuses stream_options, so it is asked without and may count no tokens; set include_usage = \
                 false in this model's options to spare the refused request"
            );
        }
        let cancel = invocation.cancel.clone();
        match self.send(&self.uncounted, request, invocation) {
            Ok((digest, events)) => announced(digest, cancel, events),
            Err(failure) => failed(failure),
        }
    }
}

impl Provider for OpenAiChat {
    fn call(&self, request: &ModelRequest, invocation: ModelInvocation) -> ModelStream {
        if self.refuses_counting.load(Ordering::Relaxed) {
            return self.send_uncounted(request, invocation);
        }
        let cancel = invocation.cancel.clone();
        let (digest, mut first) = match self.send(&self.configured, request, invocation.clone()) {
            Ok(sent) => sent,
            Err(failure) => return failed(failure),
        };
        if !self.profile().include_usage {
            return announced(digest, cancel, first);
        }
        let (provider, request) = (self.clone(), request.clone());
        let stream = stream::once(async move {
            match first.next().await {
                Some(Err(failure)) if refuses_counting(&failure) => {
                    provider.send_uncounted(&request, invocation)
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

/// Whether the endpoint refuses the request for `stream_options`, by that very name: any other refusal stays one.
fn refuses_counting(failure: &ProviderFailure) -> bool {
    failure.fault == ProviderFault::InvalidRequest
        && matches!(failure.status, Some(400 | 422))
        && failure.message.contains("stream_options")
}
