//! What the providers' documented cache rules would have served of each call.
//!
//! Estimates, all of them: providers promise nothing, tokens are counted from bytes, and only calls of the same lane are
//! known. `docs/prefix-conformance.md` states each rule. Must never know: a recording, or how a report is shown.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use serde::Serialize;

use super::CallReport;
use crate::api::Api;
use crate::recording::Lane;
use crate::request::{ITEM_END, Item, Maker, Marker, Request};

/// Bytes that count as a token.
const BYTES_PER_TOKEN: usize = 4;

const MINUTE_MS: u64 = 60_000;

/// The estimate of a text's tokens: a quarter of its bytes, rounded down.
pub fn estimate_tokens(bytes: usize) -> usize {
    bytes / BYTES_PER_TOKEN
}

/// A documented way to cache prefixes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub enum Rule {
    /// OpenAI before the 5.6 models: automatic, from 1,024 tokens, in steps of 128.
    #[serde(rename = "openai-steps")]
    OpenAiSteps,
    /// OpenAI from the 5.6 models: exact match at breakpoints.
    #[serde(rename = "openai-breakpoints")]
    OpenAiBreakpoints,
    /// Anthropic: written at markers, read by looking back at most 20 blocks from one.
    #[serde(rename = "anthropic")]
    Anthropic,
    /// DeepSeek: whole prefix units.
    #[serde(rename = "deepseek")]
    DeepSeek,
    /// Engines that hash full blocks of 16 tokens.
    #[serde(rename = "block-16")]
    Block16,
}

impl Rule {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 5] = [
        Self::OpenAiSteps,
        Self::OpenAiBreakpoints,
        Self::Anthropic,
        Self::DeepSeek,
        Self::Block16,
    ];

    /// For a reader.
    pub fn title(self) -> &'static str {
        match self {
            Self::OpenAiSteps => "OpenAI before 5.6",
            Self::OpenAiBreakpoints => "OpenAI 5.6+",
            Self::Anthropic => "Anthropic",
            Self::DeepSeek => "DeepSeek",
            Self::Block16 => "block-16 engine",
        }
    }
}

/// What a rule would have served, in estimated tokens.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Served {
    /// The rule.
    pub rule: Rule,
    /// The whole prefix.
    pub total: usize,
    /// Of that, served from the cache.
    pub served: usize,
    /// Of the rest, written to the cache where writing has a price of its own.
    pub written: usize,
    /// Tokens that the call before had sent too, or others in their place, and that were not served.
    pub read_again: usize,
    /// The price in fresh input tokens, where the rule's documented prices are known.
    pub price: Option<f64>,
}

/// A request's prefix as caches see it: after each item, its length and a hash of all up to there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prefix {
    ends: Vec<usize>,
    chain: Vec<u64>,
}

impl Prefix {
    /// Sums and hashes a request's items; the first `shared` of them are those of the request before.
    pub fn new(request: &Request, before: Option<&Self>, shared: usize) -> Self {
        let mut prefix = match before {
            Some(before) => Self {
                ends: before.ends[..shared].to_vec(),
                chain: before.chain[..shared].to_vec(),
            },
            None => Self {
                ends: Vec::new(),
                chain: Vec::new(),
            },
        };
        for item in &request.items()[prefix.ends.len()..] {
            let end = prefix.bytes() + request.length(item);
            let mut hasher = DefaultHasher::new();
            hasher.write_u64(prefix.chain.last().copied().unwrap_or_default());
            hasher.write_u8(crate::request::kind(item.position));
            hasher.write(&request.head(item));
            hasher.write_u8(ITEM_END);
            hasher.write(&request.text(item));
            prefix.ends.push(end);
            prefix.chain.push(hasher.finish());
        }
        prefix
    }

    /// The whole length in bytes.
    pub fn bytes(&self) -> usize {
        self.ends.last().copied().unwrap_or_default()
    }

    /// What stands for the whole of it; absent where it has no items.
    pub fn end(&self) -> Option<u64> {
        self.chain.last().copied()
    }

    /// The latest of these calls, each known by the end of its prefix, whose whole prefix this one begins with and that is
    /// longer than this many items.
    pub fn latest_of(&self, calls: &BTreeMap<u64, usize>, items: usize) -> Option<usize> {
        let longer = &self.chain[items..];
        longer.iter().filter_map(|end| calls.get(end)).max().copied()
    }

    fn tokens(&self, index: usize) -> usize {
        estimate_tokens(self.ends[index])
    }
}

/// A call as the rules look at it.
pub(super) struct Looked<'a> {
    pub(super) request: &'a Request,
    pub(super) prefix: &'a Prefix,
    pub(super) previous_bytes: Option<usize>,
    pub(super) shared_bytes: usize,
    pub(super) at_ms: u64,
}

