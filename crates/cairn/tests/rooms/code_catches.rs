//! Proof that the rules for Rust files catch each kind of breach and leave honest code alone.

use crate::code::{check, declares, unreachable_modules};
use crate::map::{ROOMS, TOOL_NAMES};
use crate::repository::Repository;

/// The breaches of `body` in a file of the server that has a proper header; lines count from the body's first.
fn breaches(file: &str, body: &str) -> Vec<(usize, String)> {
    let source = format!("//! Owns a thing. Must never know another.\n{body}\n");
    check(&format!("crates/cairn/src/{file}"), &source)
        .into_iter()
        .map(|breach| (breach.line.saturating_sub(1), breach.rule))
        .collect()
}

#[track_caller]
fn caught(file: &str, body: &str, rule: &str) {
    let found = breaches(file, body);
    assert_eq!(found, [(1, rule.to_owned())], "{file}: {body}");
}

#[track_caller]
fn clean(file: &str, body: &str) {
    assert_eq!(breaches(file, body), [], "{file}: {body}");
}

#[test]
fn a_room_uses_only_the_rooms_that_the_map_gives_it() {
    let uses = [
        ("model", "client", "nothing"),
        ("model", "clock", "nothing"),
        ("client", "run", "model"),
        ("run", "cursor", "client, clock, model, provider, store"),
        ("run", "config", "client, clock, model, provider, store"),
        ("provider", "store", "clock, config, http_client, model"),
        ("provider", "client", "clock, config, http_client, model"),
        ("provider", "run", "clock, config, http_client, model"),
        ("store", "provider", "clock, model"),
        ("store", "client", "clock, model"),
        ("store", "run", "clock, model"),
        (
            "cursor",
            "provider",
            "client, clock, config, model, picture, run, store, web",
        ),
        (
            "cursor",
            "app",
            "client, clock, config, model, picture, run, store, web",
        ),
    ];
    for (room, other, allowed) in uses {
        let rule = format!("`{room}` uses `{other}`; it may use {allowed}");
        let found = breaches(&format!("{room}/part.rs"), &format!("use crate::{other}::Thing;"));
        // The name of the other room may be a forbidden word too.
        assert_eq!(found.first(), Some(&(1, rule)), "{room} uses {other}: {found:?}");
    }
}

#[test]
fn every_allowed_import_is_clean() {
    for room in ROOMS {
        for other in room.may_use {
            let item = if *other == "provider" {
                "ModelEvent"
            } else {
                "Thing"
            };
            clean(
                &format!("{}/part.rs", room.name),
                &format!("use crate::{other}::{item};"),
            );
        }
        clean(
            &format!("{}/part.rs", room.name),
            &format!("use crate::{}::Thing;", room.name),
        );
    }
    for wiring in ["lib.rs", "main.rs", "app.rs", "demo.rs", "demo/client.rs"] {
        clean(
            wiring,
            "use crate::{client, config, model, provider, run, store};",
        );
    }
}

#[test]
fn an_import_is_found_in_whatever_form_it_is_written() {
    let rule = "`provider` uses `store`; it may use clock, config, http_client, model";
    for body in [
        "use crate::{model::Usage, store::{Store, Row}};",
        "use crate::{store::*};",
        "use crate::store as kept;",
        "use super::super::store::Store;",
        "fn f() { crate::store::open(); }",
        "fn f() { println!(\"{}\", crate::store::NAME); }",
        "#[derive(crate::store::Derive)] struct S;",
        "mod tests { use super::super::super::store::Store; }",
        "type T = Vec<crate::store::Row>;",
    ] {
        let found = breaches("provider/part.rs", body);
        assert!(
            !found.is_empty() && found.iter().all(|found| *found == (1, rule.to_owned())),
            "{body}: {found:?}"
        );
    }
}

#[test]
fn relative_paths_inside_the_room_are_clean() {
    clean(
        "provider/openai_chat/decoder.rs",
        "use super::super::event::ModelEvent; use super::encoder; use self::x;",
    );
    clean(
        "provider/part.rs",
        "mod tests { use super::*; use super::super::Provider; }",
    );
    clean("provider/part.rs", "pub(crate) fn f() {} pub(super) fn g() {}");
}

#[test]
fn a_glob_over_the_crate_hides_the_room_and_is_caught() {
    caught(
        "store/part.rs",
        "use crate::*;",
        "`store` uses `*`; it may use clock, model",
    );
}

#[test]
fn a_run_sees_of_the_providers_only_the_port() {
    let port = "Provider, ModelEvent, ModelInvocation, ModelStream, StopReason";
    for (body, item) in [
        ("use crate::provider::router::Router;", "router"),
        ("use crate::provider::{ModelEvent, Router};", "Router"),
        ("use crate::provider;", "*"),
        ("use crate::provider::*;", "*"),
    ] {
        let rule = format!("`run` uses `provider::{item}`; it may use only the port: {port}");
        caught("run/engine.rs", body, &rule);
    }
}

