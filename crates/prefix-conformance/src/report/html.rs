//! A report as one self-contained page: no script, no font, no request to anywhere.
//!
//! Must never know: how figures come about.

use std::fmt::Write;

use super::summary::{Verdict, continues, count, events, model, rules_of, verdict};
use super::text::share;
use super::{CallReport, Kept, LaneReport, Report, Served, estimate_tokens};
use crate::measure::{Boundary, percent};

const STYLE: &str = include_str!("page.css");

/// Changes shown at the top of the page.
const MOST_EVENTS: usize = 12;

pub(super) fn page(report: &Report) -> String {
    let mut out = String::new();
    let breaks = report.resets.len();
    let (verdict, sentence) = verdict(report);
    let class = match verdict {
        Verdict::Good => "good",
        Verdict::Noted => "noted",
        Verdict::Bad => "bad",
    };
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>Prefix report: {0}</title><style>{STYLE}</style>\n<main><h1>Prefix report</h1>\
         <p class=\"soft\">Does each request repeat the one before it, byte for byte, so that a prompt cache can serve it?</p>\
         <p class=\"verdict {class}\">{0}.</p><div class=\"cards\">",
        escape(&sentence)
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
        &grouped(report.changed.len()),
        "smaller changes of what was sent",
        false,
    );
    card(
        &mut out,
        &percent(report.lowest_continuity),
        "kept at the worst call",
        breaks > 0,
    );
    card(
        &mut out,
        &format!("≈\u{a0}{}", grouped(report.lost_tokens)),
        "tokens sent before and not kept (estimate)",
        breaks > 0,
    );
    out.push_str("</div>");
    if report.cut {
        out.push_str("<p>The recording ends inside a line: its recorder was stopped while it wrote.</p>");
    }
    what_changed(&mut out, report);
    for lane in &report.lanes {
        lane_section(&mut out, lane);
    }
    out.push_str(
        "<footer>Tokens marked ≈, and all of what cache rules would have served, are estimates: a quarter of the bytes of \
         tools, system prompt and messages as sent. Columns named “real” are the endpoint's own counts. Continuity is the \
         shared leading bytes divided by the previous call's bytes. Cache markers do not count as content. “Costs as fresh” is \
         the price in fresh input tokens, for rules whose prices are documented. A turn begins with a call that holds no \
         tool's result behind the model's last words.</footer></main></html>\n",
    );
    out
}

/// What a reader wants first: which call, what changed, what it cost.
fn what_changed(out: &mut String, report: &Report) {
    let (shown, all) = events(report, MOST_EVENTS);
    if all == 0 {
        return;
    }
    let number = match all - shown.len() {
        0 => count(all, "call"),
        _ => format!("the {} that cost most, of {all} calls", shown.len()),
    };
    let _ = write!(
        out,
        "<h2>What changed <small>{number}</small></h2><ol class=\"events\">"
    );
    for event in shown {
        let class = if event.kept.broke { "event broke" } else { "event" };
        let turn = event
            .call
            .turn
            .map_or_else(String::new, |turn| format!(" · turn {turn}"));
        let lane = match report.lanes.len() {
            1 => String::new(),
            _ => format!(" · {}", escape(&model(event.lane))),
        };
        let _ = write!(
            out,
            "<li class=\"{class}\"><p class=\"soft\"><a href=\"#call-{0}\">Call {0}</a>{turn}{lane}</p><h3>{1}</h3>\
             <p>{2} of call {3} was kept. Not kept: ≈\u{a0}{4} tokens.{5} {6}</p>",
            event.call.call,
            escape(&capitalised(&event.boundary.to_string())),
            percent(event.kept.continuity),
            event.kept.previous,
            grouped(event.kept.lost_tokens),
            also(event.boundary),
            escape(&read_again(event.lane, event.call)),
        );
        continued(out, event.kept);
        difference(out, event.boundary);
        out.push_str("</li>");
    }
    out.push_str("</ol>");
}

fn continued(out: &mut String, kept: &Kept) {
    let sentence = continues(kept);
    if !sentence.is_empty() {
        let _ = write!(out, "<p>{}</p>", escape(&sentence));
    }
}

/// What the rules of the call's API say that was read again.
fn read_again(lane: &LaneReport, call: &CallReport) -> String {
    let costs: Vec<String> = call
        .caches
        .iter()
        .filter(|served| rules_of(lane.lane.api).contains(&served.rule))
        .map(|served| format!("≈\u{a0}{} ({})", grouped(served.read_again), served.rule.title()))
        .collect();
    format!("Read again by cache rule: {}.", costs.join(", "))
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
        "<h2>{} <small>{} · {}</small></h2>\
         <div class=\"key\"><span><i class=\"k\"></i>kept</span><span><i class=\"a\"></i>new</span>\
         <span><i class=\"l\"></i>sent before, not kept</span></div>\
         <div class=\"calls\"><div class=\"head\"><div>call</div><div>turn</div><div>the request, and what it kept</div><div>kept</div>\
         <div>≈ tokens</div><div>≈ not kept</div><div>real cached</div></div>",
        escape(&model(lane)),
        lane.lane.api,
        count(lane.calls.len(), "call"),
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
    let class = match kept {
        Some(kept) if kept.broke => "call broke",
        Some(kept) if kept.boundary.is_some() => "call changed",
        Some(_) | None if call.fault.is_some() => "call changed",
        Some(_) | None => "call",
    };
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
        format!("≈\u{a0}{}", grouped(content.estimated_tokens))
    });
    let lost_tokens = kept
        .filter(|kept| kept.lost_tokens > 0)
        .map_or(String::new(), |kept| {
            format!("≈\u{a0}{}", grouped(kept.lost_tokens))
        });
    let _ = write!(
        out,
        "<details class=\"{class}\" id=\"call-{0}\"><summary class=\"row\"><span class=\"id\">{0}</span>\
         <span class=\"n turn\">{1}</span><span class=\"bar\">\
         <i class=\"k\" style=\"width:{2}\"></i><i class=\"a\" style=\"width:{3}\"></i><i class=\"l\" style=\"width:{4}\"></i></span>\
         <span class=\"n\">{5}</span><span class=\"n\">{tokens}</span><span class=\"n lost\">{lost_tokens}</span>\
         <span class=\"n\">{cached}</span></summary>\
         <div class=\"why\">",
        call.call,
        call.turn.map_or("–".to_owned(), |turn| turn.to_string()),
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
                        "<p><b>{}.</b> Of call {}, {} was kept; ≈\u{a0}{} tokens were not.{}</p>",
                        escape(&capitalised(&boundary.to_string())),
                        kept.previous,
                        percent(kept.continuity),
                        grouped(kept.lost_tokens),
                        also(boundary),
                    );
                    continued(out, kept);
                    difference(out, boundary);
                }
                None => {
                    let _ = write!(
                        out,
                        "<p>All of call {} was kept; ≈\u{a0}{} tokens are new.</p>",
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
        None if call.fault.is_some() => {}
        None => out.push_str("<p>There is no measured call before it to compare with.</p>"),
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
