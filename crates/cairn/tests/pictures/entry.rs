//! A person's pictures and those of tools, from the client's wire to the endpoint's and back through the client's state.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cairn::cursor::proto::agent as pb;
use cairn::cursor::proto::agent::agent_client_message::Message as ClientMessage;
use cairn::cursor::proto::agent::agent_server_message::Message as ServerMessage;
use cairn::cursor::proto::agent::interaction_update::Message as Update;
use cairn::cursor::proto::agent::mcp_tool_result_content_item::Content;
use cairn::cursor::proto::agent::selected_image::{BlobIdWithData, DataOrBlobId};
use cairn::cursor::proto::agent::{
    SelectedContext, SelectedImage, UserMessage, exec_client_message, mcp_result,
};
use cairn::cursor::sessions::SessionLimits;
use cairn::demo::wire_client::RunFrame;
use cairn::model::PICTURE_UNSEEN;
use image::ImageFormat;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::files::{blank, picture, size};
use crate::support::cairn_server::{CairnServer, KEY, chat_model};
use crate::support::fake_cursor::{ExecAnswer, FakeCursor, GetAnswer, TurnReport};
use crate::support::strict_chat::StrictChat;
use crate::support::wire_bench::{Bench, Database, roles};

fn hash(data: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&Sha256::digest(data))
}