impl Looked<'_> {
    fn total(&self) -> usize {
        estimate_tokens(self.prefix.bytes())
    }

    fn served(&self, rule: Rule, served: usize, written: usize, price: Option<f64>) -> Served {
        let seen = self
            .previous_bytes
            .map_or(0, |bytes| estimate_tokens(bytes.min(self.prefix.bytes())));
        Served {
            rule,
            total: self.total(),
            served,
            written,
            read_again: seen.saturating_sub(served),
            price,
        }
    }
}

/// An entry that was written, until when it lives.
#[derive(Clone, Copy, Debug)]
struct Entry {
    until_ms: u64,
    lifetime_ms: u64,
}

/// The caches of a lane, filled call by call.
#[derive(Debug)]
pub(super) struct Caches {
    api: Api,
    anthropic_minimum: usize,
    anthropic: BTreeMap<u64, Entry>,
    breakpoints: BTreeMap<u64, Entry>,
    units: BTreeMap<u64, ()>,
}

impl Caches {
    pub(super) fn new(lane: &Lane) -> Self {
        Self {
            api: lane.api,
            anthropic_minimum: anthropic_minimum(&lane.model),
            anthropic: BTreeMap::new(),
            breakpoints: BTreeMap::new(),
            units: BTreeMap::new(),
        }
    }

    /// What each rule serves of a call, given the calls before it; then the call fills the caches.
    pub(super) fn look(&mut self, call: &Looked<'_>) -> Vec<Served> {
        Rule::ALL
            .into_iter()
            .map(|rule| match rule {
                Rule::OpenAiSteps => openai_steps(call),
                Rule::OpenAiBreakpoints => self.openai_breakpoints(call),
                Rule::Anthropic => self.anthropic(call),
                Rule::DeepSeek => self.deepseek(call),
                Rule::Block16 => {
                    let tokens = estimate_tokens(call.shared_bytes);
                    call.served(Rule::Block16, tokens - tokens % 16, 0, None)
                }
            })
            .collect()
    }

    /// The sums over calls.
    pub(super) fn totals(&self, calls: &[CallReport]) -> Vec<Served> {
        Rule::ALL
            .into_iter()
            .map(|rule| {
                let of_rule = || {
                    calls
                        .iter()
                        .flat_map(|call| &call.caches)
                        .filter(move |served| served.rule == rule)
                };
                Served {
                    rule,
                    total: of_rule().map(|served| served.total).sum(),
                    served: of_rule().map(|served| served.served).sum(),
                    written: of_rule().map(|served| served.written).sum(),
                    read_again: of_rule().map(|served| served.read_again).sum(),
                    price: of_rule().map(|served| served.price).sum(),
                }
            })
            .collect()
    }

    fn openai_breakpoints(&mut self, call: &Looked<'_>) -> Served {
        const MINIMUM: usize = 1024;
        const LOOK_BACK: usize = 80;
        const WRITES: usize = 4;
        const LIFETIME_MS: u64 = 30 * MINUTE_MS;
        let items = call.request.items();
        let marked_only = is_marked_only(call.request);
        let is_implicit = |item: &Item| !marked_only && matches!(item.maker, Maker::Input | Maker::Tool);
        let candidates = (0..items.len())
            .rev()
            .filter(|index| is_implicit(&items[*index]) || items[*index].marker.is_some())
            .take(LOOK_BACK);
        let hit = candidates
            .filter(|index| call.prefix.tokens(*index) >= MINIMUM)
            .find(|index| refresh(&mut self.breakpoints, call.prefix.chain[*index], call.at_ms));
        let implicit = (0..items.len()).rev().find(|index| is_implicit(&items[*index]));
        let explicit = (0..items.len())
            .rev()
            .filter(|index| items[*index].marker.is_some() && Some(*index) != implicit)
            .take(if marked_only { WRITES } else { WRITES - 1 });
        let mut written = 0;
        let served = hit.map_or(0, |index| call.prefix.tokens(index));
        for index in implicit.into_iter().chain(explicit) {
            let tokens = call.prefix.tokens(index);
            if tokens >= MINIMUM {
                written = written.max(tokens.saturating_sub(served));
                write(
                    &mut self.breakpoints,
                    call.prefix.chain[index],
                    call.at_ms,
                    LIFETIME_MS,
                );
            }
        }
        let price = 0.1 * exact(served)
            + 1.25 * exact(written)
            + exact(call.total().saturating_sub(served + written));
        call.served(Rule::OpenAiBreakpoints, served, written, Some(price))
    }

