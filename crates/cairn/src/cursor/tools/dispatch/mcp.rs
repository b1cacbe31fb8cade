//! A resource that is being read: where it cannot be, the server is asked what it has instead, so that the model can
//! go on. Must never know: exec ids.

use super::super::codec::request;
use super::super::codec::response::ExecAnswer;
use super::super::mcp::FetchMcpResourceArguments;
use super::super::result::exec::mcp_resource::{self, Missing};
use super::{Awaiting, Step};
use crate::cursor::proto::agent::{ReadMcpResourceExecArgs, exec_server_message::Message};
use crate::model::CallId;

/// A resource that was asked for.
#[derive(Debug)]
pub(in super::super) enum ResourceRun {
    /// It is being read.
    Reading(ReadMcpResourceExecArgs),
    /// It could not be; the server's resources are being listed.
    Listing(Box<Missing>),
}

impl ResourceRun {
    /// The field name of the answer that this stage waits for, for errors.
    pub(super) fn expects(&self) -> &'static str {
        match self {
            Self::Reading(_) => "read_mcp_resource_exec_result",
            Self::Listing(_) => "list_mcp_resources_exec_result",
        }
    }
}

pub(super) fn begin(call: &CallId, asked: &FetchMcpResourceArguments) -> Step {
    let args = request::read_mcp_resource_args(call, asked);
    Step::Exec {
        message: Message::ReadMcpResourceExecArgs(args.clone()),
        awaiting: Awaiting::Resource(Box::new(ResourceRun::Reading(args))),
    }
}

/// Takes an answer. The error gives the stage back: it does not wait for such an answer.
pub(super) fn advance(run: ResourceRun, answer: ExecAnswer) -> Result<Step, Box<Awaiting>> {
    match (run, answer) {
        (ResourceRun::Reading(args), ExecAnswer::ReadMcpResource(result)) => {
            Ok(match mcp_resource::outcome(args, result) {
                Ok(outcome) => Step::Done(outcome),
                Err(missing) => Step::Exec {
                    message: request::list_mcp_resources(missing.server()),
                    awaiting: Awaiting::Resource(Box::new(ResourceRun::Listing(missing))),
                },
            })
        }
        (ResourceRun::Listing(missing), ExecAnswer::ListMcpResources(listed)) => {
            Ok(Step::Done(missing.outcome(&listed)))
        }
        (run, _) => Err(Box::new(Awaiting::Resource(Box::new(run)))),
    }
}
