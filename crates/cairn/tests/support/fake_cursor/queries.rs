//! What the official client answers when the person is asked: nobody sits there in a local run. [sdk]

use cairn::cursor::proto::agent::{self as pb, InteractionQuery, InteractionResponse};

/// Answers as the official client does in a local run. [sdk]
pub fn answer(query: InteractionQuery) -> InteractionResponse {
    use pb::interaction_query::Query;
    use pb::interaction_response::Result;
    let result = match query.query.unwrap() {
        Query::WebSearchRequestQuery(_) => Result::WebSearchRequestResponse(pb::WebSearchRequestResponse {
            result: Some(pb::web_search_request_response::Result::Approved(
                pb::web_search_request_response::Approved {},
            )),
        }),
        Query::WebFetchRequestQuery(_) => Result::WebFetchRequestResponse(pb::WebFetchRequestResponse {
            result: Some(pb::web_fetch_request_response::Result::Approved(
                pb::web_fetch_request_response::Approved {},
            )),
        }),
        Query::SwitchModeRequestQuery(_) => {
            Result::SwitchModeRequestResponse(pb::SwitchModeRequestResponse {
                result: Some(pb::switch_mode_request_response::Result::Approved(
                    pb::switch_mode_request_response::Approved {},
                )),
            })
        }
        Query::GenerateImageRequestQuery(query) => {
            Result::GenerateImageRequestResponse(pb::GenerateImageRequestResponse {
                result: Some(pb::generate_image_request_response::Result::Approved(
                    pb::generate_image_request_response::Approved {
                        description: query.args.unwrap().description,
                    },
                )),
            })
        }
        Query::CreatePlanRequestQuery(_) => {
            Result::CreatePlanRequestResponse(pb::CreatePlanRequestResponse {
                result: Some(pb::CreatePlanResult {
                    result: Some(pb::create_plan_result::Result::Success(pb::CreatePlanSuccess {})),
                    ..Default::default()
                }),
            })
        }
        Query::AskQuestionInteractionQuery(_) => {
            let rejected = pb::AskQuestionRejected {
                reason: "Interactive questions are not supported in local SDK runs".to_owned(),
            };
            Result::AskQuestionInteractionResponse(pb::AskQuestionInteractionResponse {
                result: Some(pb::AskQuestionResult {
                    result: Some(pb::ask_question_result::Result::Rejected(rejected)),
                }),
            })
        }
    };
    InteractionResponse {
        id: query.id,
        result: Some(result),
    }
}