#[test]
fn a_leaf_uses_no_room_and_an_unknown_place_is_no_room() {
    caught(
        "clock.rs",
        "use crate::store::Store;",
        "`clock` uses `store`; it may use nothing",
    );
    caught(
        "config.rs",
        "use crate::provider::Provider;",
        "`config` uses `provider`; it may use nothing",
    );
    let rule = "`util` is no room: put it into one, or give it a place in the map and in ARCHITECTURE.md";
    assert_eq!(breaches("util/text.rs", ""), [(0, rule.to_owned())]);
}

#[test]
fn crates_and_modules_on_the_never_lists_are_caught() {
    for (room, paths) in [
        (
            "model",
            vec![
                "tokio",
                "axum",
                "reqwest",
                "serde",
                "serde_json",
                "prost",
                "sqlx",
                "std::fs",
                "std::net",
            ],
        ),
        (
            "client",
            vec!["prost", "axum", "sqlx", "reqwest", "std::fs", "tokio::net"],
        ),
        (
            "run",
            vec![
                "prost",
                "axum",
                "sqlx",
                "reqwest",
                "std::fs",
                "std::env",
                "tokio::process",
            ],
        ),
        (
            "provider",
            vec!["prost", "sqlx", "std::process", "tokio::process"],
        ),
        ("store", vec!["prost", "axum", "reqwest", "tokio::net"]),
        ("cursor", vec!["sqlx"]),
    ] {
        for path in paths {
            let rule = format!("`{room}` must never use `{path}`");
            caught(&format!("{room}/part.rs"), &format!("use {path}::Thing;"), &rule);
            caught(
                &format!("{room}/part.rs"),
                &format!("fn f() {{ {path}::thing(); }}"),
                &rule,
            );
        }
    }
    caught(
        "model/part.rs",
        "use std::{fmt, fs};",
        "`model` must never use `std::fs`",
    );
    caught(
        "model/part.rs",
        "#[derive(serde::Serialize)] struct S;",
        "`model` must never use `serde`",
    );
}

#[test]
fn words_on_the_never_lists_are_caught_in_names_and_texts() {
    for (room, word) in [
        ("model", "cursor"),
        ("model", "wire"),
        ("client", "blob"),
        ("client", "checkpoint"),
        ("client", "wire"),
        ("run", "cursor"),
        ("run", "blob"),
        ("run", "checkpoint"),
        ("provider", "cursor"),
        ("store", "cursor"),
    ] {
        let file = format!("{room}/part.rs");
        let rule = format!("`{room}` must never say `{word}`");
        let plural = format!("`{room}` must never say `{word}s`");
        let camel = format!("{}{}", word[..1].to_uppercase(), &word[1..]);
        caught(&file, &format!("fn set_{word}_args() {{}}"), &rule);
        caught(&file, &format!("struct Set{camel}Args;"), &rule);
        caught(&file, &format!("fn {word}s() {{}}"), &plural);
        caught(
            &file,
            &format!("const TEXT: &str = \"the {word} is gone\";"),
            &rule,
        );
        caught(&file, &format!("#[error(\"no {word}\")] struct E;"), &rule);
        caught(&file, &format!("const TEXT: &str = \"line\\n{word}\";"), &rule);
    }
}

#[test]
fn comments_may_say_what_is_not_here() {
    clean(
        "run/engine.rs",
        "/// Knows no cursor, blob or checkpoint.\nfn f() {} // the wire\n/* async */",
    );
    clean(
        "model/part.rs",
        "//! Never async, serde or sqlx.\n\n/// `Read` or \"Shell\" of OpenAI: SELECT.\nstruct S;",
    );
    clean("run/engine.rs", "fn required() { rewire(); let recursor = 'c'; }");
}

#[test]
fn a_run_names_no_tool() {
    for name in TOOL_NAMES {
        let rule = format!("`run` must never name a tool (`{name}`)");
        caught(
            "run/engine.rs",
            &format!("fn f(n: &str) -> bool {{ n == \"{name}\" }}"),
            &rule,
        );
        caught(
            "run/engine.rs",
            &format!("const N: &[u8] = br#\"{name}\"#;"),
            &rule,
        );
    }
    clean(
        "run/engine.rs",
        "fn f() { Read::read(); log(\"Read the answer\"); }",
    );
    clean(
        "cursor/tools/dispatch/exec.rs",
        "fn f(n: &str) -> bool { n == \"Shell\" }",
    );
}

