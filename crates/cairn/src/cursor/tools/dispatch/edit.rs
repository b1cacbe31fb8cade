//! An edit's stages: read the whole file, learn its line ends, write it.
//!
//! The client's read shows every text on LF and without a byte order mark, takes what is no UTF-8 for another
//! encoding, and names the size in bytes. An ASCII text of that size is the file. For any other a hidden search counts
//! the lines that end in CRLF: with these and with or without the mark's three bytes the account must be even, or the
//! file is not the UTF-8 text that was read and is refused. Only if some lines end in CRLF and others do not are their
//! numbers asked for too.
//! The client's write keeps the mark, and writes CRLF for each LF where the file has any CRLF: a text that this turns
//! into the right bytes goes out as text, any other as bytes.
//! Must never know: exec ids, cards in progress.

use std::collections::BTreeSet;

use super::super::arguments::{Change, EditArguments};
use super::super::codec::request::{FileContent, crlf_lines, read_whole, write_whole};
use super::super::codec::response::ExecAnswer;
use super::super::edit::{EditFault, apply};
use super::super::lines::{FileText, HiddenCrLf, to_lf};
use super::super::notebook::CellFault;
use super::super::result::Outcome;
use super::super::result::exec::counted as number_of;
use super::super::result::exec::edit::{Planned, failed, unreadable, written};
use super::{Awaiting, Step};
use crate::cursor::proto::agent::{
    GrepSuccess, ReadSuccess, exec_server_message::Message, grep_result, grep_union_result, read_result,
    read_success,
};
use crate::model::CallId;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An edit under way.
#[derive(Debug)]
pub(in super::super) struct EditRun {
    edit: EditArguments,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// For the file's text.
    Reading,
    /// For the number of lines that end in CRLF; the text as read, and how many bytes more the file has.
    Counting { text: String, surplus: i64 },
    /// For the numbers of these `count` lines.
    Locating { text: String, bom: bool, count: usize },
    /// For the write to be done.
    Writing(Planned),
}

impl EditRun {
    pub(super) fn expects(&self) -> &'static str {
        match self.stage {
            Stage::Reading => "read_result",
            Stage::Counting { .. } | Stage::Locating { .. } => "grep_result",
            Stage::Writing(_) => "write_result",
        }
    }
}

pub(super) fn begin(call: &CallId, edit: EditArguments) -> Step {
    let message = read_whole(call, &edit.path);
    wait(edit, Stage::Reading, message)
}

pub(super) fn advance(call: &CallId, run: EditRun, answer: ExecAnswer) -> Result<Step, Box<Awaiting>> {
    let EditRun { edit, stage } = run;
    Ok(match (stage, answer) {
        (Stage::Reading, ExecAnswer::Read(result)) => read(call, edit, result),
        (Stage::Counting { text, surplus }, ExecAnswer::Grep(result)) => {
            counted(call, edit, text, surplus, result)
        }
        (Stage::Locating { text, bom, count }, ExecAnswer::Grep(result)) => {
            located(call, edit, &text, bom, count, result)
        }
        (Stage::Writing(planned), ExecAnswer::Write(result)) => Step::Done(written(&edit, planned, result)),
        (stage, _) => return Err(Box::new(Awaiting::Edit(Box::new(EditRun { edit, stage })))),
    })
}

fn read(call: &CallId, edit: EditArguments, result: read_result::Result) -> Step {
    if let (read_result::Result::FileNotFound(_), Change::Whole { contents }) = (&result, &edit.change) {
        let planned = Planned {
            before: None,
            after: to_lf(contents),
        };
        // A new file has no line ends to keep: it gets the text as the model wrote it.
        let message = write_whole(call, &edit.path, FileContent::Text(contents.clone()));
        return wait(edit, Stage::Writing(planned), message);
    }
    let success = match (unreadable(&edit, &result), result) {
        (None, read_result::Result::Success(success)) => success,
        (Some(outcome), _) => return Step::Done(outcome),
        (None, _) => return refuse(&edit, "the client did not send its text"),
    };
    let ReadSuccess {
        truncated,
        range_applied,
        file_size,
        output,
        ..
    } = success;
    if truncated || range_applied {
        return refuse(
            &edit,
            "the client sent only a part of it, and writing a part would lose the rest",
        );
    }
    let Some(read_success::Output::Content(text)) = output else {
        return refuse(&edit, "it is not a text file");
    };
    let surplus = file_size - i64::try_from(text.len()).unwrap_or(i64::MAX);
    match surplus {
        0 if text.is_ascii() => plan(call, edit, &text, false, HiddenCrLf::None),
        0.. => {
            let message = crlf_lines(call, &edit.path, "count");
            wait(edit, Stage::Counting { text, surplus }, message)
        }
        _ => not_utf8(&edit),
    }
}

