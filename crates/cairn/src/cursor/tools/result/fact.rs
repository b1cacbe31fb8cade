//! State beside the history that follows from a completed call, read from its card alone: the same card gives the same
//! facts while the run goes on and when the steps of a turn are read again. Of a call whose card is gone, it is read from
//! the arguments.
//!
//! Must never know: which run completed the call, or where the state is kept.

use super::super::arguments::{Arguments, Reader};
use super::super::asked::Asked;
use super::super::registry::entry;
use super::super::todos::apply_todos;
use crate::cursor::proto::agent::{
    TodoItem, communicate_update_result, create_plan_result, read_tool_result, switch_mode_result,
    tool_call::Tool, update_todos_result,
};
use crate::cursor::request::Mode;
use crate::cursor::tools::ProgressUpdate;
use crate::model::ToolCall;

/// State beside the history that follows from a call.
#[derive(Clone, PartialEq, Debug)]
pub enum DerivedFact {
    /// The file at this path, as the client names it, was read.
    ReadPath(String),
    /// The whole to-do list as it is now.
    Todos(Vec<TodoItem>),
    /// The whole text of the plan as it is now.
    Plan(String),
    /// The mode that the person agreed to.
    Mode(Mode),
    /// A subagent said where it stands.
    Progress {
        /// What it said.
        update: ProgressUpdate,
        /// One-based place of the call's step in its turn.
        message_index: u32,
    },
}

/// What follows from a completed call; nothing from one that failed.
pub fn derived_facts(card: &Tool) -> Vec<DerivedFact> {
    match card {
        Tool::ReadToolCall(read) => match read.result.as_ref().and_then(|result| result.result.as_ref()) {
            Some(read_tool_result::Result::Success(success)) => {
                vec![DerivedFact::ReadPath(success.path.clone())]
            }
            _ => Vec::new(),
        },
        Tool::UpdateTodosToolCall(update) => {
            match update.result.as_ref().and_then(|result| result.result.as_ref()) {
                Some(update_todos_result::Result::Success(success)) => {
                    vec![DerivedFact::Todos(success.todos.clone())]
                }
                _ => Vec::new(),
            }
        }
        Tool::CreatePlanToolCall(create) => {
            match create.result.as_ref().and_then(|result| result.result.as_ref()) {
                Some(create_plan_result::Result::Success(_)) => {
                    let plan = create.args.as_ref().map(|args| args.plan.clone());
                    plan.map(DerivedFact::Plan).into_iter().collect()
                }
                _ => Vec::new(),
            }
        }
        Tool::SwitchModeToolCall(switch) => {
            match switch.result.as_ref().and_then(|result| result.result.as_ref()) {
                Some(switch_mode_result::Result::Success(success)) => {
                    let mode = Mode::ALL.into_iter().find(|mode| mode.id() == success.to_mode_id);
                    mode.map(DerivedFact::Mode).into_iter().collect()
                }
                _ => Vec::new(),
            }
        }
        Tool::CommunicateUpdateToolCall(said) => {
            match said.result.as_ref().and_then(|result| result.result.as_ref()) {
                Some(communicate_update_result::Result::Success(success)) => {
                    let args = said.args.clone().unwrap_or_default();
                    vec![DerivedFact::Progress {
                        update: ProgressUpdate {
                            current_step: success.current_step.clone(),
                            final_summary: args.final_summary,
                            completed_subtitle: args.completed_subtitle,
                        },
                        message_index: success.message_index,
                    }]
                }
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}

/// What follows from the arguments of a call that went well: the to-do list after the list before it, or the plan.
pub fn fact_of_arguments(call: &ToolCall, todos: &[TodoItem]) -> Option<DerivedFact> {
    let tool = entry(&call.name)?;
    // A call whose arguments do not fit cannot have gone well.
    let mut reader = Reader::open(&call.arguments).ok()?;
    let arguments = (tool.read)(&mut reader);
    reader.close().ok()?;
    match arguments {
        Arguments::TodoWrite(call) => Some(DerivedFact::Todos(apply_todos(todos, &call))),
        Arguments::Asked(Asked::Plan(args)) => Some(DerivedFact::Plan(args.plan)),
        _ => None,
    }
}
