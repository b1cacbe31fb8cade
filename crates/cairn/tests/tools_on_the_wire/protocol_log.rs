//! A client that breaks the order of a tool call: the run ends as a protocol fault, and the log has the ids as fields of
//! their own and nothing of what was said.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::Once;

use super::*;
use cairn::cursor::proto::agent::{
    delete_result, interaction_response::Result as Response, read_result, read_success,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

/// The fields of a record, with those of the spans around it.
#[derive(Clone, Default, Debug)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

thread_local! {
    /// What cairn has logged on this thread. The whole server of a test lives on the test's thread.
    static LOG: RefCell<Vec<(Level, Fields)>> = const { RefCell::new(Vec::new()) };
}

/// Keeps everything that cairn logs, down to traces.
struct Capture;

impl Capture {
    /// Begins anew for this thread. One subscriber serves all threads: what a thread without one meets first would stay
    /// unheard for all.
    fn begin() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            tracing::subscriber::set_global_default(Registry::default().with(Self)).unwrap();
        });
        LOG.take();
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Capture {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        context.span(id).unwrap().extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        values.record(span.extensions_mut().get_mut::<Fields>().unwrap());
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if !event.metadata().target().starts_with("cairn") {
            return;
        }
        let mut all = Fields::default();
        for span in context.event_scope(event).into_iter().flatten() {
            all.0
                .extend(span.extensions().get::<Fields>().cloned().unwrap_or_default().0);
        }
        event.record(&mut all);
        LOG.with_borrow_mut(|log| log.push((*event.metadata().level(), all)));
    }
}

const PROMPT: &str = "PROMPT-CANARY";
const ARGUMENT: &str = "ARGUMENT-CANARY.txt";
const CONTENT: &str = "RESULT-CANARY";

fn read_answer() -> Answer {
    Answer::ReadResult(pb::ReadResult {
        result: Some(read_result::Result::Success(pb::ReadSuccess {
            path: ARGUMENT.to_owned(),
            total_lines: 1,
            output: Some(read_success::Output::Content(CONTENT.to_owned())),
            ..Default::default()
        })),
    })
}

/// What is left of the log's warning: the ids and the sentence.
type Ids = [Option<String>; 3];

/// Plays a round of a Read and a question, of which the question stays open, with a client that answers them so. Gives the
/// ids that the log names, `call`, `exec_id` and `query_id`, and the error that the client was shown.
async fn broken(
    reads: impl FnMut(u32) -> Vec<(u32, Answer)> + Send + 'static,
    asks: impl FnMut(u32) -> pb::InteractionResponse + Send + 'static,
) -> (Ids, String) {
    let (mut reads, mut asks) = (reads, asks);
    Capture::begin();
    let mut bench = Bench::new().await;
    bench.cursor.hooks.exec = Box::new(move |exec| match &exec.message {
        Some(Exec::ReadArgs(_)) => {
            let answers = reads(exec.id).into_iter();
            ExecAnswer::Reply(answers.map(|(id, message)| answered(id, message)).collect())
        }
        Some(Exec::DeleteArgs(_)) => ExecAnswer::Hold,
        _ => ExecAnswer::Run,
    });
    bench.cursor.hooks.query = Box::new(move |query| Some(asks(query.id)));
    let (read, search) = (
        json!({"path": ARGUMENT}).to_string(),
        json!({"search_term": ARGUMENT}).to_string(),
    );
    // The deletion is never answered, so that the round stays open.
    bench.endpoint.reply_calls([
        ("call_0", "Delete", read.as_str()),
        ("call_1", "Read", read.as_str()),
        ("call_2", "WebSearch", search.as_str()),
    ]);
    let report = bench.cursor.send(PROMPT).await;
    let (code, message) = report.error();
    assert_eq!(code, "invalid_argument");
    let message = message.to_owned();
    let log = LOG.take();
    for (_, fields) in &log {
        for (name, value) in &fields.0 {
            for canary in [PROMPT, "ARGUMENT-CANARY", CONTENT] {
                assert!(!value.contains(canary), "{name} holds {value}");
            }
        }
    }
    let broken: Vec<_> = log
        .iter()
        .filter(|(_, fields)| fields.0["message"] == "a tool call's protocol was broken")
        .collect();
    let [(level, fields)] = &broken[..] else {
        panic!("{broken:?}")
    };
    assert_eq!(*level, Level::WARN);
    assert_eq!(fields.0["run"], "cursor:agent-1-request-1");
    assert_eq!(fields.0["conversation"].trim_matches('"'), "agent-1");
    let ids = ["call", "exec_id", "query_id"].map(|name| fields.0.get(name).cloned());
    (ids, message)
}

