//! Line ends survive edits.

use proptest::prelude::*;

use super::*;

fn region(lines: Range<usize>, text: &str) -> Region {
    Region {
        lines,
        text: text.to_owned(),
    }
}

fn file(text: &str) -> FileText {
    FileText::parse(text, &HiddenCrLf::None)
}

#[test]
fn untouched_lines_keep_their_ends_and_new_lines_take_their_neighbours() {
    for (before, lines, text, after) in [
        ("a\r\nb\nc\rd", 1..2, "B\n", "a\r\nB\nc\rd"),
        ("a\r\nb\nc\rd", 0..1, "A\nx\n", "A\r\nx\r\nb\nc\rd"),
        ("a\r\nb\nc\rd", 2..3, "c\nx\n", "a\r\nb\nc\rx\rd"),
        ("a\r\nb\nc\rd", 1..3, "", "a\r\nd"),
        ("a\r\nb", 1..2, "b\nc\n", "a\r\nb\r\nc\r\n"),
        ("a\rb\r", 0..2, "x\na\nb\n", "x\ra\rb\r"),
        ("a", 0..1, "a\nb\n", "a\nb\n"),
        ("", 0..0, "a\nb", "a\nb"),
    ] {
        let rebuilt = file(before).replace(&[region(lines, text)], Ending::Lf);
        assert_eq!(rebuilt.on_disk(), after, "{before:?} {text:?}");
    }
}

#[test]
fn a_file_without_line_ends_takes_the_ones_that_were_written() {
    let rebuilt = file("").replace(&[region(0..0, "a\nb\n")], first_ending("a\r\nb\r\n"));
    assert_eq!(rebuilt.on_disk(), "a\r\nb\r\n");
}

#[test]
fn hidden_crlf_is_counted_by_lf() {
    let hidden = HiddenCrLf::Lines(BTreeSet::from([2]));
    let text = FileText::parse("a\rb\nc\nd\n", &hidden);
    assert_eq!(text.lf(), "a\nb\nc\nd\n");
    assert_eq!(text.on_disk(), "a\rb\nc\r\nd\n");
    assert_eq!(text.before_lf_becomes_crlf(), None);
    let all = FileText::parse("a\rb\nc", &HiddenCrLf::All);
    assert_eq!(all.on_disk(), "a\rb\r\nc");
    assert_eq!(all.before_lf_becomes_crlf().as_deref(), Some("a\rb\nc"));
}

#[test]
fn an_empty_line_does_not_vanish_behind_a_cr() {
    let rebuilt = file("a\rb\n\nc").replace(&[region(1..2, "")], Ending::Lf);
    assert_eq!(rebuilt.lf(), "a\n\nc");
    assert_eq!(file(&rebuilt.on_disk()), rebuilt);
}

#[test]
fn a_stream_splits_line_ends_anywhere() {
    let text = "a\r\nb\rc\n\r\n\rd\r";
    for cut in 0..=text.len() {
        for second in cut..=text.len() {
            let mut stream = LfStream::default();
            let pieces = [&text[..cut], &text[cut..second], &text[second..]];
            let out: String = pieces.iter().map(|piece| stream.push(piece)).collect();
            assert_eq!(out, to_lf(text), "{pieces:?}");
        }
    }
}

fn any_file() -> impl Strategy<Value = String> {
    let line = ("[ab]{1,2}", prop::sample::select(vec!["\n", "\r\n", "\r"]));
    (prop::collection::vec(line, 0..12), "[ab]{0,2}").prop_map(|(lines, last)| {
        let mut text: String = lines
            .iter()
            .flat_map(|(text, end)| [text.as_str(), end])
            .collect();
        text.push_str(&last);
        text
    })
}

proptest! {
    #[test]
    fn parsing_loses_nothing(text in "[ab\r\n]{0,20}") {
        prop_assert_eq!(file(&text).on_disk(), text);
    }

    #[test]
    fn lines_outside_the_regions_keep_their_bytes(
        text in any_file(),
        new in "([abx]{0,2}\n){0,4}",
        start in any::<prop::sample::Index>(),
        length in 0usize..4,
    ) {
        let before = file(&text);
        let count = before.line_count();
        let start = start.index(count + 1);
        let end = (start + length).min(count);
        // A region that ends the file may leave its last line open; any other must end its last line.
        let rebuilt = before.replace(&[region(start..end, &new)], Ending::Lf);
        let lines: Vec<&str> = before.lf().split_inclusive('\n').collect();
        let bytes = |range: Range<usize>| FileText {
            lf: lines[range.clone()].concat(),
            endings: before.endings[range.start.min(before.endings.len())..range.end.min(before.endings.len())].to_vec(),
        }.on_disk();
        let on_disk = rebuilt.on_disk();
        prop_assert!(on_disk.starts_with(&bytes(0..start)));
        prop_assert!(on_disk.ends_with(&bytes(end..count)));
        let expected = format!("{}{new}{}", lines[..start].concat(), lines[end..].concat());
        prop_assert_eq!(rebuilt.lf(), expected);
        prop_assert_eq!(file(&on_disk), rebuilt);
    }
}
