//! Windows over search results, and the form in which the model sees them.

use std::collections::BTreeMap;

use super::*;
use crate::cursor::proto::agent::{GrepContentMatch, GrepFileCount, GrepFileMatch};

fn success(result: grep_union_result::Result) -> grep_result::Result {
    grep_result::Result::Success(GrepSuccess {
        workspace_results: BTreeMap::from([("/w".to_owned(), GrepUnionResult { result: Some(result) })]),
        ..GrepSuccess::default()
    })
}

fn files(names: &[&str]) -> grep_union_result::Result {
    grep_union_result::Result::Files(GrepFilesResult {
        files: names.iter().map(|name| (*name).to_owned()).collect(),
        total_files: i32::try_from(names.len()).unwrap_or_default(),
        ..GrepFilesResult::default()
    })
}

fn line(line_number: i32, content: &str, is_context_line: bool) -> GrepContentMatch {
    GrepContentMatch {
        line_number,
        content: content.to_owned(),
        is_context_line,
        ..GrepContentMatch::default()
    }
}

fn run(arguments: &GrepArgs, result: grep_result::Result) -> (String, Tool) {
    let outcome = grep(arguments.clone(), result);
    (outcome.text.within(100_000), outcome.tool)
}

#[test]
fn content_is_grouped_by_file_and_marks_context() {
    let found = GrepContentResult {
        matches: vec![
            GrepFileMatch {
                file: "./a.rs".to_owned(),
                matches: vec![line(1, "x", true), line(2, "y\r\n", false), line(9, "z", false)],
            },
            GrepFileMatch {
                file: "b.rs".to_owned(),
                matches: vec![line(3, "y", false)],
            },
        ],
        ..GrepContentResult::default()
    };
    let result = success(grep_union_result::Result::Content(found));
    assert_eq!(
        run(&GrepArgs::default(), result.clone()).0,
        "In /w:\na.rs\n1-x\n2:y\n--\n9:z\nb.rs\n3:y\n"
    );
    let window = GrepArgs {
        head_limit: Some(2),
        offset: Some(2),
        ..GrepArgs::default()
    };
    assert_eq!(
        run(&window, result).0,
        "In /w:\na.rs\n9:z\nb.rs\n3:y\n[2 of 4 lines shown: use offset and head_limit for others.]\n"
    );
}

#[test]
fn the_card_holds_the_same_window_as_the_model_reads() {
    let window = GrepArgs {
        head_limit: Some(1),
        offset: Some(1),
        ..GrepArgs::default()
    };
    let (text, tool) = run(&window, success(files(&["./a", "./b", "./c"])));
    assert_eq!(
        text,
        "In /w:\nb\n[1 of 3 files shown: use offset and head_limit for others.]\n"
    );
    let mut expected = match files(&["./b"]) {
        grep_union_result::Result::Files(files) => files,
        _ => GrepFilesResult::default(),
    };
    expected.total_files = 3;
    (expected.head_limit_applied, expected.offset_applied) = (Some(1), Some(1));
    assert_eq!(
        tool,
        Tool::GrepToolCall(GrepToolCall {
            args: Some(window),
            result: Some(GrepResult {
                result: Some(success(grep_union_result::Result::Files(expected))),
            }),
        })
    );
}

#[test]
fn a_window_that_the_client_cut_is_not_cut_again() {
    let found = GrepCountResult {
        counts: vec![GrepFileCount {
            file: "a".to_owned(),
            count: 2,
        }],
        total_files: 4,
        total_matches: 9,
        head_limit_applied: Some(1),
        offset_applied: Some(1),
        ripgrep_truncated: true,
        ..GrepCountResult::default()
    };
    let window = GrepArgs {
        head_limit: Some(1),
        offset: Some(1),
        ..GrepArgs::default()
    };
    assert_eq!(
        run(&window, success(grep_union_result::Result::Count(found))).0,
        "In /w:\na: 2\n[9 lines in 4 files.]\n[The client cut this list of 4 files: narrow the search to see the rest.]\n"
    );
}

#[test]
fn a_list_that_the_client_cut_says_of_how_many_if_the_client_does() {
    for (total_lines, of) in [(6300, " of 6300 lines"), (0, "")] {
        let found = GrepContentResult {
            matches: vec![GrepFileMatch {
                file: "a.rs".to_owned(),
                matches: vec![line(1, "x", false), line(2, "y", false)],
            }],
            total_lines,
            client_truncated: true,
            ..GrepContentResult::default()
        };
        let window = GrepArgs {
            head_limit: Some(1),
            ..GrepArgs::default()
        };
        assert_eq!(
            run(&window, success(grep_union_result::Result::Content(found))).0,
            format!(
                "In /w:\na.rs\n1:x\n[1 of 2 lines shown: use offset and head_limit for others.]\n\
                 [The client cut this list{of}: narrow the search to see the rest.]\n"
            )
        );
    }
}

#[test]
fn nothing_found_is_no_error() {
    let outcome = grep(GrepArgs::default(), success(files(&[])));
    assert_eq!(
        (outcome.text.within(100_000).as_str(), outcome.is_error),
        ("Nothing found.", false)
    );
}

#[test]
fn glob_lists_files_of_each_workspace() {
    let arguments = GlobArguments {
        pattern: "*.rs".to_owned(),
        target_directory: None,
    };
    let outcome = glob(&arguments, success(files(&["./b.rs", "a.rs"])));
    assert_eq!(outcome.text.within(100_000), "In /w:\nb.rs\na.rs\n");
    assert_eq!(
        outcome.tool,
        Tool::GlobToolCall(GlobToolCall {
            args: Some(glob_card_args(&arguments)),
            result: Some(GlobToolResult {
                result: Some(glob_tool_result::Result::Success(GlobToolSuccess {
                    pattern: "*.rs".to_owned(),
                    files: vec!["b.rs".to_owned(), "a.rs".to_owned()],
                    total_files: 2,
                    ..GlobToolSuccess::default()
                })),
            }),
        })
    );
}
