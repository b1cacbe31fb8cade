//! The definition of the shared prefix, against the plain reading of it.

use proptest::prelude::*;

use super::*;
use crate::api::Api;

fn request(tools: &[String], messages: &[String]) -> Request {
    let tools: Vec<String> = tools
        .iter()
        .map(|name| format!(r#"{{"type":"function","function":{{"name":"{name}"}}}}"#))
        .collect();
    let messages: Vec<String> = messages
        .iter()
        .map(|text| format!(r#"{{"role":"user","content":"{text}"}}"#))
        .collect();
    let body = format!(
        r#"{{"tools":[{}],"messages":[{}]}}"#,
        tools.join(","),
        messages.join(",")
    );
    Request::parse(Api::OpenAiChat, body.into_bytes()).unwrap()
}

fn whole(request: &Request) -> Vec<u8> {
    request
        .items()
        .iter()
        .flat_map(|item| serialised(request, item))
        .collect()
}

proptest! {
    #[test]
    fn shared_bytes_are_the_common_start_of_the_two_serialisations(
        one in (prop::collection::vec("[ab]{0,2}", 0..3), prop::collection::vec("[abü]{0,3}", 0..4)),
        other in (prop::collection::vec("[ab]{0,2}", 0..3), prop::collection::vec("[abü]{0,3}", 0..4)),
    ) {
        let (before, after) = (request(&one.0, &one.1), request(&other.0, &other.1));
        let (first, second) = (whole(&before), whole(&after));
        let plain = first.iter().zip(&second).take_while(|(a, b)| a == b).count();
        let measured = measure(&before, &after);
        prop_assert_eq!(measured.shared_bytes, plain);
        prop_assert_eq!(measured.previous_bytes, first.len());
        prop_assert_eq!(measured.bytes, second.len());
        prop_assert_eq!(measured.boundary.is_none(), second.starts_with(&first));
        prop_assert_eq!(measured.continuity() == 1.0, second.starts_with(&first));
    }

    #[test]
    fn common_is_the_plain_common_length(
        (one, other) in (0usize..9000, 0usize..9000, 0usize..9000).prop_map(|(a, b, differs)| {
            let mut one = vec![7u8; a];
            if let Some(byte) = one.get_mut(differs) { *byte = 8; }
            (one, vec![7u8; b])
        })
    ) {
        let plain = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
        prop_assert_eq!(common(&one, &other), plain);
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn a_difference_inside_a_message_counts_up_to_its_byte() {
    let before = request(&[], &texts(&["same", "old end"]));
    let after = request(&[], &texts(&["same", "new end", "more"]));
    let measured = measure(&before, &after);
    // "M" + {"role":"user","content":"same"} + end, then "M" + {"role":"user","content":"
    assert_eq!(
        (measured.shared_bytes, measured.shared_items),
        (1 + 32 + 1 + 1 + 26, 1)
    );
    let boundary = measured.boundary.unwrap();
    assert_eq!(boundary.to_string(), "message 1 (user) changed");
    assert_eq!(
        boundary.difference,
        Difference {
            common: r#"{"role":"user","content":""#.into(),
            previous: "old".into(),
            later: "new".into(),
            then: r#" end"}"#.into(),
        }
    );
}

#[test]
fn what_was_added_or_removed_is_named() {
    let tools = texts(&["read", "write"]);
    for (before, after, expected, tool, message) in [
        (
            &tools[..1],
            &tools[..],
            "tool 1 (write) was added before what was there",
            Some(1),
            None,
        ),
        (&tools[..], &tools[..1], "tool 1 (write) is gone", Some(1), None),
        (&tools[..], &tools[1..], "tool 0 (read) is gone", Some(0), None),
        (
            &tools[..],
            &texts(&["write", "read"]),
            "tool 0 (read) moved behind what followed it",
            Some(0),
            None,
        ),
        (
            &tools[..],
            &texts(&["edit", "read", "write"]),
            "tool 0 (edit) was added before what was there",
            Some(0),
            None,
        ),
        (
            &tools[..],
            &texts(&["read", "edit"]),
            "tool 1 (write) changed",
            Some(1),
            None,
        ),
    ] {
        let said = texts(&["hi"]);
        let boundary = measure(&request(before, &said), &request(after, &said))
            .boundary
            .unwrap();
        assert_eq!(
            (boundary.to_string().as_str(), boundary.tool, boundary.message),
            (expected, tool, message)
        );
    }
    let boundary = measure(&request(&[], &texts(&["a", "b"])), &request(&[], &texts(&["a"])))
        .boundary
        .unwrap();
    assert_eq!(
        (boundary.to_string().as_str(), boundary.message),
        ("message 1 (user) is gone", Some(1))
    );
    let lines: Vec<String> = boundary
        .difference
        .to_string()
        .lines()
        .map(str::to_owned)
        .collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].starts_with("  was   {") && lines[1] == "  is    (nothing)",
        "{lines:?}"
    );
}

#[test]
fn a_percentage_never_reads_as_more_than_it_is() {
    for (fraction, expected) in [
        (1.0, "100.0%"),
        (0.999_96, "99.9%"),
        (0.95, "95.0%"),
        (0.949_99, "94.9%"),
        (0.58, "58.0%"),
        (0.0, "0.0%"),
    ] {
        assert_eq!(percent(fraction), expected);
    }
}
