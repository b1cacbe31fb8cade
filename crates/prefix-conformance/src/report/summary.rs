//! What a report comes to: one sentence, and what it is worth looking at first.
//!
//! Must never know: how a report is shown.

use super::{CallReport, Kept, LaneReport, Report, Rule};
use crate::api::Api;
use crate::measure::{Boundary, percent};
use crate::visible::visible;

/// What a person should think of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Every pair was compared and kept whole.
    Good,
    /// Something is to be known, and no pair broke.
    Noted,
    /// A pair broke.
    Bad,
}

/// The verdict and its sentence, without a full stop.
pub(super) fn verdict(report: &Report) -> (Verdict, String) {
    let changed = report.changed.len();
    let (mut verdict, mut text) = match report.resets.as_slice() {
        [] if report.pairs == 0 => (
            Verdict::Noted,
            "Nothing to compare: no call has a measured one before it".to_owned(),
        ),
        [] if changed == 0 => (
            Verdict::Good,
            format!(
                "Every call kept all of the one before it ({})",
                count(report.pairs, "pair")
            ),
        ),
        [] => (
            Verdict::Noted,
            format!(
                "No break below {}; {} changed something already sent: {}",
                percent(report.min_continuity),
                count(changed, "call"),
                list(&report.changed)
            ),
        ),
        [one] => (
            Verdict::Bad,
            format!("The prefix broke once, at call {one}{}", turn_of(report, *one)),
        ),
        [first, ..] => (
            Verdict::Bad,
            format!(
                "The prefix broke {} times, first at call {first}{}",
                report.resets.len(),
                turn_of(report, *first)
            ),
        ),
    };
    if !report.resets.is_empty() && changed > 0 {
        text += &format!(
            "; {} more changed something already sent: {}",
            count(changed, "call"),
            list(&report.changed)
        );
    }
    if !report.unmeasured.is_empty() {
        verdict = match verdict {
            Verdict::Good | Verdict::Noted => Verdict::Noted,
            Verdict::Bad => Verdict::Bad,
        };
        text += &format!(
            "; {} could not be measured: {}",
            count(report.unmeasured.len(), "call"),
            list(&report.unmeasured)
        );
    }
    (verdict, text)
}

/// A call that changed something already sent.
pub(super) struct Event<'a> {
    pub(super) lane: &'a LaneReport,
    pub(super) call: &'a CallReport,
    pub(super) kept: &'a Kept,
    pub(super) boundary: &'a Boundary,
}

/// The events that cost most, at most so many of them, in the order of their calls; and how many there are in all.
pub(super) fn events(report: &Report, most: usize) -> (Vec<Event<'_>>, usize) {
    let mut events: Vec<Event<'_>> = report
        .lanes
        .iter()
        .flat_map(|lane| lane.calls.iter().map(move |call| (lane, call)))
        .filter_map(|(lane, call)| {
            let kept = call.kept.as_ref()?;
            let boundary = kept.boundary.as_ref()?;
            Some(Event {
                lane,
                call,
                kept,
                boundary,
            })
        })
        .collect();
    let all = events.len();
    // A break goes before a change, however small its prefix was.
    events.sort_by_key(|event| {
        (
            !event.kept.broke,
            usize::MAX - event.kept.lost_tokens,
            event.call.call,
        )
    });
    events.truncate(most);
    events.sort_by_key(|event| event.call.call);
    (events, all)
}

/// What a call that left the one before it continues instead, as a sentence with its full stop; empty if nothing.
pub(super) fn continues(kept: &Kept) -> String {
    kept.continues.map_or_else(String::new, |call| {
        format!(
            "It keeps all of call {call} instead: what had changed since was changed back, or two conversations with this \
             model are in one recording (record those apart)."
        )
    })
}

/// The rules under which endpoints of an API cache, in the order of reports.
pub(super) fn rules_of(api: Api) -> &'static [Rule] {
    match api {
        // Many engines speak it.
        Api::OpenAiChat => &[
            Rule::OpenAiSteps,
            Rule::OpenAiBreakpoints,
            Rule::DeepSeek,
            Rule::Block16,
        ],
        Api::OpenAiResponses => &[Rule::OpenAiSteps, Rule::OpenAiBreakpoints],
        Api::Anthropic => &[Rule::Anthropic],
    }
}

/// ` (turn 2)`, where it is known.
fn turn_of(report: &Report, number: usize) -> String {
    report
        .lanes
        .iter()
        .flat_map(|lane| &lane.calls)
        .find(|call| call.call == number)
        .and_then(|call| call.turn)
        .map_or_else(String::new, |turn| format!(" (turn {turn})"))
}

/// `1 call`, `2 calls`.
pub(super) fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// The first of the numbers; a long list tells no more.
fn list(numbers: &[usize]) -> String {
    const MOST: usize = 20;
    let shown: Vec<String> = numbers.iter().take(MOST).map(ToString::to_string).collect();
    match numbers.len().saturating_sub(MOST) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A lane's model for a reader.
pub(super) fn model(lane: &LaneReport) -> String {
    if lane.lane.model.is_empty() {
        "no model named".to_owned()
    } else {
        visible(&lane.lane.model)
    }
}
