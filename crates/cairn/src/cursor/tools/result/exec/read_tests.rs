//! The form in which the model sees a file.

use super::*;

fn text(offset: Option<i32>, limit: Option<i32>, success: ReadSuccess) -> String {
    let read = ReadArguments {
        path: "f".to_owned(),
        offset,
        limit,
    };
    outcome(&read, read_result::Result::Success(success))
        .text
        .within(100_000)
}

fn content(content: &str, total_lines: i32, range_applied: bool) -> ReadSuccess {
    ReadSuccess {
        total_lines,
        range_applied,
        output: Some(read_success::Output::Content(content.to_owned())),
        ..ReadSuccess::default()
    }
}

#[test]
fn lines_are_numbered() {
    assert_eq!(
        text(None, None, content("a\n\nb\n", 4, false)),
        "     1|a\n     2|\n     3|b\n"
    );
    assert_eq!(
        text(None, None, content("a\r\nb", 2, false)),
        "     1|a\n     2|b\n"
    );
    assert_eq!(text(None, None, content("", 1, false)), "f is empty.");
    assert_eq!(text(None, None, content("\n", 2, false)), "     1|\n");
}

#[test]
fn a_range_that_the_client_cut_out_is_numbered_from_its_start() {
    assert_eq!(
        text(Some(5), Some(3), content("5\n6\n", 31, true)),
        "     5|5\n     6|6\n     7|\n[The file goes on after line 7; its lines number 31.]\n"
    );
    assert_eq!(
        text(Some(29), None, content("29\n30\n", 31, true)),
        "    29|29\n    30|30\n"
    );
}

#[test]
fn a_range_that_the_client_left_to_us_is_cut_here() {
    assert_eq!(
        text(Some(2), Some(1), content("a\nb\nc\n", 4, false)),
        "     2|b\n[The file goes on after line 2; its lines number 4.]\n"
    );
    assert_eq!(
        text(Some(3), Some(9), content("a\nb\nc\n", 4, false)),
        "     3|c\n"
    );
    assert_eq!(
        text(Some(9), None, content("a\nb\n", 3, false)),
        "f has 3 lines: there is nothing from line 9 on."
    );
}

#[test]
fn a_picture_comes_as_a_picture_and_other_files_are_named() {
    let binary = ReadSuccess {
        file_size: 2,
        output: Some(read_success::Output::Data(b"\x00\x01".as_slice().into())),
        ..ReadSuccess::default()
    };
    assert_eq!(
        text(None, None, binary),
        "f is a binary file of 2 bytes; Read shows text and pictures (PNG, JPEG, GIF, WebP) only."
    );
    let image = ReadSuccess {
        file_size: 70,
        output: Some(read_success::Output::Data(b"\x89PNG\r\n\x1a\n".as_slice().into())),
        ..ReadSuccess::default()
    };
    assert_eq!(text(None, None, image), "f is a PNG image of 70 bytes.");
}
