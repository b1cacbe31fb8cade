//! The message of a turn in each mode, and its place beside the conversation's stable context.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

use bytes::Bytes;
use cairn::cursor::prompting::PromptAssets;
use cairn::cursor::proto::agent::invocation_context::ide_state::File;
use cairn::cursor::proto::agent::invocation_context::ide_state::file::CursorPosition;
use cairn::cursor::proto::agent::invocation_context::{Data, IdeState};
use cairn::cursor::proto::agent::selected_image::{BlobIdWithData, DataOrBlobId};
use cairn::cursor::proto::agent::*;
use cairn::cursor::request::{
    Mode, RequestError, RuntimeInput, TurnEvent, compile_request_context, compile_runtime_message,
    initial_messages, needed_blobs,
};
use cairn::model::{Image, Message, MessageBody, Part, UserOrigin};
use prost::Message as _;
use sha2::{Digest, Sha256};

fn compile_with(
    mode: Mode,
    message: &UserMessage,
    reminder: Option<&str>,
    blobs: &dyn Fn(&[u8]) -> Option<Bytes>,
) -> Result<Vec<Part>, RequestError> {
    compile_runtime_message(
        &PromptAssets::load().unwrap(),
        &RuntimeInput {
            mode,
            user_message: message,
            now: "2026-03-04T05:06:07Z".parse().unwrap(),
            time_zone: Some("Asia/Tokyo"),
            mode_reminder: reminder,
            blobs,
        },
    )
}

fn text_of(message: &UserMessage) -> String {
    let parts = compile_with(Mode::Agent, message, None, &|_| None).unwrap();
    match parts.as_slice() {
        [Part::Text(text)] => text.to_string(),
        other => panic!("expected one text, got {other:?}"),
    }
}

fn says(text: &str) -> UserMessage {
    UserMessage {
        text: text.to_owned(),
        ..UserMessage::default()
    }
}

fn with(context: SelectedContext) -> UserMessage {
    UserMessage {
        selected_context: Some(context),
        ..says("look")
    }
}

#[test]
fn a_bare_turn_holds_mode_time_and_query_in_every_mode() {
    let modes = [
        (Mode::Agent, "agent"),
        (Mode::Ask, "ask"),
        (Mode::Plan, "plan"),
        (Mode::Debug, "debug"),
        (Mode::Multitask, "multitask"),
    ];
    for (mode, name) in modes {
        let parts = compile_with(mode, &says("do it"), None, &|_| None);
        let expected = format!(
            "<turn_info>\nmode: {name}\ntime: Wednesday, 2026-03-04 14:06 +09:00 Asia/Tokyo\n</turn_info>\n\
             <user_query>\ndo it\n</user_query>\n"
        );
        assert_eq!(parts, Ok(vec![Part::Text(expected.into())]));
    }
}

#[test]
fn a_switch_of_mode_is_said_between_the_turns_facts_and_the_query() {
    let assets = PromptAssets::load().unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for mode in Mode::ALL {
        let entered = assets.mode(mode).entered;
        let parts = compile_with(mode, &says("do it"), Some(entered), &|_| None).unwrap();
        let [Part::Text(text)] = parts.as_slice() else {
            panic!("expected one text, got {parts:?}")
        };
        let rest = text.split_once("</turn_info>\n<mode_change>\n").unwrap().1;
        let (reminder, query) = rest.split_once("\n</mode_change>\n").unwrap();
        assert_eq!(query, "<user_query>\ndo it\n</user_query>\n");
        seen.insert(reminder.to_owned());
    }
    // One text for each mode.
    assert_eq!(seen.len(), Mode::ALL.len());
}