fn ids(call: Option<&str>, exec_id: Option<u32>, query_id: Option<u32>) -> Ids {
    [
        call.map(str::to_owned),
        exec_id.map(|id| id.to_string()),
        query_id.map(|id| id.to_string()),
    ]
}

fn approve(id: u32) -> pb::InteractionResponse {
    use pb::web_search_request_response::{Approved, Result};
    pb::InteractionResponse {
        id,
        result: Some(Response::WebSearchRequestResponse(pb::WebSearchRequestResponse {
            result: Some(Result::Approved(Approved {})),
        })),
    }
}

fn read_once(id: u32) -> Vec<(u32, Answer)> {
    vec![(id, read_answer())]
}

fn reads_nothing(_: u32) -> Vec<(u32, Answer)> {
    Vec::new()
}

#[tokio::test]
async fn an_unknown_and_an_empty_exec_id() {
    let (logged, message) = broken(|_| vec![(77, read_answer())], approve).await;
    assert_eq!(logged, ids(None, Some(77), None));
    assert!(message.contains("exec 77 was never asked for"), "{message}");
    let (logged, message) = broken(|_| vec![(0, read_answer())], approve).await;
    assert_eq!(logged, ids(None, Some(0), None));
    assert!(message.contains("without an exec id"), "{message}");
}

#[tokio::test]
async fn a_repeated_result() {
    let (logged, message) = broken(|id| vec![(id, read_answer()), (id, read_answer())], approve).await;
    assert_eq!(logged, ids(Some("call_1"), Some(3), None));
    assert!(
        message.contains("exec 3 already has its result (call call_1)"),
        "{message}"
    );
}

#[tokio::test]
async fn a_result_of_another_kind_and_one_without_a_value() {
    let deleted = || {
        Answer::DeleteResult(pb::DeleteResult {
            result: Some(delete_result::Result::Success(pb::DeleteSuccess::default())),
        })
    };
    let (logged, message) = broken(move |id| vec![(id, deleted())], approve).await;
    assert_eq!(logged, ids(Some("call_1"), Some(3), None));
    assert!(
        message.contains("exec 3 of call call_1 waits for read_result and got delete_result"),
        "{message}"
    );
    let empty = || Answer::ReadResult(pb::ReadResult { result: None });
    let (logged, _) = broken(move |id| vec![(id, empty())], approve).await;
    assert_eq!(logged, ids(Some("call_1"), Some(3), None));
}

#[tokio::test]
async fn an_answer_of_the_person_to_no_question_and_one_of_another_kind() {
    let (logged, message) = broken(read_once, |_| approve(9)).await;
    assert_eq!(logged, ids(None, None, Some(9)));
    assert!(message.contains("query 9 was never asked"), "{message}");
    let planned = |id| pb::InteractionResponse {
        id,
        result: Some(Response::CreatePlanRequestResponse(
            pb::CreatePlanRequestResponse { result: None },
        )),
    };
    let (logged, _) = broken(reads_nothing, planned).await;
    assert_eq!(logged, ids(Some("call_2"), None, Some(1)));
}
