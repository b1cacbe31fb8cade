//! A small agent host of our own: the worked example of [`Host`], and the negative control.
//!
//! It keeps its requests append-only, or breaks them in one chosen way, so that the check can be seen to fail where it
//! should. Must never know: how it is measured.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::Api;
use crate::host::{Host, HostError, Session};
use crate::tail::{MessageIdentity, TailSegment};

/// How the host lays its requests out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Nothing that was sent is ever changed.
    #[default]
    AppendOnly,
    /// A context text at the front is different in each request: the negative control.
    VolatileContext,
    /// The loaded bodies are sent anew after the transcript of each request, and declared as tail segments.
    TailBodies,
    /// As `TailBodies`, but declared by value only.
    CopiedTailBodies,
    /// The loaded bodies are thrown away.
    DropBodies,
    /// The first turn's results are folded into a stub when the second turn begins.
    FoldResults,
    /// A tool's description changes in the second turn.
    ToolDescription,
}

/// The host with its session.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReferenceHost {
    layout: Layout,
    api: Option<Api>,
    transcript: Vec<Value>,
    loaded: Vec<String>,
    requests: usize,
    tail: Vec<(usize, usize, String)>,
    #[serde(skip)]
    client: Option<reqwest::Client>,
}

/// A call that the model made.
struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl ReferenceHost {
    /// A host with an empty session.
    pub fn new(layout: Layout) -> Self {
        Self {
            layout,
            api: None,
            transcript: Vec::new(),
            loaded: Vec::new(),
            requests: 0,
            tail: Vec::new(),
            client: None,
        }
    }

    /// The tail segments so far as lines for `PREFIX_CONFORMANCE_TAIL`.
    pub fn tail_lines(&self) -> String {
        let by_value = self.layout == Layout::CopiedTailBodies;
        self.tail
            .iter()
            .map(|(request, message, value)| match by_value {
                true => format!("{{\"value\":{value}}}\n"),
                false => format!("{{\"request\":{request},\"message\":{message},\"value\":{value}}}\n"),
            })
            .collect()
    }

    /// Sends requests until the endpoint answers with text.
    async fn run(&mut self, session: &Session, turn: usize) -> Result<(), HostError> {
        self.api = Some(session.api);
        if self.layout == Layout::FoldResults && turn == 2 {
            self.fold();
        }
        let input = &session.inputs[turn - 1];
        self.transcript.push(json!({"role": "user", "content": input}));
        loop {
            let answer = self.ask(session, turn).await?;
            let (said, calls) = read_answer(session.api, &answer)?;
            self.transcript.extend(said);
            if calls.is_empty() {
                return Ok(());
            }
            for call in calls {
                let result = self.load(session, &call)?;
                self.transcript.push(result);
            }
        }
    }

    /// Executes a call of `load_skill`.
    fn load(&mut self, session: &Session, call: &Call) -> Result<Value, HostError> {
        let arguments: Value = serde_json::from_str(&call.arguments)
            .map_err(|fault| HostError(format!("the call {} is no JSON: {fault}", call.id)))?;
        let skill = session
            .skills
            .iter()
            .find(|skill| call.name == "load_skill" && arguments["name"] == skill.name.as_str())
            .ok_or_else(|| HostError(format!("the call {} names no skill", call.id)))?;
        let content = match self.layout {
            Layout::TailBodies | Layout::CopiedTailBodies => {
                self.loaded.push(skill.body.clone());
                "loaded; its body follows the transcript".to_owned()
            }
            Layout::DropBodies => "loaded".to_owned(),
            Layout::AppendOnly | Layout::VolatileContext | Layout::FoldResults | Layout::ToolDescription => {
                skill.body.clone()
            }
        };
        Ok(match session.api {
            Api::OpenAiChat => json!({"role": "tool", "tool_call_id": call.id, "content": content}),
            Api::OpenAiResponses => {
                json!({"type": "function_call_output", "call_id": call.id, "output": content})
            }
            Api::Anthropic => json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": call.id, "content": content},
            ]}),
        })
    }

    /// Replaces what the tools said so far by a stub.
    fn fold(&mut self) {
        for message in &mut self.transcript {
            let is_result = message["role"] == "tool"
                || message["type"] == "function_call_output"
                || message["content"][0]["type"] == "tool_result";
            let key = if message["role"] == "tool" {
                "content"
            } else {
                "output"
            };
            if message["content"][0]["type"] == "tool_result" {
                message["content"][0]["content"] = json!("(folded)");
            } else if is_result {
                message[key] = json!("(folded)");
            }
        }
    }

    async fn ask(&mut self, session: &Session, turn: usize) -> Result<String, HostError> {
        self.requests += 1;
        let body = self.body(session, turn);
        let url = match session.api {
            Api::OpenAiChat => format!("{}/chat/completions", session.base_url),
            Api::OpenAiResponses => format!("{}/responses", session.base_url),
            Api::Anthropic => format!("{}/v1/messages", session.base_url),
        };
        let fault = |cause: reqwest::Error| HostError(format!("the endpoint: {cause}"));
        if self.client.is_none() {
            let built = reqwest::Client::builder().no_proxy().tls_certs_only([]).build();
            self.client = Some(built.map_err(fault)?);
        }
        let client = self
            .client
            .as_ref()
            .ok_or_else(|| HostError("no client".to_owned()))?;
        let response = client
            .post(url)
            .header("content-type", "application/json")
            .body(body.to_string())
            .send()
            .await
            .map_err(fault)?;
        let status = response.status();
        let text = response.text().await.map_err(fault)?;
        if status.is_success() {
            Ok(text)
        } else {
            Err(HostError(format!("the endpoint answered {status}: {text}")))
        }
    }

    fn body(&mut self, session: &Session, turn: usize) -> Value {
        let system = "You are a helpful agent. Load a skill before you rely on it. ".repeat(40);
        let listed: Vec<&str> = session.skills.iter().map(|skill| skill.name.as_str()).collect();
        let now = match self.layout {
            Layout::VolatileContext => format!(" This is request {}.", self.requests),
            _ => String::new(),
        };
        let context = format!("Skills:{now} {}.", listed.join(", "));
        let description = match self.layout {
            Layout::ToolDescription if turn == 2 => "Loads a skill now.",
            _ => "Loads a skill.",
        };
        let parameters =
            json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
        let mut messages = vec![json!({"role": "user", "content": context})];
        messages.extend(self.transcript.iter().cloned());
        if session.api == Api::OpenAiChat {
            messages.insert(0, json!({"role": "system", "content": system}));
        }
        for body in &self.loaded {
            let message = json!({"role": "user", "content": body});
            self.tail
                .push((self.requests, messages.len(), message.to_string()));
            messages.push(message);
        }
        match session.api {
            Api::OpenAiChat => json!({
                "model": session.model, "stream": true,
                "tools": [{"type": "function", "function": {
                    "name": "load_skill", "description": description, "parameters": parameters,
                }}],
                "messages": messages,
            }),
            Api::OpenAiResponses => json!({
                "model": session.model, "stream": true, "store": false, "instructions": system,
                "tools": [{
                    "type": "function", "name": "load_skill", "description": description,
                    "parameters": parameters,
                }],
                "input": messages,
            }),
            Api::Anthropic => json!({
                "model": session.model, "stream": true, "max_tokens": 1024, "system": system,
                "tools": [{"name": "load_skill", "description": description, "input_schema": parameters}],
                "messages": messages,
            }),
        }
    }
}