fn counted(
    call: &CallId,
    edit: EditArguments,
    text: String,
    surplus: i64,
    result: grep_result::Result,
) -> Step {
    let success = match searched(result) {
        Ok(success) => success,
        Err(why) => return refuse(&edit, &why),
    };
    let matched: i32 = success
        .workspace_results
        .into_values()
        .filter_map(|group| match group.result {
            Some(grep_union_result::Result::Count(count)) => Some(count.total_matches),
            _ => None,
        })
        .sum();
    // A last line that ends in a bare CR matches as well and is no CRLF.
    let matched = usize::try_from(matched).unwrap_or_default();
    let Some(count) = matched.checked_sub(usize::from(text.ends_with('\r'))) else {
        return not_utf8(&edit);
    };
    let shown = text.matches("\r\n").count();
    let bare = text.matches('\n').count() - shown;
    let Some(hidden) = count.checked_sub(shown) else {
        return not_utf8(&edit);
    };
    let bom = match usize::try_from(surplus)
        .ok()
        .and_then(|surplus| surplus.checked_sub(hidden))
    {
        Some(0) => false,
        Some(3) => true,
        _ => return not_utf8(&edit),
    };
    if hidden == 0 {
        return plan(call, edit, &text, bom, HiddenCrLf::None);
    }
    if hidden == bare {
        return plan(call, edit, &text, bom, HiddenCrLf::All);
    }
    let message = crlf_lines(call, &edit.path, "content");
    wait(edit, Stage::Locating { text, bom, count }, message)
}

fn located(
    call: &CallId,
    edit: EditArguments,
    text: &str,
    bom: bool,
    count: usize,
    result: grep_result::Result,
) -> Step {
    let success = match searched(result) {
        Ok(success) => success,
        Err(why) => return refuse(&edit, &why),
    };
    let lines = i64::try_from(text.matches('\n').count()).unwrap_or(i64::MAX);
    let found: BTreeSet<i64> = success
        .workspace_results
        .into_values()
        .filter_map(|group| match group.result {
            Some(grep_union_result::Result::Content(content)) => Some(content.matches),
            _ => None,
        })
        .flatten()
        .flat_map(|file| file.matches)
        .filter(|line| !line.is_context_line)
        .map(|line| i64::from(line.line_number))
        .filter(|line| *line <= lines)
        .collect();
    match found.len() == count {
        true => plan(call, edit, text, bom, HiddenCrLf::Lines(found)),
        false => refuse(
            &edit,
            "it mixes line ends and the client did not list all of them: give the file one kind of line end first",
        ),
    }
}

/// The search's success, or why the line ends stay unknown.
fn searched(result: grep_result::Result) -> Result<GrepSuccess, String> {
    match result {
        grep_result::Result::Success(success) => Ok(success),
        grep_result::Result::Error(error) => {
            let cause = error.error.trim_end();
            Err(format!("its line ends could not be found out: {cause}"))
        }
    }
}

fn plan(call: &CallId, edit: EditArguments, text: &str, bom: bool, hidden: HiddenCrLf) -> Step {
    let crlf_turns = hidden != HiddenCrLf::None || text.contains("\r\n");
    let before = FileText::parse(text, &hidden);
    let after = match apply(&before, &edit.change) {
        Ok(after) => after,
        Err(fault) => return Step::Done(unmatched(&edit, fault)),
    };
    let as_text = match crlf_turns {
        false => Some(after.on_disk()),
        true => after.before_lf_becomes_crlf(),
    };
    let content = match as_text {
        Some(text) => FileContent::Text(text),
        None => {
            let mark = if bom { BYTE_ORDER_MARK } else { b"" };
            FileContent::Bytes([mark, after.on_disk().as_bytes()].concat())
        }
    };
    let message = write_whole(call, &edit.path, content);
    let planned = Planned {
        before: Some(before.lf().to_owned()),
        after: after.lf().to_owned(),
    };
    wait(edit, Stage::Writing(planned), message)
}

fn unmatched(edit: &EditArguments, fault: EditFault) -> Outcome {
    let path = &edit.path;
    let (place, how, or_else) = match &edit.change {
        Change::Cell { index, .. } => (
            format!("cell {index} of {path}"),
            " from the cell's source, without the quotes and escapes of the file",
            "",
        ),
        Change::Whole { .. } | Change::Replace { .. } => (
            path.clone(),
            ", without line numbers",
            ", or set `replace_all` to true",
        ),
    };
    let text = match fault {
        EditFault::NotFound => format!(
            "`old_string` does not occur in {place}. Read the file and copy the passage exactly{how}."
        ),
        EditFault::Ambiguous(count) => format!(
            "`old_string` occurs {count} times in {place}. Add lines around it until it is unique{or_else}."
        ),
        EditFault::NoChange => {
            format!("`old_string` and `new_string` are the same; {place} was not changed.")
        }
        EditFault::Cell(CellFault::NotANotebook(why)) => {
            format!("{path} was not edited: it is no notebook that can be edited here: {why}.")
        }
        EditFault::Cell(CellFault::NoSuchCell(count)) => format!(
            "{path} was not edited: it has {}, counted from 0, and `cell_index` does not fit them.",
            number_of(i64::try_from(count).unwrap_or(i64::MAX), "cell")
        ),
        EditFault::Cell(CellFault::NotEmpty) => format!(
            "`old_string` is empty, but {place} is not: name the passage to replace, or set `is_new_cell` to true."
        ),
    };
    failed(edit, text)
}

fn not_utf8(edit: &EditArguments) -> Step {
    refuse(
        edit,
        "its bytes are not the UTF-8 text that was read, so writing it could lose some of them. Convert it to UTF-8 \
         first, or change it with a command",
    )
}

fn refuse(edit: &EditArguments, why: &str) -> Step {
    Step::Done(failed(edit, format!("{} was not edited: {why}.", edit.path)))
}

fn wait(edit: EditArguments, stage: Stage, message: Message) -> Step {
    Step::Exec {
        message,
        awaiting: Awaiting::Edit(Box::new(EditRun { edit, stage })),
    }
}
