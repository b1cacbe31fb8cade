//! The result of ReadLints. Must never know: exec ids.

use std::fmt::Write as _;

use super::super::super::arguments::ReadLintsArguments;
use super::super::super::codec::card::lints_card_args;
use super::super::{ModelText, Outcome};
use super::{because, counted};
use crate::cursor::proto::agent::{
    Diagnostic, DiagnosticItem, DiagnosticRange, DiagnosticSeverity, FileDiagnostics, ReadLintsToolCall,
    ReadLintsToolError, ReadLintsToolResult, ReadLintsToolSuccess, diagnostics_result,
    read_lints_tool_result, tool_call::Tool,
};

/// What the client knows of one path, or why it does not say.
pub(in super::super::super) type Answered = Result<Vec<Diagnostic>, String>;

/// One answer of the client.
pub(in super::super::super) fn answered(result: diagnostics_result::Result) -> Answered {
    use diagnostics_result::Result;
    match result {
        Result::Success(success) => Ok(success.diagnostics),
        Result::Error(error) => Err(format!("the client could not tell{}", because(&error.error))),
        Result::Rejected(rejected) => Err(format!("it was refused{}", because(&rejected.reason))),
        Result::FileNotFound(_) => Err("it does not exist.".to_owned()),
        Result::PermissionDenied(_) => Err("no permission.".to_owned()),
    }
}

/// All paths together; `answers` has one for each.
pub(in super::super::super) fn outcome(asked: &ReadLintsArguments, answers: Vec<Answered>) -> Outcome {
    let mut text = String::new();
    let mut files = Vec::new();
    let mut total = 0;
    let mut failed = 0;
    for (path, answer) in asked.paths.iter().zip(answers) {
        match answer {
            Err(why) => {
                failed += 1;
                let _ = writeln!(text, "{path}: {why}");
            }
            Ok(found) => {
                let count = i32::try_from(found.len()).unwrap_or(i32::MAX);
                total += count;
                match count {
                    0 => {
                        let _ = writeln!(text, "{path}: nothing reported.");
                    }
                    _ => {
                        let _ = writeln!(text, "{path}: {}", counted(count, "problem"));
                    }
                }
                for problem in &found {
                    let _ = writeln!(text, "  {}", line(problem));
                }
                files.push(FileDiagnostics {
                    path: path.clone(),
                    diagnostics: found.into_iter().map(item).collect(),
                    diagnostics_count: count,
                });
            }
        }
    }
    if total == 0 && failed < asked.paths.len() {
        text.push_str("[The editor may not have checked these files: a build or a linter decides.]\n");
    }
    let card = |result| {
        Tool::ReadLintsToolCall(ReadLintsToolCall {
            args: Some(lints_card_args(asked)),
            result: Some(ReadLintsToolResult { result: Some(result) }),
        })
    };
    match failed < asked.paths.len() {
        true => {
            let found = ReadLintsToolSuccess {
                total_files: i32::try_from(files.len()).unwrap_or(i32::MAX),
                total_diagnostics: total,
                file_diagnostics: files,
            };
            Outcome::success(
                card(read_lints_tool_result::Result::Success(found)),
                ModelText::new(&text),
            )
        }
        false => {
            let error = ReadLintsToolError {
                error_message: text.clone(),
            };
            Outcome::error(card(read_lints_tool_result::Result::Error(error)), text)
        }
    }
}

/// A problem in one line: its place as the client gives it, weight, words, and who found it.
fn line(problem: &Diagnostic) -> String {
    let place = problem.range.and_then(|range| range.start);
    let place = place.map_or(String::new(), |at| format!("{}:{} ", at.line, at.column));
    let weight = match problem.severity() {
        DiagnosticSeverity::Error => "error: ",
        DiagnosticSeverity::Warning => "warning: ",
        DiagnosticSeverity::Information => "information: ",
        DiagnosticSeverity::Hint => "hint: ",
        DiagnosticSeverity::Unspecified => "",
    };
    let names = [problem.source.as_str(), problem.code.as_str()];
    let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
    let by = match names.is_empty() {
        true => String::new(),
        false => format!(" [{}]", names.join(" ")),
    };
    let stale = if problem.is_stale {
        " (may be out of date)"
    } else {
        ""
    };
    format!("{place}{weight}{}{by}{stale}", problem.message)
}

fn item(problem: Diagnostic) -> DiagnosticItem {
    DiagnosticItem {
        severity: problem.severity,
        range: problem.range.map(|range| DiagnosticRange {
            start: range.start,
            end: range.end,
        }),
        message: problem.message,
        source: problem.source,
        code: problem.code,
        is_stale: problem.is_stale,
    }
}
