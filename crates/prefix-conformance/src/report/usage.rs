//! The endpoint's own token counts in one form.
//!
//! Must never know: estimates.

use serde::Serialize;
use serde_json::Value;

use crate::api::Api;

/// What an endpoint reported. What it did not report is absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Usage {
    /// The whole input: fresh, read from the cache and written to it.
    pub input: Option<u64>,
    /// Of that, read from the cache.
    pub cache_read: Option<u64>,
    /// Of that, written to the cache.
    pub cache_write: Option<u64>,
    /// The answer.
    pub output: Option<u64>,
}

impl Usage {
    /// Reads a usage object of the API; `None` if it holds none of the counts.
    pub fn read(api: Api, usage: &Value) -> Option<Self> {
        let count = |paths: &[&str]| paths.iter().find_map(|path| usage.pointer(path)?.as_u64());
        let read = match api {
            Api::OpenAiChat => Self {
                input: count(&["/prompt_tokens"]),
                cache_read: count(&[
                    "/prompt_tokens_details/cached_tokens",
                    "/prompt_cache_hit_tokens",
                    "/cached_tokens",
                ]),
                cache_write: count(&["/prompt_tokens_details/cache_write_tokens"]),
                output: count(&["/completion_tokens"]),
            },
            Api::OpenAiResponses => Self {
                input: count(&["/input_tokens"]),
                cache_read: count(&["/input_tokens_details/cached_tokens"]),
                cache_write: count(&["/input_tokens_details/cache_write_tokens"]),
                output: count(&["/output_tokens"]),
            },
            Api::Anthropic => {
                let cache_read = count(&["/cache_read_input_tokens"]);
                let cache_write = count(&["/cache_creation_input_tokens"]);
                // The three are disjoint in this API.
                let input = count(&["/input_tokens"])
                    .map(|fresh| fresh + cache_read.unwrap_or(0) + cache_write.unwrap_or(0));
                Self {
                    input,
                    cache_read,
                    cache_write,
                    output: count(&["/output_tokens"]),
                }
            }
        };
        let any = read.input.or(read.cache_read).or(read.output).is_some();
        any.then_some(read)
    }
}