#[test]
fn what_looks_like_a_placeholder_stays_text_wherever_it_stands() {
    let message = UserMessage {
        text: "{{mode_reminder}} {{current_time}} {{nothing}}".to_owned(),
        selected_context: Some(SelectedContext {
            extra_context: vec!["{{user_query}}".to_owned()],
            ..SelectedContext::default()
        }),
        ..UserMessage::default()
    };
    let parts = compile_with(Mode::Plan, &message, Some("remember {{user_query}}"), &|_| None).unwrap();
    let Part::Text(text) = &parts[0] else {
        panic!("no text")
    };
    assert_eq!(
        text.split_once("</turn_info>\n").unwrap().1,
        "<attached_context>\n{{user_query}}\n</attached_context>\nremember {{user_query}}\n\
         <user_query>\n{{mode_reminder}} {{current_time}} {{nothing}}\n</user_query>\n"
    );
}

#[test]
fn everything_that_belongs_to_the_turn_has_one_form() {
    let range = Some(Range {
        start: Some(Position { line: 3, column: 1 }),
        end: Some(Position { line: 7, column: 2 }),
    });
    let message = with(SelectedContext {
        invocation_context: Some(InvocationContext {
            data: Some(Data::IdeState(IdeState {
                visible_files: vec![File {
                    path: "/w/a.rs".to_owned(),
                    relative_path: Some("a.rs".to_owned()),
                    cursor_position: Some(CursorPosition {
                        line: 12,
                        text: "  let x = 1;".to_owned(),
                    }),
                    total_lines: 40,
                    ..File::default()
                }],
                recently_viewed_files: vec![File {
                    path: "/w/b.rs".to_owned(),
                    ..File::default()
                }],
            })),
        }),
        files: vec![SelectedFile {
            content: "fn main() {}\n".to_owned(),
            path: "/w/\"a\".rs".to_owned(),
            relative_path: None,
        }],
        code_selections: vec![SelectedCodeSelection {
            content: "let x;".to_owned(),
            path: "/w/b.rs".to_owned(),
            relative_path: None,
            range,
        }],
        terminals: vec![SelectedTerminal {
            content: "$ ls".to_owned(),
            title: Some("zsh".to_owned()),
            path: None,
        }],
        terminal_selections: vec![SelectedTerminalSelection {
            content: "error".to_owned(),
            title: Some("zsh".to_owned()),
            path: None,
            range,
        }],
        folders: vec![SelectedFolder {
            path: "/w/src".to_owned(),
            relative_path: None,
        }],
        external_links: vec![SelectedExternalLink {
            url: "https://host.test/?a=1&b".to_owned(),
            ..SelectedExternalLink::default()
        }],
        cursor_rules: vec![SelectedCursorRule {
            rule: Some(CursorRule {
                full_path: "/w/r.mdc".to_owned(),
                content: "Be kind.".to_owned(),
                ..CursorRule::default()
            }),
        }],
        git_diff: Some(SelectedGitDiff {
            content: "+a".to_owned(),
            full_content_length_char_count: 2,
        }),
        git_diff_from_branch_to_main: Some(SelectedGitDiffFromBranchToMain {
            content: "+b".to_owned(),
            full_content_length_char_count: 2,
        }),
        cursor_commands: vec![SelectedCursorCommand {
            name: "review".to_owned(),
            content: "Review it.".to_owned(),
            ..SelectedCursorCommand::default()
        }],
        git_commits: vec![SelectedGitCommit {
            sha: "abc".to_owned(),
            message: "Fix".to_owned(),
            description: None,
            diff: "-c".to_owned(),
        }],
        selected_skills: vec![AgentSkill {
            full_path: "/w/SKILL.md".to_owned(),
            content: "Do it.".to_owned(),
            ..AgentSkill::default()
        }],
        ..SelectedContext::default()
    });
    assert_eq!(
        text_of(&message),
        r#"<turn_info>
mode: agent
time: Wednesday, 2026-03-04 14:06 +09:00 Asia/Tokyo
</turn_info>
<editor>
<visible_files>
- /w/a.rs, 40 lines, cursor on line 12: let x = 1;
</visible_files>
<recently_viewed_files>
- /w/b.rs
</recently_viewed_files>
</editor>
<attached_file path="/w/&quot;a&quot;.rs">
fn main() {}
</attached_file>
<attached_selection path="/w/b.rs" lines="3-7">
let x;
</attached_selection>
<attached_folder path="/w/src" />
<attached_terminal title="zsh">
$ ls
</attached_terminal>
<attached_terminal_selection title="zsh" lines="3-7">
error
</attached_terminal_selection>
<attached_link url="https://host.test/?a=1&amp;b" />
<attached_rule path="/w/r.mdc">
Be kind.
</attached_rule>
<attached_skill path="/w/SKILL.md">
Do it.
</attached_skill>
<attached_command name="review">
Review it.
</attached_command>
<attached_diff of="uncommitted changes">
+a
</attached_diff>
<attached_diff of="this branch against the main branch">
+b
</attached_diff>
<attached_commit sha="abc">
Fix
-c
</attached_commit>
<user_query>
look
</user_query>
"#
    );
}

