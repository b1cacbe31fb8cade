//! The incremental decoder agrees with a whole parse at every split.

use proptest::prelude::*;

use super::{FieldEvent, StringFieldStream};

const FIELDS: &[&str] = &["path", "contents"];

fn events(pieces: &[&str]) -> (Vec<(&'static str, String)>, Vec<&'static str>) {
    let mut stream = StringFieldStream::new(FIELDS);
    let mut texts: Vec<(&'static str, String)> = Vec::new();
    let mut ended = Vec::new();
    for piece in pieces {
        for event in stream.push(piece) {
            match event {
                FieldEvent::Text { field, text } => match texts.last_mut() {
                    Some((last, whole)) if *last == field => whole.push_str(&text),
                    _ => texts.push((field, text)),
                },
                FieldEvent::End { field } => ended.push(field),
            }
        }
    }
    (texts, ended)
}

#[test]
fn decodes_named_top_level_strings_only() {
    let text = r#" { "other" : {"path":"no","x":["path","}"]} , "path" : "a\tb\u00e9" ,"n":-1.5e3,"t":true,"contents":"\ud83d\ude00\"" } "#;
    assert_eq!(
        events(&[text]),
        (
            vec![("path", "a\tb\u{e9}".to_owned()), ("contents", "😀\"".to_owned())],
            vec!["path", "contents"]
        )
    );
}

#[test]
fn every_split_in_three_gives_the_same_text() {
    let text = r#"{"p\u0061th":"x\\\ny","contents":"é\uD83D\uDE00\/"}"#;
    let whole = events(&[text]);
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    for &first in &places {
        for &second in places.iter().filter(|at| **at >= first) {
            assert_eq!(
                events(&[&text[..first], &text[first..second], &text[second..]]),
                whole
            );
        }
    }
}

#[test]
fn nothing_is_certain_after_a_breach() {
    for text in [
        r#"{"path":"a\q","contents":"b"}"#,
        r#"{"path":"a\ud83d","contents":"b"}"#,
        r#"{"path":"a\ud83dx","contents":"b"}"#,
        r#"["path","contents"]"#,
        "{\"path\":\"a\nb\",\"contents\":\"b\"}",
    ] {
        let (texts, ended) = events(&[text]);
        assert!(!ended.contains(&"path"), "{text}");
        assert!(texts.iter().all(|(field, _)| *field == "path"), "{text}");
    }
}

#[test]
fn an_open_string_is_shown_but_not_ended() {
    assert_eq!(
        events(&[r#"{"contents":"half \u00"#]),
        (vec![("contents", "half ".to_owned())], vec![])
    );
}

proptest! {
    #[test]
    fn any_text_at_any_split(
        path in any::<String>(),
        contents in any::<String>(),
        number in any::<i32>(),
        ascii in any::<bool>(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut text = serde_json::json!({"n": number, "path": path, "nested": {"path": [path]}, "contents": contents})
            .to_string();
        if ascii {
            text = text.chars().fold(String::new(), |mut out, character| {
                if character.is_ascii() {
                    out.push(character);
                } else {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                out
            });
        }
        let mut places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        places.push(text.len());
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| *cut.get(&places)).collect();
        cuts.push(0);
        cuts.push(text.len());
        cuts.sort_unstable();
        let pieces: Vec<&str> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        let (texts, ended) = events(&pieces);
        let expected: Vec<(&str, String)> = [("path", path), ("contents", contents)]
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .collect();
        prop_assert_eq!(texts, expected);
        prop_assert_eq!(ended, vec!["path", "contents"]);
    }
}
