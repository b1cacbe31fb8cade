//! Model endpoints: one port, one shared transport, one folder for each API.
//!
//! Owns requests to endpoints and the strict reading of their streams. Must never know: the store, a client's
//! events, or how a tool is executed.
//!
//! A request for a summary carries no `tool_choice`, although it wants no call: it has to repeat what is cached of the
//! request before, and a changed `tool_choice` costs that. Anthropic's guide to caching with tools lists it among the
//! changes that lose the cached messages; engines behind the Chat API (vLLM before 0.10 and by option since, dynamo and
//! others) take the tools out of the prompt where it is `none`; for the rest nothing is documented. A call in the answer is
//! passed over instead.

pub mod anthropic;
mod arguments;
mod blocks;
mod bodies;
mod call;
mod effort;
mod endpoint;
mod event;
mod extra_body;
mod fault;
mod json;
mod list;
mod names;
mod openai;
pub mod openai_chat;
pub mod openai_responses;
mod options;
mod parts;
mod port;
mod redact;
mod retry;
mod router;
pub mod scripted;
mod sent;
pub mod sse;
mod stream_text;
mod transport;
mod unpack;

pub use call::Progress;
pub use event::{ModelEvent, StopReason};
pub use port::{ModelInvocation, ModelStream, Provider};
pub use router::{ProviderRouter, RouteError};
pub use sent::digest_of;