    fn anthropic(&mut self, call: &Looked<'_>) -> Served {
        const LOOK_BACK: usize = 20;
        const MARKERS: usize = 4;
        let items = call.request.items();
        let mut markers: Vec<(usize, Marker)> = items
            .iter()
            .enumerate()
            .filter_map(|(index, item)| Some((index, item.marker?)))
            .collect();
        // A recording of another API is read as if the one automatic marker were set.
        let automatic = match self.api {
            Api::Anthropic => call.request.automatic_marker(),
            Api::OpenAiChat | Api::OpenAiResponses => Some(Marker::Short),
        };
        if let (Some(marker), Some(last)) = (automatic, items.len().checked_sub(1))
            && markers.last().is_none_or(|(index, _)| *index != last)
        {
            markers.push((last, marker));
        }
        let surplus = markers.len().saturating_sub(MARKERS);
        markers.drain(..surplus);
        let mut hit: Option<usize> = None;
        for (marked, _) in &markers {
            let found = (0..=*marked)
                .rev()
                .take(LOOK_BACK)
                .find(|index| refresh(&mut self.anthropic, call.prefix.chain[*index], call.at_ms));
            hit = hit.max(found);
        }
        let served = hit.map_or(0, |index| call.prefix.tokens(index));
        let (mut written, mut price, mut reached) = (0, 0.1 * exact(served), served);
        for (marked, marker) in &markers {
            let tokens = call.prefix.tokens(*marked);
            if tokens < self.anthropic_minimum {
                continue;
            }
            let (lifetime, factor) = match marker {
                Marker::Short => (5 * MINUTE_MS, 1.25),
                Marker::Hour => (60 * MINUTE_MS, 2.0),
            };
            write(
                &mut self.anthropic,
                call.prefix.chain[*marked],
                call.at_ms,
                lifetime,
            );
            let new = tokens.saturating_sub(reached);
            written += new;
            price += factor * exact(new);
            reached = reached.max(tokens);
        }
        price += exact(call.total().saturating_sub(reached));
        call.served(Rule::Anthropic, served, written, Some(price))
    }

    fn deepseek(&mut self, call: &Looked<'_>) -> Served {
        let items = call.request.items();
        let chain = &call.prefix.chain;
        let mut hit = (0..items.len())
            .rev()
            .find(|index| self.units.contains_key(&chain[*index]));
        // The output that followed an input is a unit too; in this request it stands as the model's own items.
        while let Some(index) = hit
            && items
                .get(index + 1)
                .is_some_and(|item| item.maker == Maker::Model)
        {
            hit = Some(index + 1);
        }
        // What two requests turn out to share is a unit from then on.
        let shared = call.prefix.ends.partition_point(|end| *end <= call.shared_bytes);
        for index in shared
            .checked_sub(1)
            .into_iter()
            .chain(items.len().checked_sub(1))
        {
            self.units.insert(chain[index], ());
        }
        call.served(
            Rule::DeepSeek,
            hit.map_or(0, |index| call.prefix.tokens(index)),
            0,
            None,
        )
    }
}

/// Whether the request asks OpenAI to cache at its markers only.
fn is_marked_only(request: &Request) -> bool {
    #[derive(serde::Deserialize)]
    struct Options {
        mode: Option<String>,
    }
    request
        .parameter("prompt_cache_options")
        .and_then(|options| serde_json::from_slice::<Options>(options).ok())
        .is_some_and(|options| options.mode.as_deref() == Some("explicit"))
}

fn openai_steps(call: &Looked<'_>) -> Served {
    const MINIMUM: usize = 1024;
    const STEP: usize = 128;
    let tokens = estimate_tokens(call.shared_bytes);
    let served = if tokens < MINIMUM {
        0
    } else {
        tokens - tokens % STEP
    };
    call.served(Rule::OpenAiSteps, served, 0, None)
}

/// Whether an entry is there and alive; its use lets it live on.
fn refresh(entries: &mut BTreeMap<u64, Entry>, hash: u64, at_ms: u64) -> bool {
    match entries.get_mut(&hash) {
        Some(entry) if at_ms <= entry.until_ms => {
            entry.until_ms = at_ms + entry.lifetime_ms;
            true
        }
        _ => false,
    }
}

fn write(entries: &mut BTreeMap<u64, Entry>, hash: u64, at_ms: u64, lifetime_ms: u64) {
    let until_ms = at_ms + lifetime_ms;
    entries.insert(
        hash,
        Entry {
            until_ms,
            lifetime_ms,
        },
    );
}

/// The least prefix that Anthropic caches for a model, in tokens; 1,024 for models that are not listed.
fn anthropic_minimum(model: &str) -> usize {
    const MINIMUMS: [(&str, usize); 13] = [
        ("opus-5", 512),
        ("fable-5", 512),
        ("mythos-5", 512),
        ("opus-4-7", 2048),
        ("mythos-preview", 2048),
        ("haiku-3-5", 2048),
        ("3-5-haiku", 2048),
        ("opus-4-6", 4096),
        ("opus-4-5", 4096),
        ("haiku-4-5", 4096),
        ("opus-4", 1024),
        ("sonnet-4", 1024),
        ("sonnet-5", 1024),
    ];
    let model = model.to_ascii_lowercase().replace('.', "-");
    MINIMUMS
        .iter()
        .find(|(name, _)| model.contains(name))
        .map_or(1024, |(_, minimum)| *minimum)
}

#[allow(
    clippy::cast_precision_loss,
    reason = "token counts stay far below 2^52, where f64 is exact"
)]
fn exact(tokens: usize) -> f64 {
    tokens as f64
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