#[test]
fn a_run_names_no_endpoint() {
    for body in [
        "fn f(a: Api) -> bool { a == Api::OpenAiChat }",
        "fn f(a: &str) -> bool { a == \"openai-chat\" }",
        "fn is_anthropic() {}",
        "const HOST: &str = \"api.deepseek.com\";",
    ] {
        let found = breaches("run/engine.rs", body);
        assert_eq!(found.len(), 1, "{body}: {found:?}");
        assert!(
            found[0].1.starts_with("`run` must never name an endpoint ("),
            "{found:?}"
        );
    }
    clean(
        "provider/router.rs",
        "fn f(a: Api) -> bool { a == Api::OpenAiChat }",
    );
}

#[test]
fn sql_stays_in_the_store() {
    for room in ["model", "client", "run", "provider", "cursor"] {
        let rule = format!("`{room}` must never hold SQL");
        caught(
            &format!("{room}/part.rs"),
            "const Q: &str = \"SELECT head FROM conversations\";",
            &rule,
        );
        caught(
            &format!("{room}/part.rs"),
            "const Q: &str = r\"\n  INSERT INTO runs VALUES (?)\";",
            &rule,
        );
    }
    clean(
        "store/runs.rs",
        "const Q: &str = \"SELECT head FROM conversations\";",
    );
    clean("run/engine.rs", "const TEXT: &str = \"Select a model\";");
}

#[test]
fn the_model_never_waits() {
    let rule = "`model` must never be asynchronous";
    caught("model/part.rs", "async fn f() {}", rule);
    caught("model/part.rs", "fn f() { g().await }", rule);
    clean("client/part.rs", "async fn f() { g().await }");
}

#[test]
fn every_file_opens_by_saying_what_it_is() {
    let rule = "opens without `//!`: say what it owns and what it must never know";
    for source in [
        "fn f() {}\n",
        "\n//! Late.\n",
        "//!\n",
        "// Not a doc.\n",
        "",
        "/// Of an item.\nfn f() {}\n",
    ] {
        for path in [
            "crates/cairn/src/run/engine.rs",
            "crates/cairn/tests/text_turn.rs",
            "crates/other/src/lib.rs",
        ] {
            let found = check(path, source);
            assert_eq!(found.len(), 1, "{path}: {source:?}: {found:?}");
            assert_eq!((found[0].line, found[0].rule.as_str()), (1, rule));
        }
    }
    assert_eq!(
        check("crates/cairn/tests/text_turn.rs", "//! A text turn.\nfn f() {}\n"),
        []
    );
}

#[test]
fn a_room_says_what_it_must_never_know() {
    let found = check("crates/cairn/src/run/mod.rs", "//! Owns the loop.\n");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].rule, "a room's header says what it must never know");
    assert_eq!(
        check(
            "crates/cairn/src/run/mod.rs",
            "//! Owns the loop.\n//! Must never know: a client.\n"
        ),
        []
    );
    assert_eq!(check("crates/cairn/src/run/engine.rs", "//! The loop.\n"), []);
}

#[test]
fn a_file_that_has_grown_too_long_is_caught() {
    let source = |lines: usize| format!("//! Long.\n{}", "\n".repeat(lines - 1));
    assert_eq!(check("crates/cairn/tests/long.rs", &source(800)), []);
    let found = check("crates/cairn/tests/long.rs", &source(801));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].rule, "801 lines, at most 800: split it by owner");
}

#[test]
fn what_is_not_rust_is_a_breach_and_not_a_pass() {
    let found = check("crates/cairn/src/run/engine.rs", "//! The loop.\nfn f( {\n");
    assert_eq!(found.len(), 1);
    assert!(found[0].rule.starts_with("not readable as Rust"), "{found:?}");
}

#[test]
fn a_file_that_no_module_declares_is_caught() {
    let repository = Repository::of([
        ("crates/cairn/src/lib.rs", "//! L.\npub mod run;\n"),
        ("crates/cairn/src/main.rs", "//! M.\nmod serve;\nfn main() {}\n"),
        ("crates/cairn/src/serve.rs", "//! S.\n"),
        (
            "crates/cairn/src/run/mod.rs",
            "//! R.\nmod engine;\n// mod lost;\n",
        ),
        ("crates/cairn/src/run/engine.rs", "//! E.\n"),
        ("crates/cairn/src/run/lost.rs", "//! Lost.\n"),
        ("crates/cairn/src/store/mod.rs", "//! Lost too.\n"),
        ("crates/cairn/tests/text_turn.rs", "//! T.\n"),
    ]);
    let found: Vec<_> = unreachable_modules(&repository)
        .into_iter()
        .map(|breach| breach.path)
        .collect();
    assert_eq!(
        found,
        ["crates/cairn/src/run/lost.rs", "crates/cairn/src/store/mod.rs"]
    );
    assert!(declares("#[cfg(test)]\nmod tests;", "tests"));
    assert!(!declares("mod tests {}", "tests"));
}
