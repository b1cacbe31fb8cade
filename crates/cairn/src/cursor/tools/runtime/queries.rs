//! The part of the runtime that waits for the person and for the server's own services.
//!
//! Owns the mapping between query ids and calls. Must never know: execs.

use super::super::dispatch::{self, ServiceAnswer};
use super::super::error::ToolProtocolError;
use super::{CallState, Effect, ToolRuntime};
use crate::cursor::proto::agent::{InteractionResponse, interaction_response};
use crate::model::CallId;

/// What became of a query.
#[derive(Debug)]
pub(super) enum Query {
    /// The person has not answered.
    Open(CallId),
    /// It has its answer.
    Answered(CallId),
}

impl ToolRuntime {
    /// The person answered a query.
    ///
    /// # Errors
    /// The query was never asked or has its answer, or the answer is of another kind.
    pub fn responded(
        &mut self,
        response: InteractionResponse,
        now_ms: u64,
    ) -> Result<Vec<Effect>, ToolProtocolError> {
        let query_id = response.id;
        let call = match self.queries.get(&query_id) {
            Some(Query::Open(call)) => call.clone(),
            Some(Query::Answered(call)) => {
                return Err(ToolProtocolError::AnsweredQuery {
                    query_id,
                    call: Some(call.clone()),
                });
            }
            None if query_id == 0 || query_id > self.last_query_id => {
                return Err(ToolProtocolError::UnknownQuery { query_id });
            }
            None => return Err(ToolProtocolError::AnsweredQuery { query_id, call: None }),
        };
        let Some((awaiting, running)) = self.take_running(&call) else {
            return Err(ToolProtocolError::UnknownQuery { query_id });
        };
        let expected = awaiting.expects();
        let got = response.result.as_ref().map_or("no result", kind);
        let wrong = ToolProtocolError::WrongResponse {
            query_id,
            call: call.clone(),
            expected,
            got,
        };
        let step = match response.result {
            Some(result) => dispatch::responded(&call, awaiting, result, &self.scope),
            None => Err(Box::new(awaiting)),
        };
        match step {
            Ok(Some(step)) => {
                let mut effects = Vec::new();
                self.queries.insert(query_id, Query::Answered(call.clone()));
                self.take(&call, step, running, now_ms, &mut effects);
                Ok(effects)
            }
            Ok(None) => Err(wrong),
            Err(awaiting) => {
                let awaiting = *awaiting;
                self.calls.insert(call, CallState::Running { awaiting, running });
                Err(wrong)
            }
        }
    }

    /// A service of the server gave what it had for a call. A call that is over meanwhile needs it no more.
    ///
    /// # Errors
    /// The call waits for something else.
    pub fn served(
        &mut self,
        call: &CallId,
        answer: ServiceAnswer,
        now_ms: u64,
    ) -> Result<Vec<Effect>, ToolProtocolError> {
        let Some((awaiting, running)) = self.take_running(call) else {
            return Ok(Vec::new());
        };
        match dispatch::served(call, awaiting, answer) {
            Ok(step) => {
                let mut effects = Vec::new();
                self.take(call, step, running, now_ms, &mut effects);
                Ok(effects)
            }
            Err(awaiting) => {
                let awaiting = *awaiting;
                self.calls
                    .insert(call.clone(), CallState::Running { awaiting, running });
                Err(super::misplaced(call, "served"))
            }
        }
    }

    /// The next query's id.
    pub(super) fn open_query(&mut self, call: &CallId) -> u32 {
        self.last_query_id += 1;
        self.queries.insert(self.last_query_id, Query::Open(call.clone()));
        self.last_query_id
    }
}

/// The field name of an answer's kind, for errors.
fn kind(result: &interaction_response::Result) -> &'static str {
    use interaction_response::Result;
    match result {
        Result::WebSearchRequestResponse(_) => "web_search_request_response",
        Result::AskQuestionInteractionResponse(_) => "ask_question_interaction_response",
        Result::SwitchModeRequestResponse(_) => "switch_mode_request_response",
        Result::CreatePlanRequestResponse(_) => "create_plan_request_response",
        Result::WebFetchRequestResponse(_) => "web_fetch_request_response",
        Result::GenerateImageRequestResponse(_) => "generate_image_request_response",
    }
}
