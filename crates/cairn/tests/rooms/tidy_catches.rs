//! Proof that the rules for tracked text catch what they forbid and leave alone what they do not.

use crate::repository::{Ignored, Repository};
use crate::tidy::{dead_paths, dead_suites, machine_paths, registries, vendors_in_prompt};

fn lines(breaches: Vec<crate::Breach>) -> Vec<usize> {
    breaches.into_iter().map(|breach| breach.line).collect()
}

#[test]
fn machine_paths_are_caught_where_a_path_starts() {
    for folder in [concat!("/", "work"), concat!("/", "root"), concat!("/", "tmp")] {
        let text = format!("fine\nlet p = \"{folder}/x\";\n{folder}\n`{folder}`\nDIR={folder}/a\n");
        assert_eq!(lines(machine_paths("a.rs", &text)), [2, 3, 4, 5], "{folder}");
        let fine = format!("checkpoint{folder}s.rs {folder}space/a {folder}-b a{folder}/b");
        assert_eq!(
            lines(machine_paths("a.rs", &fine)),
            Vec::<usize>::new(),
            "{folder}"
        );
    }
}

#[test]
fn only_the_public_registries_are_named() {
    let good = "source = \"registry+https://github.com/rust-lang/some-index\"\n";
    assert_eq!(lines(registries("Cargo.lock", good)), Vec::<usize>::new());
    assert_eq!(
        lines(registries(
            "Cargo.lock",
            "\nsource = \"registry+https://mirror.test/index\"\n"
        )),
        [2]
    );
    assert_eq!(
        lines(registries(
            "Cargo.lock",
            "source = \"git+https://example.test/a\"\n"
        )),
        [1]
    );

    assert_eq!(lines(registries("e2e/package-lock.json", "{}")), [0]);
    assert_eq!(lines(registries("e2e/.npmrc", "")), [0]);
    assert_eq!(
        lines(registries(
            ".ci/run",
            concat!("npm ci --", "registry http://mirror.test")
        )),
        [1]
    );
    assert_eq!(
        lines(registries(
            ".cargo/config.toml",
            concat!("replace", "-with = \"mirror\"")
        )),
        [1]
    );
}

#[test]
fn a_vendor_in_a_prompt_is_caught_and_a_folder_of_the_person_is_not() {
    let text = "You are Claude.\nLike ChatGPT\nRules live in .cursor/rules.\nthe cursor\nprecursor\nGPT-5\n";
    assert_eq!(
        lines(vendors_in_prompt(
            "crates/cairn/prompt/cursor/agent/prompt.md",
            text
        )),
        [1, 2, 4, 6]
    );
    assert_eq!(lines(vendors_in_prompt("README.md", text)), Vec::<usize>::new());
}

#[test]
fn a_document_names_only_what_exists() {
    let repository = Repository::of([
        ("crates/cairn/src/model/mod.rs", ""),
        ("crates/cairn/tests/rooms/main.rs", ""),
        ("proto/a.proto", ""),
        ("README.md", ""),
    ]);
    let found = "`proto/a.proto` `proto/` `src/model/` `model/` `mod.rs` `README.md` `tests/rooms/`";
    let no_path = "`cargo test` `/v1/models` `@cursor/sdk` `application/json` `RunSSE` `std::fs` `a.b.c`";
    let fenced = "```\n`gone.rs`\n```";
    for text in [found, no_path, fenced] {
        assert_eq!(
            lines(dead_paths("README.md", text, &repository)),
            Vec::<usize>::new(),
            "{text}"
        );
    }
    for gone in [
        "proto/b.proto",
        "docs/",
        "src/modes/",
        "gone.rs",
        "crates/cairn/README.md",
        ".ci/gone",
    ] {
        let text = format!("first\nsee `{gone}`\n");
        assert_eq!(lines(dead_paths("README.md", &text, &repository)), [2], "{gone}");
    }
}

#[test]
fn a_document_names_only_suites_that_exist() {
    let repository = Repository::of([
        ("crates/cairn/tests/plain.rs", ""),
        ("crates/cairn/tests/folder/main.rs", ""),
        ("crates/other/tests/its_own.rs", ""),
        ("e2e/test/turns.test.mjs", ""),
    ]);
    let found = "```sh\ncargo test -p cairn --test plain --test folder\n```\n`cargo test --test plain`\n\
                 cargo test -p other --test its_own\ne2e/run test/turns.test.mjs\n";
    assert_eq!(
        lines(dead_suites("README.md", found, &repository)),
        Vec::<usize>::new()
    );
    for gone in [
        "cargo test -p cairn --test gone",
        "`cargo test --test plain --test gone`",
        "cargo test -p other --test plain",
        "e2e/run test/gone.test.mjs",
    ] {
        let text = format!("first\n```\n{gone}\n```\n");
        assert_eq!(lines(dead_suites("README.md", &text, &repository)), [3], "{gone}");
    }
}

#[test]
fn ignored_files_are_left_out_by_name_and_by_path() {
    let ignored = Ignored::parse("target/\n# comment\n\n/e2e/node_modules/\n/local\n");
    for path in ["target/", "crates/a/target/", "e2e/node_modules/", "local"] {
        assert!(ignored.has(path), "{path}");
    }
    for path in ["target", "node_modules/", "e2e/", "crates/local", "src/targets/"] {
        assert!(!ignored.has(path), "{path}");
    }
}
