//! What the client says in words that are meant for its makers reaches the model with what was called and the mend.

use cairn::cursor::proto::agent::{
    self as pb, exec_client_control_message as control, exec_client_message as answer, read_result,
};
use cairn::model::ToolResult;

use super::tool_calls::*;

/// The result of a call that the client gives up with these words.
fn thrown(name: &str, arguments: &str, words: &str) -> ToolResult {
    let mut tools = offering(&["Shell", "Grep", "CallMcpTool"], subagents());
    let (exec_id, _) = one_exec(&tools.execute(&call("a", name, arguments), 0).unwrap());
    let message = pb::ExecClientControlMessage {
        message: Some(control::Message::Throw(pb::ExecClientThrow {
            id: exec_id,
            error: words.into(),
            ..Default::default()
        })),
    };
    result(&tools.exec_control(message, 1).unwrap())
}

/// A server that has ended, refused arguments and a picture that the client cannot decode all come as a throw. [sdk]
#[test]
fn an_mcp_call_without_a_result_names_tool_server_and_mend() {
    for (name, arguments) in [
        ("db-query", "{}"),
        ("CallMcpTool", r#"{"server":"user-db","tool_name":"query"}"#),
    ] {
        let done = thrown(name, arguments, "Not connected");
        assert!(done.is_error);
        assert_eq!(
            &*done.content.text(),
            "The call of query of the MCP server user-db brought no result; whether it took effect is unknown. The \
             client says: Not connected\nIf the arguments are at fault, mend them. If the server has ended or its \
             answer cannot be read, the same call fails again: go on without it, or ask the person to start the server \
             anew."
        );
    }
}

#[test]
fn words_without_end_are_bounded() {
    let done = thrown("Grep", r#"{"pattern":"x"}"#, &format!(" {}\n", "é".repeat(400)));
    assert_eq!(
        &*done.content.text(),
        format!("The client could not execute the tool: {}", "é".repeat(400))
    );
    let done = thrown("Grep", r#"{"pattern":"x"}"#, &"é".repeat(401));
    assert_eq!(
        &*done.content.text(),
        format!(
            "The client could not execute the tool: {} [… and more]",
            "é".repeat(400)
        )
    );
}

#[test]
fn a_command_that_could_not_be_begun_says_what_to_check() {
    let done = thrown("Shell", r#"{"command":"ls"}"#, "spawn /usr/bin/bash ENOENT");
    assert_eq!(
        &*done.content.text(),
        "The command was not run. The client says: spawn /usr/bin/bash ENOENT\nCheck that its working_directory exists."
    );
}

/// What a Read of this path gives when the client answers so.
fn read(path: &str, answered: read_result::Result) -> String {
    let mut tools = runtime();
    let arguments = format!(r#"{{"path":"{path}"}}"#);
    let (exec_id, _) = one_exec(&tools.execute(&call("a", "Read", &arguments), 0).unwrap());
    let answered = answer::Message::ReadResult(pb::ReadResult {
        result: Some(answered),
    });
    let done = result(&tools.exec_message(client(exec_id, answered), 1).unwrap());
    assert!(done.is_error);
    done.content.text().into_owned()
}

#[test]
fn an_unreadable_picture_and_a_file_of_no_use_say_what_read_takes() {
    let error = |path: &str| {
        read_result::Result::Error(pb::ReadError {
            path: path.into(),
            error: "End-Of-Stream".into(),
        })
    };
    assert_eq!(
        read("/w/p.PNG", error("/w/p.PNG")),
        "/w/p.PNG could not be read: End-Of-Stream\nA picture's file has to be whole and of the kind that its name \
         says: this one may be damaged or cut off."
    );
    assert_eq!(
        read("/w/p.txt", error("/w/p.txt")),
        "/w/p.txt could not be read: End-Of-Stream"
    );
    let invalid = read_result::Result::InvalidFile(pb::ReadInvalidFile {
        path: "/w".into(),
        reason: "Path is a directory, not a file".into(),
    });
    assert_eq!(
        read("/w", invalid),
        "/w cannot be read as text: Path is a directory, not a file\nRead shows text and pictures (PNG, JPEG, GIF, \
         WebP). Glob lists the files of a folder; other files take a program that knows their kind."
    );
}

#[test]
fn a_folder_is_not_deleted_and_the_model_is_told_what_does() {
    let mut tools = runtime();
    let (exec_id, _) = one_exec(
        &tools
            .execute(&call("a", "Delete", r#"{"path":"/w/d"}"#), 0)
            .unwrap(),
    );
    let answered = answer::Message::DeleteResult(pb::DeleteResult {
        result: Some(pb::delete_result::Result::NotFile(pb::DeleteNotFile {
            path: "/w/d".into(),
            actual_type: "directory".into(),
        })),
    });
    let done = result(&tools.exec_message(client(exec_id, answered), 1).unwrap());
    assert_eq!(
        (&*done.content.text(), done.is_error),
        (
            "/w/d was not deleted, it is not a file: directory\nDelete takes one file; a command removes folders.",
            true
        )
    );
}

#[test]
fn a_file_that_is_no_notebook_says_what_is_missing() {
    let mut tools = runtime();
    let arguments =
        r#"{"path":"/w/a","cell_index":0,"is_new_cell":false,"old_string":"one","new_string":"two"}"#;
    let effects = tools.execute(&call("a", "EditNotebook", arguments), 0).unwrap();
    let (exec_id, _) = one_exec(&effects);
    let done = result(&tools.exec_message(read_text(exec_id, "one\n"), 1).unwrap());
    assert!(done.is_error);
    assert_eq!(
        &*done.content.text(),
        "/w/a was not edited: it is no notebook that can be edited here: its text is not the JSON of one (expected \
         value at line 1 column 1)."
    );
}
