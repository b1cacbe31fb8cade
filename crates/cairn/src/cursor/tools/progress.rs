//! UpdateCurrentStep: a subagent says where it stands. Shown and kept by the client, executed by nobody.
//!
//! Owns its arguments, its card and its result. Must never know: where in the turn the call stands until it is told.

use super::arguments::Arguments;
use super::registry::ToolEntry;
use super::result::{ModelText, Outcome};
use crate::cursor::proto::agent::{
    CommunicateUpdateArgs, CommunicateUpdateError, CommunicateUpdateResult, CommunicateUpdateSuccess,
    CommunicateUpdateToolCall, communicate_update_result, tool_call::Tool,
};

/// The name by which the model knows the tool.
pub const PROGRESS_TOOL: &str = "UpdateCurrentStep";

/// What a subagent says of its progress.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgressUpdate {
    /// What it does now.
    pub current_step: String,
    /// What it did, once it has finished.
    pub final_summary: Option<String>,
    /// A few words to stand under the finished task.
    pub completed_subtitle: Option<String>,
}

pub(super) const UPDATE_CURRENT_STEP: ToolEntry = ToolEntry {
    name: PROGRESS_TOOL,
    arguments: &["current_step", "final_summary", "completed_subtitle"],
    streamed: &["current_step", "final_summary", "completed_subtitle"],
    content: None,
    placeholder: |known| {
        Tool::CommunicateUpdateToolCall(CommunicateUpdateToolCall {
            args: Some(CommunicateUpdateArgs {
                current_step: known.get("current_step"),
                final_summary: known.get("final_summary"),
                completed_subtitle: known.get("completed_subtitle"),
            }),
            result: None,
        })
    },
    read: |reader| {
        Arguments::UpdateCurrentStep(ProgressUpdate {
            current_step: reader.filled_text("current_step"),
            final_summary: reader.optional_text("final_summary"),
            completed_subtitle: reader.optional_text("completed_subtitle"),
        })
    },
};

/// The card of an update.
pub(super) fn card(update: &ProgressUpdate) -> CommunicateUpdateToolCall {
    CommunicateUpdateToolCall {
        args: Some(CommunicateUpdateArgs {
            current_step: Some(update.current_step.clone()),
            final_summary: update.final_summary.clone(),
            completed_subtitle: update.completed_subtitle.clone(),
        }),
        result: None,
    }
}

/// The update is noted. Its place in the turn is filled in when the call takes it: see [`place`].
pub(super) fn outcome(update: ProgressUpdate) -> Outcome {
    let mut shown = card(&update);
    shown.result = Some(CommunicateUpdateResult {
        result: Some(communicate_update_result::Result::Success(
            CommunicateUpdateSuccess {
                current_step: update.current_step.clone(),
                message_index: 0,
            },
        )),
    });
    Outcome::success(
        Tool::CommunicateUpdateToolCall(shown),
        ModelText::new("The step is shown. Go on."),
    )
}

/// The card of an update that was refused.
pub(super) fn failed(mut card: CommunicateUpdateToolCall, error: String) -> CommunicateUpdateToolCall {
    card.result = Some(CommunicateUpdateResult {
        result: Some(communicate_update_result::Result::Error(CommunicateUpdateError {
            error,
        })),
    });
    card
}

/// Writes the one-based place of the call's step in its turn into the card of an update; leaves others alone.
pub(super) fn place(tool: &mut Option<Tool>, position: u32) {
    if let Some(Tool::CommunicateUpdateToolCall(card)) = tool
        && let Some(CommunicateUpdateResult {
            result: Some(communicate_update_result::Result::Success(success)),
        }) = &mut card.result
    {
        success.message_index = position;
    }
}