impl Host for ReferenceHost {
    async fn turn(&mut self, session: &Session, turn: usize) -> Result<(), HostError> {
        self.run(session, turn).await
    }

    async fn tail_segments(&mut self) -> Result<Vec<TailSegment>, HostError> {
        let by_value = self.layout == Layout::CopiedTailBodies;
        let segments = self.tail.iter().map(|(request, message, value)| TailSegment {
            identity: (!by_value).then_some(MessageIdentity {
                request: *request,
                message: *message,
            }),
            value: by_value.then(|| value.clone()),
        });
        Ok(segments.collect())
    }
}

/// The messages that an answer adds to the transcript, and its calls.
fn read_answer(api: Api, stream: &str) -> Result<(Vec<Value>, Vec<Call>), HostError> {
    let events: Vec<Value> = stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).map_err(|fault| HostError(format!("the answer: {fault}"))))
        .collect::<Result<_, _>>()?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let joined = |path: &str| -> String {
        events
            .iter()
            .filter_map(|event| event.pointer(path))
            .map(text)
            .collect()
    };
    match api {
        Api::OpenAiChat => {
            let id = joined("/choices/0/delta/tool_calls/0/id");
            let (content, thought) = (
                joined("/choices/0/delta/content"),
                joined("/choices/0/delta/reasoning_content"),
            );
            if id.is_empty() {
                return Ok((vec![json!({"role": "assistant", "content": content})], Vec::new()));
            }
            let call = Call {
                id,
                name: joined("/choices/0/delta/tool_calls/0/function/name"),
                arguments: joined("/choices/0/delta/tool_calls/0/function/arguments"),
            };
            let function = json!({"name": call.name, "arguments": call.arguments});
            let message = json!({
                "role": "assistant", "content": null, "reasoning_content": thought,
                "tool_calls": [{"id": call.id, "type": "function", "function": function}],
            });
            Ok((vec![message], vec![call]))
        }
        Api::OpenAiResponses => {
            let items: Vec<Value> = events
                .iter()
                .filter(|event| event["type"] == "response.output_item.done")
                .map(|event| event["item"].clone())
                .collect();
            let calls = items
                .iter()
                .filter(|item| item["type"] == "function_call")
                .map(|item| Call {
                    id: text(&item["call_id"]),
                    name: text(&item["name"]),
                    arguments: text(&item["arguments"]),
                })
                .collect();
            Ok((items, calls))
        }
        Api::Anthropic => {
            let name = joined("/content_block/name");
            if name.is_empty() {
                let content = json!([{"type": "text", "text": joined("/delta/text")}]);
                return Ok((vec![json!({"role": "assistant", "content": content})], Vec::new()));
            }
            let call = Call {
                id: joined("/content_block/id"),
                name,
                arguments: joined("/delta/partial_json"),
            };
            let input: Value = serde_json::from_str(&call.arguments)
                .map_err(|fault| HostError(format!("the call {}: {fault}", call.id)))?;
            let content = json!([
                {"type": "thinking", "thinking": joined("/delta/thinking"), "signature": joined("/delta/signature")},
                {"type": "tool_use", "id": call.id, "name": call.name, "input": input},
            ]);
            Ok((vec![json!({"role": "assistant", "content": content})], vec![call]))
        }
    }
}
