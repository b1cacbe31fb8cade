//! One run request with headers of the test's own, and how the server ends it.

use std::time::Duration;

use cairn::cursor::connect::{Envelope, EnvelopeDecoder, encode_message};
use cairn::cursor::proto::agent::{AgentClientMessage, AgentRunRequest, agent_client_message};
use cairn::cursor::proto::aiserver::{BidiAppendRequest, BidiRequestId};
use prost::Message as _;
use serde_json::Value;

use super::cairn_server::KEY;

pub struct RawClient {
    http: reqwest::Client,
    base_url: String,
    token: String,
}

impl RawClient {
    pub async fn connect(base_url: &str) -> Self {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let response = http
            .post(format!("{base_url}/auth/exchange_user_api_key"))
            .header("content-type", "application/json")
            .bearer_auth(KEY)
            .body("{}")
            .send()
            .await
            .unwrap();
        let tokens: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
        Self {
            http,
            base_url: base_url.to_owned(),
            token: tokens["accessToken"].as_str().unwrap().to_owned(),
        }
    }

    /// Opens a request, sends its run request, and gives the code and the message of the error that ends it.
    pub async fn refused_run(
        &self,
        request_id: &str,
        request: AgentRunRequest,
        headers: &[(&str, &str)],
    ) -> (String, String) {
        let id = BidiRequestId {
            request_id: request_id.to_owned(),
        };
        let message = AgentClientMessage {
            message: Some(agent_client_message::Message::RunRequest(request)),
        };
        let append = BidiAppendRequest {
            data: hex::encode(message.encode_to_vec()),
            request_id: Some(id.clone()),
            ..Default::default()
        };
        let stream = self
            .post("/agent.v1.AgentService/RunSSE", "application/connect+proto")
            .timeout(Duration::from_secs(30))
            .body(encode_message(&id).unwrap())
            .send()
            .await
            .unwrap();
        let mut upload = self.post("/aiserver.v1.BidiService/BidiAppend", "application/proto");
        for (name, value) in headers {
            upload = upload.header(*name, *value);
        }
        let accepted = upload.body(append.encode_to_vec()).send().await.unwrap();
        assert!(accepted.status().is_success(), "{accepted:?}");
        let mut decoder = EnvelopeDecoder::new(usize::MAX);
        decoder.push(&stream.bytes().await.unwrap());
        while let Some(envelope) = decoder.next_envelope().unwrap() {
            if let Envelope::End(end) = envelope {
                let end: Value = serde_json::from_slice(&end).unwrap();
                let field = |name: &str| end["error"][name].as_str().unwrap().to_owned();
                return (field("code"), field("message"));
            }
        }
        panic!("no end frame");
    }

    fn post(&self, path: &str, content_type: &str) -> reqwest::RequestBuilder {
        self.http
            .post(format!("{}{path}", self.base_url))
            .header("content-type", content_type)
            .bearer_auth(&self.token)
    }
}