fn shows(text: &str, images: impl IntoIterator<Item = DataOrBlobId>) -> UserMessage {
    let images = images.into_iter().map(|data| SelectedImage {
        uuid: "uuid-canary".to_owned(),
        path: "/home/canary/secret.png".to_owned(),
        mime_type: "image/png".to_owned(),
        data_or_blob_id: Some(data),
    });
    UserMessage {
        text: text.to_owned(),
        selected_context: Some(SelectedContext {
            selected_images: images.collect(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// What the server itself remarked, without the empty lines around it.
fn notices(report: &TurnReport) -> Vec<&str> {
    let notices = report.frames.iter().filter_map(notice).map(str::trim);
    notices.filter(|notice| !notice.is_empty()).collect()
}

fn notice(frame: &RunFrame) -> Option<&str> {
    let RunFrame::Message(message) = frame else {
        return None;
    };
    let Some(ServerMessage::InteractionUpdate(update)) = &message.message else {
        return None;
    };
    match &update.message {
        Some(Update::TextDelta(delta)) if delta.is_server_notice => Some(&delta.text),
        _ => None,
    }
}

fn url(mime_type: &str, data: &[u8]) -> Value {
    let url = format!("data:{mime_type};base64,{}", STANDARD.encode(data));
    json!({"type": "image_url", "image_url": {"url": url}})
}

fn last_user_content(bench: &Bench) -> Vec<Value> {
    let body: Value = serde_json::from_slice(bench.bodies().last().unwrap()).unwrap();
    let messages = body["messages"].as_array().unwrap();
    messages.last().unwrap()["content"].as_array().unwrap().clone()
}

#[tokio::test]
async fn pictures_of_all_three_forms_reach_the_model_and_survive_restarts() {
    for database in [Database::Kept, Database::Lost] {
        let mut bench = Bench::new().await;
        let (one, two, three) = (
            picture(40, 30, ImageFormat::Png),
            picture(30, 40, ImageFormat::Jpeg),
            blank(1600, 100),
        );
        let message = shows(
            "What do they show?",
            [
                DataOrBlobId::BlobId(hash(&one)),
                DataOrBlobId::Data(two.clone()),
                DataOrBlobId::BlobIdWithData(BlobIdWithData {
                    blob_id: hash(&three),
                    data: three.clone(),
                }),
            ],
        );
        let asked = one.clone();
        bench.cursor.hooks.get = Box::new(move |args| match args.blob_id == hash(&asked) {
            true => GetAnswer::Bytes(asked.clone()),
            false => GetAnswer::Stored,
        });
        bench.endpoint.reply_text("Colours.");
        let report = bench.cursor.start_message(message).await.finish().await.success();
        assert_eq!(report.gets, [hash(&one)]);
        assert_eq!(notices(&report), [""; 0]);
        let content = last_user_content(&bench);
        assert_eq!(content.len(), 4);
        assert_eq!(content[1..3], [url("image/png", &one), url("image/jpeg", &two)]);
        let fitted = content[3]["image_url"]["url"].as_str().unwrap();
        let fitted = STANDARD
            .decode(fitted.strip_prefix("data:image/png;base64,").unwrap())
            .unwrap();
        assert_eq!(size(&fitted), (1568, 98));
        assert!(!String::from_utf8_lossy(&bench.bodies()[0]).contains("canary"));

        let mut bench = bench.restart(database).await;
        bench.endpoint.reply_text("Still colours.");
        bench.cursor.send("And now?").await.success();
        assert_eq!(roles(&bench.added()), ["assistant", "user"], "{database:?}");
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_picture_that_cannot_be_used_is_left_out_and_the_rest_of_the_message_stays() {
    let mut bench = Bench::new().await;
    let good = picture(10, 10, ImageFormat::Png);
    let message = shows(
        "What is this?",
        [
            DataOrBlobId::Data(Bytes::from_static(b"<svg/>")),
            DataOrBlobId::Data(good.clone()),
            DataOrBlobId::Data(good.slice(..40)),
        ],
    );
    bench.endpoint.reply_text("A picture.");
    let report = bench.cursor.start_message(message).await.finish().await.success();
    let faults = [
        "Picture 1 was left out: it is not a PNG, JPEG, GIF or WebP file.",
        "Picture 3 was left out: its PNG file is damaged.",
    ];
    assert_eq!(notices(&report), faults);
    let content = last_user_content(&bench);
    assert!(content[0]["text"].as_str().unwrap().contains("What is this?"));
    assert_eq!(
        content[1..],
        [
            json!({"type": "text", "text": "[Picture 1 was left out: it is not a PNG, JPEG, GIF or WebP file.]"}),
            url("image/png", &good),
            json!({"type": "text", "text": "[Picture 3 was left out: its PNG file is damaged.]"}),
        ]
    );
    bench.assert_clean();
}

fn picture_result(id: u32, data: &Bytes) -> Vec<ClientMessage> {
    let text = pb::McpTextContent {
        text: "Here:".to_owned(),
        ..Default::default()
    };
    let image = pb::McpImageContent {
        data: data.clone(),
        mime_type: "image/png".to_owned(),
    };
    let content = [Content::Text(text), Content::Image(image)];
    let success = pb::McpSuccess {
        content: content
            .map(|content| pb::McpToolResultContentItem {
                content: Some(content),
            })
            .into(),
        ..Default::default()
    };
    let answer = exec_client_message::Message::McpResult(pb::McpResult {
        result: Some(mcp_result::Result::Success(success)),
    });
    vec![ClientMessage::ExecClientMessage(pb::ExecClientMessage {
        id,
        message: Some(answer),
        ..Default::default()
    })]
}

/// The client offers a tool that takes pictures, and answers its calls with this one.
fn with_camera(cursor: &mut FakeCursor, data: Bytes) {
    cursor.hooks.request = Box::new(|request| {
        request.mcp_tools = Some(pb::McpTools {
            mcp_tools: vec![pb::McpToolDefinition {
                name: "cam-shoot".to_owned(),
                provider_identifier: "cam".to_owned(),
                tool_name: "shoot".to_owned(),
                input_schema_json: Some("{}".to_owned()),
                ..Default::default()
            }],
        });
    });
    cursor.hooks.exec = Box::new(move |exec| match &exec.message {
        Some(pb::exec_server_message::Message::McpArgs(_)) => {
            ExecAnswer::Reply(picture_result(exec.id, &data))
        }
        _ => ExecAnswer::Run,
    });
}

#[tokio::test]
async fn the_picture_of_a_tool_is_seen_fitted_and_survives_restarts() {
    for database in [Database::Kept, Database::Lost] {
        let mut bench = Bench::new().await;
        with_camera(&mut bench.cursor, blank(1600, 100));
        bench.endpoint.reply_calls([("call_1", "cam__shoot", "{}")]);
        bench.endpoint.reply_text("Grey.");
        bench.cursor.send("Take a picture.").await.success();
        let added = bench.added();
        assert_eq!(roles(&added), ["assistant", "tool", "user"]);
        assert_eq!(
            added[1]["content"],
            "Here:\n[Picture 1 of this result stands here.]\n[Picture 1, which the next user message shows.]"
        );
        let fitted = added[2]["content"][1]["image_url"]["url"].as_str().unwrap();
        let fitted = STANDARD
            .decode(fitted.strip_prefix("data:image/png;base64,").unwrap())
            .unwrap();
        assert_eq!(size(&fitted), (1568, 98));

        let mut bench = bench.restart(database).await;
        bench.endpoint.reply_text("Still grey.");
        bench.cursor.send("And now?").await.success();
        assert_eq!(roles(&bench.added()), ["assistant", "user"], "{database:?}");
        bench.assert_clean();
    }
}

/// Two models behind one endpoint, of which only one sees.
#[tokio::test]
async fn a_model_that_cannot_see_is_told_so_once_and_a_switch_changes_nothing_that_was_sent() {
    let chat = StrictChat::start().await;
    let (data, workspace) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let model = |id: &str, vision| cairn::config::ModelConfig {
        id: id.to_owned(),
        vision,
        ..chat_model(&chat.base_url())
    };
    let models = vec![model("blind", false), model("seeing", true)];
    let server = CairnServer::with_models(data.path(), models, SessionLimits::default()).await;
    let mut cursor = FakeCursor::new(&server.base_url, KEY, "agent-1", workspace.path()).await;
    let data = picture(10, 10, ImageFormat::Png);
    with_camera(&mut cursor, data.clone());

    cursor.model = "blind".to_owned();
    chat.reply_calls([("call_1", "cam__shoot", "{}")]);
    chat.reply_text("I see nothing.");
    let message = || {
        shows(
            "Look.",
            [DataOrBlobId::Data(data.clone()), DataOrBlobId::Data(data.clone())],
        )
    };
    let report = cursor.start_message(message()).await.finish().await.success();
    assert_eq!(
        notices(&report),
        [
            "The model blind cannot see pictures and was told so in their place. If it can, set vision = true for it."
        ]
    );

    cursor.model = "seeing".to_owned();
    chat.reply_text("Now I see.");
    let report = cursor.start_message(message()).await.finish().await.success();
    assert_eq!(notices(&report), [""; 0]);

    // Back to the blind model, whose last request was the one before.
    chat.allow_reset();
    cursor.model = "blind".to_owned();
    chat.reply_text("Nothing again.");
    let report = cursor.send("And you?").await.success();
    assert_eq!(notices(&report), [""; 0]);

    let bodies: Vec<Value> = chat
        .requests()
        .iter()
        .map(|request| serde_json::from_slice(&request.body).unwrap())
        .collect();
    let messages = |body: usize| bodies[body]["messages"].as_array().unwrap();
    let pictures = |body: usize| {
        let text = serde_json::to_string(messages(body)).unwrap();
        (
            text.matches("image_url\":{").count(),
            text.matches(PICTURE_UNSEEN).count(),
        )
    };
    assert_eq!(pictures(0), (0, 2));
    assert_eq!(pictures(1), (0, 3));
    // What the blind model was told stays for the seeing one, and only the new pictures are shown.
    assert_eq!(pictures(2), (2, 3));
    assert_eq!(messages(2)[..messages(1).len()], messages(1)[..]);
    // The blind model goes on where it was.
    assert_eq!(pictures(3), (0, 5));
    assert_eq!(messages(3)[..messages(1).len()], messages(1)[..]);
    cursor.assert_clean();
    chat.assert_clean();
}

#[tokio::test]
async fn a_long_result_is_cut_once_to_the_models_limit_before_it_is_stored() {
    for database in [Database::Kept, Database::Lost] {
        let chat = StrictChat::start().await;
        chat.one_conversation();
        let (data, workspace) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let mut model = chat_model(&chat.base_url());
        model.limits.result_characters = 1000;
        let server =
            CairnServer::with_models(data.path(), vec![model.clone()], SessionLimits::default()).await;
        let mut cursor = FakeCursor::new(&server.base_url, KEY, "agent-1", workspace.path()).await;
        std::fs::write(workspace.path().join("long.txt"), "é".repeat(20_000)).unwrap();
        chat.reply_calls([("call_1", "Read", r#"{"path":"long.txt"}"#)]);
        chat.reply_text("Long.");
        cursor.send("Read it.").await.success();
        server.stop().await;

        // A larger limit changes nothing of what is in the history.
        model.limits.result_characters = 100_000;
        let other = TempDir::new().unwrap();
        let folder = match database {
            Database::Kept => data.path(),
            Database::Lost => other.path(),
        };
        let server = CairnServer::with_models(folder, vec![model], SessionLimits::default()).await;
        cursor.reconnect(&server.base_url, KEY).await;
        chat.reply_text("Still long.");
        cursor.send("And now?").await.success();
        let requests = chat.requests();
        let body: Value = serde_json::from_slice(&requests[1].body).unwrap();
        let result = body["messages"].as_array().unwrap().last().unwrap()["content"]
            .as_str()
            .unwrap()
            .to_owned();
        let expected = format!(
            "     1|{}\n[19008 characters are left out here. To see them, ask again for less at once: a range of \
             lines, a filter or a narrower search.]\n{}\n",
            "é".repeat(700 - 7),
            "é".repeat(300 - 1)
        );
        assert_eq!(result, expected, "{database:?}");
        cursor.assert_clean();
        chat.assert_clean();
    }
}
