//! What a recording says: per call its items, what it kept of the call before it, what broke, and what that cost.
//!
//! Reads a recording lane by lane and holds two bodies at a time. Must never know: how a report is shown.

mod cache;
mod html;
mod summary;
mod text;
mod turns;
mod usage;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::assess::MIN_CONTINUITY;
use crate::measure::{Boundary, measure};
use crate::recording::{Lane, Recording, RecordingError};
use crate::request::{Position, Request};
use cache::{Caches, Looked};
use turns::Turns;

pub use cache::{Prefix, Rule, Served, estimate_tokens};
pub use usage::Usage;

/// A report on a recording.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// The fraction below which a pair counts as a break.
    pub min_continuity: f64,
    /// Calls of all lanes.
    pub calls: usize,
    /// Numbers of the calls that broke, ascending.
    pub resets: Vec<usize>,
    /// Numbers of the calls that changed something already sent and yet kept the minimum, ascending.
    pub changed: Vec<usize>,
    /// Numbers of the calls whose bodies cannot be measured, ascending.
    pub unmeasured: Vec<usize>,
    /// Number of pairs of calls that were compared.
    pub pairs: usize,
    /// The lowest continuity of any pair; 1 where there is none.
    pub lowest_continuity: f64,
    /// Estimated tokens of earlier calls that later ones did not keep, over all pairs.
    pub lost_tokens: usize,
    /// Whether the recorder was stopped while it wrote; what it had written is reported.
    pub cut: bool,
    /// The lanes in the order of their first calls.
    pub lanes: Vec<LaneReport>,
}

/// A lane's calls.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LaneReport {
    /// API and model.
    #[serde(flatten)]
    pub lane: Lane,
    /// The calls in order.
    pub calls: Vec<CallReport>,
    /// What each cache rule would have served in all.
    pub caches: Vec<Served>,
}

/// One call.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CallReport {
    /// One-based number in the recording.
    pub call: usize,
    /// Milliseconds since the recording began.
    pub at_ms: u64,
    /// The turn of its lane that it belongs to, from 1. Absent where the body cannot be read.
    pub turn: Option<usize>,
    /// Bytes of the body as sent.
    pub body_bytes: usize,
    /// What the body holds. Absent where it cannot be read.
    pub content: Option<Content>,
    /// Why the body cannot be measured.
    pub fault: Option<String>,
    /// Against the call before it in the lane. Absent for the first, and next to a body that cannot be measured.
    pub kept: Option<Kept>,
    /// What each cache rule would have served.
    pub caches: Vec<Served>,
    /// The status of the answer, if it ended.
    pub status: Option<u16>,
    /// The endpoint's own counts, if the answer had any.
    pub usage: Option<Usage>,
}

/// What a request consists of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Content {
    /// Tool schemas.
    pub tools: usize,
    /// Pieces of the system prompt beside the messages.
    pub system: usize,
    /// Messages or input items.
    pub messages: usize,
    /// Items of the prefix: the above, with an Anthropic message counted by its blocks.
    pub items: usize,
    /// Bytes of the serialised prefix.
    pub prefix_bytes: usize,
    /// Its tokens, estimated.
    pub estimated_tokens: usize,
}

/// What a call kept of the one before it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Kept {
    /// The call before it.
    pub previous: usize,
    /// Bytes of that one's serialised prefix.
    pub previous_bytes: usize,
    /// Leading bytes that are the same.
    pub shared_bytes: usize,
    /// Items that are the same, from the first.
    pub shared_items: usize,
    /// The shared part as a fraction of the previous prefix.
    pub continuity: f64,
    /// Whether that is below the report's minimum.
    pub broke: bool,
    /// Estimated tokens of the previous prefix that were not kept.
    pub lost_tokens: usize,
    /// Where it left the previous prefix. Absent when it kept all.
    pub boundary: Option<Boundary>,
    /// Where it left that one: the latest call before it whose whole prefix it keeps and the previous one does not. So it
    /// looks when two conversations are in one lane.
    pub continues: Option<usize>,
    /// Parameters that differ. They are not part of the prefix, and some caches depend on them.
    pub changed_parameters: Vec<String>,
}

/// The call before, as long as the next one needs it.
enum Held {
    Measured {
        call: usize,
        request: Request,
        prefix: Prefix,
    },
    Unreadable(Vec<u8>),
}

impl Held {
    fn body(&self) -> &[u8] {
        match self {
            Self::Measured { request, .. } => request.body(),
            Self::Unreadable(body) => body,
        }
    }

    fn into_body(self) -> Vec<u8> {
        match self {
            Self::Measured { request, .. } => request.into_body(),
            Self::Unreadable(body) => body,
        }
    }
}

impl Report {
    /// Reports on a recording, with the usual minimum.
    ///
    /// # Errors
    /// If the recording cannot be read.
    pub fn read(path: &Path) -> Result<Self, RecordingError> {
        Self::read_with(path, MIN_CONTINUITY)
    }

