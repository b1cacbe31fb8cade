//! Members of a request's body that the configuration adds: always, or to ask for a faster route.
//!
//! Must never know: what a member means to an endpoint.

use super::RouteError;
use super::endpoint::Endpoint;
use super::json::Json;
use super::options::Options;
use crate::model::{Latency, ProviderFailure, ProviderFault};

/// The options `extra_body` and `fast_body` of one model.
#[derive(Clone, Debug)]
pub(crate) struct ExtraBody {
    /// Name and JSON text, in the order in which they were written.
    always: Vec<(String, String)>,
    /// What asks for a faster route; empty where the endpoint has none.
    fast: Vec<(String, String)>,
}

impl ExtraBody {
    /// Takes the options `extra_body` and `fast_body`, two tables. Neither may name one of `own_keys`, which the adapter
    /// writes itself, nor both the same member.
    pub(crate) fn from_options(options: &mut Options, own_keys: &[&str]) -> Result<Self, RouteError> {
        let always = options.body_members("extra_body", own_keys)?;
        let fast = options.body_members("fast_body", own_keys)?;
        match fast
            .iter()
            .find(|(key, _)| always.iter().any(|(known, _)| known == key))
        {
            None => Ok(Self { always, fast }),
            Some((key, _)) => Err(options.error(
                &format!("fast_body.{key}"),
                "is in extra_body too; keep one of them",
            )),
        }
    }

    /// Writes the members, each with a comma after it, or says that there is no way to be as fast as asked.
    pub(crate) fn write(
        &self,
        json: &mut Json,
        latency: Latency,
        endpoint: &Endpoint,
    ) -> Result<(), ProviderFailure> {
        let fast: &[(String, String)] = match latency {
            Latency::Standard => &[],
            Latency::Fast if self.fast.is_empty() => {
                return Err(endpoint.failure(
                    ProviderFault::Unsupported,
                    "no faster route is known of this endpoint; switch fast off, or set fast_body",
                ));
            }
            Latency::Fast => &self.fast,
        };
        for (key, value) in self.always.iter().chain(fast) {
            json.string(key);
            json.raw(":");
            json.raw(value);
            json.raw(",");
        }
        Ok(())
    }
}