fn hash(data: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&Sha256::digest(data))
}

fn image(data: DataOrBlobId) -> SelectedImage {
    SelectedImage {
        uuid: "u".to_owned(),
        path: "/secret/path.png".to_owned(),
        mime_type: "image/png".to_owned(),
        data_or_blob_id: Some(data),
    }
}

fn shows(images: Vec<SelectedImage>) -> UserMessage {
    with(SelectedContext {
        selected_images: images,
        ..SelectedContext::default()
    })
}

#[test]
fn images_follow_the_text_in_their_order_from_all_three_forms() {
    let message = shows(vec![
        image(DataOrBlobId::BlobId(hash(b"one"))),
        image(DataOrBlobId::Data(Bytes::from_static(b"two"))),
        image(DataOrBlobId::BlobIdWithData(BlobIdWithData {
            blob_id: hash(b"three"),
            data: Bytes::from_static(b"three"),
        })),
    ]);
    let needed: Vec<Bytes> = needed_blobs(&message).into_iter().map(|need| need.id).collect();
    assert_eq!(needed, [hash(b"one")]);
    let parts = compile_with(Mode::Agent, &message, None, &|id| {
        (id == &hash(b"one")[..]).then(|| Bytes::from_static(b"one"))
    })
    .unwrap();
    let picture = |data: &'static [u8]| {
        Part::Image(Image {
            mime_type: "image/png".into(),
            data: Bytes::from_static(data),
        })
    };
    assert_eq!(parts[1..], [picture(b"one"), picture(b"two"), picture(b"three")]);
    // Neither name nor place of a picture reaches the model.
    assert_eq!(parts[0], Part::Text(text_of(&says("look")).into()));
}

#[test]
fn an_image_that_is_missing_or_wrong_is_named_by_its_place() {
    let first = || image(DataOrBlobId::Data(Bytes::from_static(b"x")));
    let check = |second: SelectedImage, blob: Option<&'static [u8]>, expected: RequestError| {
        let result = compile_with(Mode::Agent, &shows(vec![first(), second]), None, &|_| {
            blob.map(Bytes::from_static)
        });
        assert_eq!(result, Err(expected));
    };
    let what = || "selected image 2".to_owned();
    let id = hex::encode(hash(b"one"));
    check(
        image(DataOrBlobId::BlobId(hash(b"one"))),
        None,
        RequestError::MissingBlob {
            what: what(),
            id: id.clone(),
        },
    );
    check(
        image(DataOrBlobId::BlobId(hash(b"one"))),
        Some(b"other"),
        RequestError::BlobMismatch {
            what: what(),
            id: id.clone(),
        },
    );
    check(
        image(DataOrBlobId::BlobIdWithData(BlobIdWithData {
            blob_id: hash(b"one"),
            data: Bytes::from_static(b"other"),
        })),
        None,
        RequestError::BlobMismatch { what: what(), id },
    );
    check(
        SelectedImage {
            data_or_blob_id: None,
            ..first()
        },
        None,
        RequestError::NoImageData { position: 2 },
    );
}

