//! A report as one self-contained page: no script, no font, no request to anywhere.
//!
//! Must never know: how figures come about.

use std::fmt::Write;

use super::text::{model, share};
use super::{CallReport, LaneReport, Report, Served, estimate_tokens};
use crate::measure::Boundary;

const STYLE: &str = include_str!("page.css");

pub(super) fn page(report: &Report) -> String {
    let mut out = String::new();
    let breaks = report.resets.len();
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>Prefix report</title><style>{STYLE}</style>\n<main><h1>Prefix report</h1>\
         <p class=\"soft\">Does each request repeat the one before it, byte for byte, so that a prompt cache can serve it?</p>"
    );
    let (class, verdict) = match report.resets.as_slice() {
        [] if report.calls < 2 => ("good", "Nothing to compare yet".to_owned()),
        [] => ("good", "The prefix held on every call".to_owned()),
        [one] => ("bad", format!("The prefix broke once, at call {one}")),
        many => (
            "bad",
            format!("The prefix broke {breaks} times, first at call {}", many[0]),
        ),
    };
    let _ = write!(
        out,
        "<div class=\"verdict {class}\">{verdict}</div><div class=\"cards\">"
    );
    card(&mut out, &grouped(report.calls), "calls", false);
    card(
        &mut out,
        &grouped(breaks),
        &format!("breaks below {}", percent(report.min_continuity)),
        breaks > 0,
    );
    card(
        &mut out,
        &percent(report.lowest_continuity),
        "kept at the worst call",
        breaks > 0,
    );
    card(
        &mut out,
        &format!("≈ {}", grouped(report.lost_tokens)),
        "tokens not kept where it broke (estimate)",
        breaks > 0,
    );
    out.push_str("</div>");
    if report.cut {
        out.push_str("<p>The recording ends inside a line: its recorder was stopped while it wrote.</p>");
    }
    for lane in &report.lanes {
        lane_section(&mut out, lane);
    }
    out.push_str(
        "<footer>Tokens marked ≈, and all of what cache rules would have served, are estimates: a quarter of the bytes of \
         tools, system prompt and messages as sent. Columns named “real” are the endpoint's own counts. Continuity is the \
         shared leading bytes divided by the previous call's bytes. Cache markers do not count as content. “Costs as fresh” is \
         the price in fresh input tokens, for rules whose prices are documented.</footer></main></html>\n",
    );
    out
}

fn card(out: &mut String, figure: &str, caption: &str, bad: bool) {
    let class = if bad { "card bad" } else { "card" };
    let _ = write!(
        out,
        "<div class=\"{class}\"><b>{figure}</b><span>{caption}</span></div>"
    );
}

fn lane_section(out: &mut String, lane: &LaneReport) {
    let _ = write!(
        out,
        "<h2>{} <small>{} · {} calls</small></h2>\
         <div class=\"key\"><span><i class=\"k\"></i>kept</span><span><i class=\"a\"></i>new</span>\
         <span><i class=\"l\"></i>sent before, not kept</span></div>\
         <div class=\"calls\"><div class=\"head\"><div>call</div><div>the request, and what it kept</div><div>kept</div>\
         <div>≈ tokens</div><div>≈ not kept</div><div>real cached</div></div>",
        escape(model(lane)),
        lane.lane.api,
        grouped(lane.calls.len()),
    );
    // A bar is as long as what a call sent and what it did not keep.
    let extent = |call: &CallReport| {
        let sent = call.content.as_ref().map_or(0, |content| content.prefix_bytes);
        let lost = call
            .kept
            .as_ref()
            .map_or(0, |kept| kept.previous_bytes - kept.shared_bytes);
        sent + lost
    };
    let longest = lane.calls.iter().map(extent).max().unwrap_or_default().max(1);
    for call in &lane.calls {
        call_row(out, call, longest);
    }
    out.push_str("</div>");
    caches(
        out,
        "What each documented cache rule would have served of all calls (≈ tokens)",
        &lane.caches,
    );
}

