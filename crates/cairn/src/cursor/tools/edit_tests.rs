//! Matching, uniqueness and the untouched bytes around a replacement.

use proptest::prelude::*;

use super::super::lines::HiddenCrLf;
use super::*;

fn file(text: &str) -> FileText {
    FileText::parse(text, &HiddenCrLf::None)
}

fn replace(text: &str, old: &str, new: &str, every: bool) -> Result<String, EditFault> {
    let change = Change::Replace {
        old: old.to_owned(),
        new: new.to_owned(),
        every,
    };
    apply(&file(text), &change).map(|after| after.on_disk())
}

fn write(text: &str, contents: &str) -> String {
    let change = Change::Whole {
        contents: contents.to_owned(),
    };
    apply(&file(text), &change).map_or_else(|fault| format!("{fault:?}"), |after| after.on_disk())
}

#[test]
fn matching_is_on_lf_and_the_disk_keeps_its_ends() {
    for (text, old, new, after) in [
        ("one\ntwo\nthree\n", "two\nthree", "2\n3", "one\n2\n3\n"),
        (
            "one\r\ntwo\r\nthree\r\n",
            "two\nthree",
            "2\nmore\n3",
            "one\r\n2\r\nmore\r\n3\r\n",
        ),
        ("one\rtwo\rthree", "two\nthree", "2", "one\r2"),
        (
            "one\r\ntwo\nthree\r\n",
            "one\r\ntwo",
            "1\r\n2",
            "1\r\n2\nthree\r\n",
        ),
        ("one\r\ntwo\nthree\r\n", "two\n", "", "one\r\nthree\r\n"),
        ("a b a\r\nc", "b", "B", "a B a\r\nc"),
        ("a\nb", "b", "b\n", "a\nb\n"),
    ] {
        assert_eq!(
            replace(text, old, new, false).as_deref(),
            Ok(after),
            "{text:?} {old:?}"
        );
    }
}

#[test]
fn a_match_is_unique_or_refused() {
    assert_eq!(replace("abc", "x", "y", false), Err(EditFault::NotFound));
    assert_eq!(replace("a b a", "a", "y", false), Err(EditFault::Ambiguous(2)));
    assert_eq!(replace("aaa", "aa", "y", false), Err(EditFault::Ambiguous(2)));
    assert_eq!(replace("éé", "é", "y", false), Err(EditFault::Ambiguous(2)));
    assert_eq!(
        replace("a\r\nb", "a\nb", "a\r\nb", false),
        Err(EditFault::NoChange)
    );
}

#[test]
fn every_match_is_replaced() {
    assert_eq!(
        replace("a a\r\nb\na\ra", "a", "x\ny", true).as_deref(),
        Ok("x\r\ny x\r\ny\r\nb\nx\ry\rx\ry")
    );
    assert_eq!(replace("aaa", "aa", "b", true).as_deref(), Ok("ba"));
}

#[test]
fn a_whole_text_keeps_the_ends_of_lines_that_stay() {
    assert_eq!(write("a\r\nb\nc\r\n", "a\nB\nc\nd\n"), "a\r\nB\nc\r\nd\r\n");
    assert_eq!(write("a\nb\n", "a\r\nb\r\nc\r\n"), "a\nb\nc\n");
    assert_eq!(write("", "a\r\nb"), "a\r\nb");
    assert_eq!(write("a\n", ""), "");
    assert_eq!(write("a\r\n", "\u{feff}a\nb\n"), "a\r\nb\r\n");
}

#[test]
fn the_diff_is_unified() {
    assert_eq!(
        shown_diff("a\nb\nc\n", "a\nB\nc\nd\n"),
        ShownDiff {
            added: 2,
            removed: 1,
            unified: "@@ -1,3 +1,4 @@\n a\n-b\n+B\n c\n+d\n".to_owned(),
        }
    );
    assert_eq!(shown_diff("a\n", "a\n").unified, "");
}

proptest! {
    #[test]
    fn a_replacement_is_the_same_as_on_lf_text_and_spares_the_other_lines(
        lines in prop::collection::vec(("[abc]{1,3}", prop::sample::select(vec!["\n", "\r\n", "\r"])), 1..10),
        old in "[abc\n]{1,3}",
        new in "[abcx\n]{0,4}",
        every in any::<bool>(),
    ) {
        let text: String = lines.iter().flat_map(|(text, end)| [text.as_str(), end]).collect();
        prop_assume!(old != new);
        let lf = to_lf(&text);
        let found = occurrences(&lf, &old);
        match replace(&text, &old, &new, every) {
            Ok(after) => {
                prop_assert!(found > 0 && (every || found == 1));
                let expected = match every {
                    true => lf.replace(&old, &new),
                    false => lf.replacen(&old, &new, 1),
                };
                prop_assert_eq!(to_lf(&after), expected);
                // Lines wholly before the first match and wholly after the last one are the same bytes.
                let first = lf.find(&old).unwrap_or_default();
                let last = lf.rmatch_indices(&old).next().map_or(0, |(at, found)| at + found.len());
                let ahead = lf[..first].matches('\n').count();
                let behind = lf[last..].split_inclusive('\n').count().saturating_sub(1);
                let bytes = |range: Range<usize>| -> String {
                    lines[range].iter().flat_map(|(text, end)| [text.as_str(), end]).collect()
                };
                prop_assert!(after.starts_with(&bytes(0..ahead)));
                prop_assert!(after.ends_with(&bytes(lines.len() - behind..lines.len())));
            }
            Err(EditFault::NotFound) => prop_assert_eq!(found, 0),
            Err(EditFault::Ambiguous(count)) => prop_assert!(!every && count == found && count > 1),
            Err(EditFault::NoChange | EditFault::Cell(_)) => prop_assert!(false),
        }
    }
}
