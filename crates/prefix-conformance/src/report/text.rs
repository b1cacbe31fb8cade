//! A report for a terminal.
//!
//! Must never know: how figures come about.

use std::fmt::Write;

use super::summary::{continues, model};
use super::{CallReport, LaneReport, Report};
use crate::measure::percent;
use crate::table::table;

pub(super) fn text(report: &Report) -> String {
    let mut out = String::new();
    for lane in &report.lanes {
        let _ = writeln!(out, "{} · {}", lane.lane.api, model(lane));
        out.push_str(&table(&rows(lane)));
        for call in &lane.calls {
            explain(&mut out, call);
        }
        let mut sums = vec![vec![
            "cache rule (estimated tokens)".to_owned(),
            "input".to_owned(),
            "served".to_owned(),
            "served %".to_owned(),
            "read again".to_owned(),
            "costs as fresh".to_owned(),
        ]];
        sums.extend(lane.caches.iter().map(|sum| {
            vec![
                sum.rule.title().to_owned(),
                sum.total.to_string(),
                sum.served.to_string(),
                share(sum.served, sum.total),
                sum.read_again.to_string(),
                sum.price.map_or("–".to_owned(), |price| format!("{price:.0}")),
            ]
        }));
        let _ = writeln!(out, "\n{}", table(&sums));
    }
    if report.cut {
        out.push_str("The recording ends inside a line: its recorder was stopped while it wrote.\n");
    }
    let _ = writeln!(
        out,
        "{} call(s), {} break(s) below {}, lowest continuity {}, about {} tokens sent before and not kept",
        report.calls,
        report.resets.len(),
        percent(report.min_continuity),
        percent(report.lowest_continuity),
        report.lost_tokens,
    );
    let _ = writeln!(out, "{}.", report.verdict());
    out
}

fn rows(lane: &LaneReport) -> Vec<Vec<String>> {
    let heading = [
        "call",
        "turn",
        "items",
        "bytes",
        "shared",
        "kept",
        "~tokens",
        "real input",
        "real cached",
        "",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(lane.calls.iter().map(|call| {
        let content = |of: fn(&super::Content) -> usize| {
            call.content
                .as_ref()
                .map_or("–".to_owned(), |content| of(content).to_string())
        };
        let kept = call.kept.as_ref();
        let real = |of: fn(&super::Usage) -> Option<u64>| {
            call.usage
                .as_ref()
                .and_then(of)
                .map_or("–".to_owned(), |count| count.to_string())
        };
        vec![
            call.call.to_string(),
            call.turn.map_or("–".to_owned(), |turn| turn.to_string()),
            content(|content| content.items),
            content(|content| content.prefix_bytes),
            kept.map_or("–".to_owned(), |kept| kept.shared_bytes.to_string()),
            kept.map_or("–".to_owned(), |kept| percent(kept.continuity)),
            content(|content| content.estimated_tokens),
            real(|usage| usage.input),
            real(|usage| usage.cache_read),
            match kept {
                Some(kept) if kept.broke => "BREAK".to_owned(),
                Some(kept) if kept.boundary.is_some() => "changed".to_owned(),
                None if call.fault.is_some() => "not measured".to_owned(),
                Some(_) | None => String::new(),
            },
        ]
    }));
    rows
}

fn explain(out: &mut String, call: &CallReport) {
    if let Some(fault) = &call.fault {
        let _ = writeln!(out, "\ncall {}: not measured: {fault}", call.call);
    }
    let Some(kept) = &call.kept else {
        return;
    };
    if let Some(boundary) = &kept.boundary {
        let _ = writeln!(
            out,
            "\ncall {} → {}: {boundary}; kept {}, about {} tokens not kept",
            kept.previous,
            call.call,
            percent(kept.continuity),
            kept.lost_tokens,
        );
        let continued = continues(kept);
        if !continued.is_empty() {
            let _ = writeln!(out, "  {continued}");
        }
        let _ = write!(out, "{}", boundary.difference);
    }
    if !kept.changed_parameters.is_empty() {
        let _ = writeln!(
            out,
            "call {} → {}: parameters that differ: {}",
            kept.previous,
            call.call,
            kept.changed_parameters.join(", ")
        );
    }
}

/// A percentage with one decimal; a dash of nothing.
pub(super) fn share(part: usize, whole: usize) -> String {
    if whole == 0 {
        return "–".to_owned();
    }
    format!("{:.1}", crate::measure::fraction(part, whole) * 100.0)
}