fn call_row(out: &mut String, call: &CallReport, longest: usize) {
    let kept = call.kept.as_ref();
    let broke = kept.is_some_and(|kept| kept.broke);
    let class = if broke { "call broke" } else { "call" };
    let open = if broke { " open" } else { "" };
    let width = |bytes: usize| format!("{:.2}%", crate::measure::fraction(bytes, longest) * 100.0);
    let shared = kept.map_or(0, |kept| kept.shared_bytes);
    let sent = call.content.as_ref().map_or(0, |content| content.prefix_bytes);
    let lost = kept.map_or(0, |kept| kept.previous_bytes - kept.shared_bytes);
    let cached = match call.usage {
        Some(usage) => match (usage.cache_read, usage.input) {
            (Some(read), Some(input)) => format!("{} of {}", grouped_u64(read), grouped_u64(input)),
            (Some(read), None) => grouped_u64(read),
            (None, _) => "–".to_owned(),
        },
        None => "–".to_owned(),
    };
    let tokens = call.content.as_ref().map_or("–".to_owned(), |content| {
        format!("≈ {}", grouped(content.estimated_tokens))
    });
    let lost_tokens = kept
        .filter(|kept| kept.lost_tokens > 0)
        .map_or(String::new(), |kept| format!("≈ {}", grouped(kept.lost_tokens)));
    let _ = write!(
        out,
        "<details class=\"{class}\"{open}><summary class=\"row\"><span class=\"id\">{}</span><span class=\"bar\">\
         <i class=\"k\" style=\"width:{}\"></i><i class=\"a\" style=\"width:{}\"></i><i class=\"l\" style=\"width:{}\"></i></span>\
         <span class=\"n\">{}</span><span class=\"n\">{tokens}</span><span class=\"n lost\">{lost_tokens}</span>\
         <span class=\"n\">{cached}</span></summary>\
         <div class=\"why\">",
        call.call,
        width(shared),
        width(sent - shared.min(sent)),
        width(lost),
        kept.map_or("–".to_owned(), |kept| percent(kept.continuity)),
    );
    if let Some(fault) = &call.fault {
        let _ = write!(out, "<p>Not measured: {}</p>", escape(fault));
    }
    match kept {
        Some(kept) => {
            match &kept.boundary {
                Some(boundary) => {
                    let _ = write!(
                        out,
                        "<p><b>{}.</b> Of call {}, {} was kept; ≈ {} tokens were not.{}</p>",
                        escape(&capitalised(&boundary.to_string())),
                        kept.previous,
                        percent(kept.continuity),
                        grouped(kept.lost_tokens),
                        also(boundary),
                    );
                    difference(out, boundary);
                }
                None => {
                    let _ = write!(
                        out,
                        "<p>All of call {} was kept; ≈ {} tokens are new.</p>",
                        kept.previous,
                        grouped(estimate_tokens(sent - shared.min(sent)))
                    );
                }
            }
            if !kept.changed_parameters.is_empty() {
                let _ = write!(
                    out,
                    "<p>Parameters that differ: {}.</p>",
                    escape(&kept.changed_parameters.join(", "))
                );
            }
        }
        None => out.push_str("<p>There is no call before it to compare with.</p>"),
    }
    if let Some(content) = &call.content {
        let _ = write!(
            out,
            "<p class=\"soft\">{} tools · {} system · {} messages · {} bytes of prefix</p>",
            content.tools,
            content.system,
            grouped(content.messages),
            grouped(content.prefix_bytes)
        );
    }
    caches(out, "Cache rule", &call.caches);
    out.push_str("</div></details>");
}

/// What else is different, where more than the first list is.
fn also(boundary: &Boundary) -> String {
    let mut also = Vec::new();
    let (first_is_tool, first_is_system) = (
        matches!(boundary.first, crate::request::Position::Tool(_)),
        matches!(boundary.first, crate::request::Position::System(_)),
    );
    if let (Some(index), true) = (boundary.system, first_is_tool) {
        also.push(format!("system {index}"));
    }
    match boundary.message {
        Some(index) if first_is_tool || first_is_system => also.push(format!("message {index}")),
        None if first_is_tool || first_is_system => {
            return match also.is_empty() {
                true => " All messages are kept, but they follow what changed.".to_owned(),
                false => format!(" Also different: {}.", also.join(", ")),
            };
        }
        _ => {}
    }
    if also.is_empty() {
        return String::new();
    }
    format!(" Also different: {}.", also.join(", "))
}

fn difference(out: &mut String, boundary: &Boundary) {
    let difference = &boundary.difference;
    let dots = if difference.common.is_empty() { "" } else { "…" };
    let common = escape(&difference.common);
    out.push_str("<pre>");
    let mut line = |name: &str, tag: &str, text: &str| {
        let (text, then) = match (text, difference.then.as_str()) {
            ("", "") => ("(nothing)".to_owned(), String::new()),
            ("", then) => ("(nothing)".to_owned(), escape(then)),
            (text, "") => (escape(text), "…".to_owned()),
            (text, then) => (escape(text), escape(then)),
        };
        let _ = write!(
            out,
            "<em>{name}{dots}{common}</em><{tag}>{text}</{tag}><em>{then}</em>"
        );
    };
    line("was  ", "del", &difference.previous);
    line("\nis   ", "ins", &difference.later);
    out.push_str("</pre>");
}

fn caches(out: &mut String, title: &str, caches: &[Served]) {
    if caches.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "<div class=\"box\"><table><tr><th>{title}</th><th>served</th><th>of input</th><th>written</th><th>read again</th>\
         <th>costs as fresh</th></tr>"
    );
    for served in caches {
        let share = match served.total {
            0 => "–".to_owned(),
            total => format!("{}%", share(served.served, total)),
        };
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{share}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            served.rule.title(),
            grouped(served.served),
            if served.written > 0 {
                grouped(served.written)
            } else {
                "–".to_owned()
            },
            grouped(served.read_again),
            served.price.map_or("–".to_owned(), rounded),
        );
    }
    out.push_str("</table></div>");
}

fn percent(fraction: f64) -> String {
    // 99.96 % is not all of it.
    if fraction < 1.0 && fraction > 0.999 {
        return "99.9%".to_owned();
    }
    format!("{:.1}%", fraction * 100.0)
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().chain(characters).collect(),
        None => String::new(),
    }
}

fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// A price in whole tokens.
fn rounded(price: f64) -> String {
    let digits = format!("{price:.0}");
    digits.parse().map_or(digits, grouped)
}

fn grouped_u64(count: u64) -> String {
    usize::try_from(count).map_or_else(|_| count.to_string(), grouped)
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}