#[test]
fn text_and_editor_state_may_come_as_blobs() {
    let editor = InvocationContext {
        data: Some(Data::IdeState(IdeState {
            visible_files: vec![File {
                path: "/w/a.rs".to_owned(),
                ..File::default()
            }],
            recently_viewed_files: Vec::new(),
        })),
    }
    .encode_to_vec();
    let message = UserMessage {
        text: String::new(),
        text_blob_id: Some(hash(b"long text")),
        selected_context: Some(SelectedContext {
            invocation_context: Some(InvocationContext {
                data: Some(Data::BlobId(hash(&editor))),
            }),
            ..SelectedContext::default()
        }),
        ..UserMessage::default()
    };
    let needed: Vec<Bytes> = needed_blobs(&message).into_iter().map(|need| need.id).collect();
    assert_eq!(needed, [hash(b"long text"), hash(&editor)]);
    let blobs = [Bytes::from_static(b"long text"), Bytes::from(editor)];
    let find = |id: &[u8]| blobs.iter().find(|blob| hash(blob) == id).cloned();
    let parts = compile_with(Mode::Agent, &message, None, &find).unwrap();
    let Part::Text(text) = &parts[0] else {
        panic!("no text")
    };
    assert_eq!(
        text.split_once("</turn_info>\n").unwrap().1,
        "<editor>\n<visible_files>\n- /w/a.rs\n</visible_files>\n</editor>\n\
         <user_query>\nlong text\n</user_query>\n"
    );
    assert_eq!(
        compile_with(Mode::Agent, &message, None, &|_| None),
        Err(RequestError::MissingBlob {
            what: "text of the message".to_owned(),
            id: hex::encode(hash(b"long text")),
        })
    );
}

/// A conversation of three turns: the stable context is a message of its own, and the turns carry nothing of it.
#[test]
fn the_context_stands_apart_from_the_turns_and_only_a_change_appends_it_again() {
    let context = |content: &str, status: &str| RequestContext {
        rules: vec![CursorRule {
            full_path: "/w/AGENTS.md".to_owned(),
            content: content.to_owned(),
            r#type: Some(CursorRuleType {
                r#type: Some(cursor_rule_type::Type::Global(CursorRuleTypeGlobal {})),
            }),
            ..CursorRule::default()
        }],
        git_repos: vec![GitRepoInfo {
            path: "/w".to_owned(),
            status: status.to_owned(),
            branch_name: "main".to_owned(),
            ..GitRepoInfo::default()
        }],
        ..RequestContext::default()
    };
    let mut history: Vec<Message> = Vec::new();
    let turns = [
        ("e1", "RULE-A", ""),
        ("e2", "RULE-A", " M x"),
        ("e3", "RULE-B", " M x"),
        ("e4", "RULE-A", ""),
    ];
    for (id, rule, status) in turns {
        let before = history.clone();
        let context = compile_request_context(&context(rule, status));
        let event = TurnEvent {
            id,
            context: context.as_deref(),
            runtime: compile_with(Mode::Agent, &says(id), None, &|_| None).unwrap(),
        };
        history.extend(initial_messages(&before, event));
        assert_eq!(history[..before.len()], before[..]);
    }
    let seen: Vec<(&str, String)> = history
        .iter()
        .map(|message| match &message.body {
            MessageBody::User {
                origin: UserOrigin::RequestContext { event_id },
                parts,
            } => (&**event_id, format!("{parts:?}")),
            MessageBody::User {
                origin: UserOrigin::Turn { .. },
                parts,
            } => {
                assert!(!format!("{parts:?}").contains("RULE-"));
                ("turn", String::new())
            }
            other => panic!("unexpected {other:?}"),
        })
        .collect();
    let order: Vec<&str> = seen.iter().map(|(id, _)| *id).collect();
    assert_eq!(order, ["e1", "turn", "turn", "e3", "turn", "e4", "turn"]);
    assert_eq!(seen[0].1, seen[5].1);
    assert!(seen[3].1.contains("RULE-B"));
}