    /// Reports on a recording; pairs below the given fraction count as breaks.
    ///
    /// # Errors
    /// If the recording cannot be read.
    pub fn read_with(path: &Path, min_continuity: f64) -> Result<Self, RecordingError> {
        let recording = Recording::open(path)?;
        let lanes = recording
            .lanes()
            .iter()
            .map(|lane| read_lane(&recording, lane, min_continuity))
            .collect::<Result<Vec<_>, _>>()?;
        let calls = || lanes.iter().flat_map(|lane| &lane.calls);
        let pairs = || calls().filter_map(|call| Some((call.call, call.kept.as_ref()?)));
        let numbers = |of: &dyn Fn(&CallReport) -> bool| -> Vec<usize> {
            let mut numbers: Vec<usize> = calls().filter(|call| of(call)).map(|call| call.call).collect();
            numbers.sort_unstable();
            numbers
        };
        let kept = |call: &CallReport, of: fn(&Kept) -> bool| call.kept.as_ref().is_some_and(of);
        Ok(Self {
            min_continuity,
            calls: calls().count(),
            resets: numbers(&|call| kept(call, |kept| kept.broke)),
            changed: numbers(&|call| kept(call, |kept| kept.boundary.is_some() && !kept.broke)),
            unmeasured: numbers(&|call| call.fault.is_some()),
            pairs: pairs().count(),
            lowest_continuity: pairs().map(|(_, kept)| kept.continuity).fold(1.0, f64::min),
            lost_tokens: pairs().map(|(_, kept)| kept.lost_tokens).sum(),
            cut: recording.is_cut(),
            lanes,
        })
    }

    /// What the report comes to, as a sentence without its full stop.
    pub fn verdict(&self) -> String {
        summary::verdict(self).1
    }

    /// The report as a self-contained page.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// The report for a terminal.
    pub fn text(&self) -> String {
        text::text(self)
    }
}

fn read_lane(recording: &Recording, lane: &Lane, min_continuity: f64) -> Result<LaneReport, RecordingError> {
    let mut reader = recording.read_lane(lane)?;
    let mut caches = Caches::new(lane);
    let mut turns = Turns::default();
    let mut whole = BTreeMap::new();
    let mut calls = Vec::new();
    let mut held: Option<Held> = None;
    let mut spare = Vec::new();
    loop {
        let last = held.as_ref().map(Held::body).unwrap_or_default();
        let Some((recorded, body)) = reader.next(last, std::mem::take(&mut spare))? else {
            break;
        };
        let answer = recording.answer(recorded.call);
        let mut report = CallReport {
            call: recorded.call,
            at_ms: recorded.at_ms,
            turn: None,
            body_bytes: body.len(),
            content: None,
            fault: None,
            kept: None,
            caches: Vec::new(),
            status: answer.map(|answer| answer.status),
            usage: answer.and_then(|answer| Usage::read(lane.api, answer.usage.as_ref()?)),
        };
        let next = match Request::parse(lane.api, body) {
            Ok(request) => {
                let (before, mut kept) = match &held {
                    Some(Held::Measured {
                        call,
                        request: before,
                        prefix,
                    }) => (Some(prefix), Some(keep(*call, before, &request, min_continuity))),
                    Some(Held::Unreadable(_)) | None => (None, None),
                };
                let prefix = Prefix::new(
                    &request,
                    before,
                    kept.as_ref().map_or(0, |kept| kept.shared_items),
                );
                if let Some(kept) = kept.as_mut().filter(|kept| kept.boundary.is_some()) {
                    kept.continues = prefix.latest_of(&whole, kept.shared_items);
                }
                if let Some(end) = prefix.end() {
                    whole.insert(end, recorded.call);
                }
                report.turn = Some(turns.number(&request, kept.as_ref()));
                report.content = Some(content(&request, &prefix));
                report.caches = caches.look(&Looked {
                    request: &request,
                    prefix: &prefix,
                    previous_bytes: kept.as_ref().map(|kept| kept.previous_bytes),
                    shared_bytes: kept.as_ref().map_or(0, |kept| kept.shared_bytes),
                    at_ms: recorded.at_ms,
                });
                report.kept = kept;
                Held::Measured {
                    call: recorded.call,
                    request,
                    prefix,
                }
            }
            Err(fault) => {
                report.fault = Some(fault.error.to_string());
                Held::Unreadable(fault.body)
            }
        };
        spare = held.replace(next).map(Held::into_body).unwrap_or_default();
        calls.push(report);
    }
    Ok(LaneReport {
        lane: lane.clone(),
        caches: caches.totals(&calls),
        calls,
    })
}

fn keep(call: usize, before: &Request, request: &Request, min_continuity: f64) -> Kept {
    let measured = measure(before, request);
    let continuity = measured.continuity();
    Kept {
        previous: call,
        previous_bytes: measured.previous_bytes,
        shared_bytes: measured.shared_bytes,
        shared_items: measured.shared_items,
        continuity,
        broke: continuity < min_continuity,
        lost_tokens: estimate_tokens(measured.previous_bytes - measured.shared_bytes),
        boundary: measured.boundary,
        continues: None,
        changed_parameters: before.changed_parameters(request),
    }
}

fn content(request: &Request, prefix: &Prefix) -> Content {
    let count = |wanted: fn(&Position) -> bool| {
        request
            .items()
            .iter()
            .filter(|item| wanted(&item.position))
            .count()
    };
    Content {
        tools: count(|position| matches!(position, Position::Tool(_))),
        system: count(|position| matches!(position, Position::System(_))),
        messages: request.message_count(),
        items: request.items().len(),
        prefix_bytes: prefix.bytes(),
        estimated_tokens: estimate_tokens(prefix.bytes()),
    }
}
