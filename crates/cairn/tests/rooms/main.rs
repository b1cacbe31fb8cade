//! The repository's own rules as tests: rooms, never-lists, import directions, file headers, sizes and true docs.
//!
//! Each rule is a function from a file's path and text to its breaches, so that the tests beside it can prove that
//! it catches what it forbids. `map.rs` holds the rooms, `code.rs` the rules for Rust, `tidy.rs` those for any file.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a failed rule is a failed test"
)]

mod code;
mod code_catches;
mod map;
mod repository;
mod tidy;
mod tidy_catches;
mod tokens;

use std::fmt;

use repository::Repository;

/// One place that breaks one rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Breach {
    pub path: String,
    /// One-based; 0 for the file as a whole.
    pub line: usize,
    /// What is wrong, and what mends it.
    pub rule: String,
}

impl Breach {
    pub fn new(path: &str, line: usize, rule: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            rule: rule.into(),
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.rule)
    }
}

#[track_caller]
fn assert_none(breaches: &[Breach]) {
    let list: Vec<String> = breaches.iter().map(Breach::to_string).collect();
    assert!(list.is_empty(), "{} breaches:\n{}", list.len(), list.join("\n"));
}

#[test]
fn rust_files_keep_to_their_rooms() {
    let repository = Repository::read();
    let rust: Vec<_> = repository
        .files()
        .filter(|(path, _)| path.ends_with(".rs"))
        .collect();
    assert!(
        rust.iter().any(|(path, _)| *path == "crates/cairn/src/lib.rs"),
        "the server's source was not found: the rules looked at nothing"
    );
    let mut breaches = Vec::new();
    for (path, source) in rust {
        breaches.extend(code::check(path, source));
    }
    breaches.extend(code::unreachable_modules(&repository));
    assert_none(&breaches);
}

#[test]
fn tracked_text_names_no_machine_and_no_private_registry() {
    let repository = Repository::read();
    let mut breaches = Vec::new();
    for (path, text) in repository.files() {
        breaches.extend(tidy::machine_paths(path, text));
        breaches.extend(tidy::registries(path, text));
    }
    assert_none(&breaches);
}

#[test]
fn prompts_name_no_vendor() {
    let repository = Repository::read();
    let mut breaches = Vec::new();
    for (path, text) in repository.files() {
        breaches.extend(tidy::vendors_in_prompt(path, text));
    }
    assert_none(&breaches);
}

#[test]
fn documents_name_only_paths_that_exist() {
    let repository = Repository::read();
    let mut breaches = Vec::new();
    for document in tidy::DOCUMENTS {
        let text = repository
            .text(document)
            .unwrap_or_else(|| panic!("{document} is missing: the project's documents are part of it"));
        breaches.extend(tidy::dead_paths(document, text, &repository));
    }
    assert_none(&breaches);
}

#[test]
fn documents_name_only_suites_that_exist() {
    let repository = Repository::read();
    let mut breaches = Vec::new();
    for document in tidy::DOCUMENTS {
        let text = repository
            .text(document)
            .unwrap_or_else(|| panic!("{document} is missing: the project's documents are part of it"));
        breaches.extend(tidy::dead_suites(document, text, &repository));
    }
    assert_none(&breaches);
}

#[test]
fn the_rule_where_contributors_work_names_the_suites_and_the_proof() {
    let repository = Repository::read();
    let skill = ".agents/skills/prefix-stability/SKILL.md";
    let agents = repository.text("AGENTS.md").expect("AGENTS.md");
    assert!(
        agents.contains(&format!("`{skill}`")),
        "AGENTS.md does not lead to {skill}"
    );
    let text = repository.text(skill).expect("the skill");
    let suites = [
        "runtime_modes",
        "prefix_stability",
        "checkpoint_recovery",
        "compaction",
    ]
    .map(|suite| format!("--test {suite}"));
    for needed in suites.iter().map(String::as_str).chain(["src/run/proof.rs"]) {
        assert!(text.contains(needed), "{skill} does not name {needed}");
    }
}

#[test]
fn the_map_in_the_architecture_has_every_room() {
    let repository = Repository::read();
    let text = repository.text("ARCHITECTURE.md").expect("ARCHITECTURE.md");
    let missing: Vec<_> = map::ROOMS
        .iter()
        .map(|room| format!("`src/{}/`", room.name))
        .filter(|name| !text.contains(name.as_str()))
        .collect();
    assert_eq!(
        missing,
        Vec::<String>::new(),
        "ARCHITECTURE.md does not explain these rooms"
    );
}

#[test]
fn the_readmes_cargo_run_means_the_server() {
    let repository = Repository::read();
    let readme = repository.text("README.md").expect("README.md");
    let manifest = repository.text("Cargo.toml").expect("Cargo.toml");
    assert!(readme.contains("cargo run --release -- demo"));
    // Without it the command is ambiguous: the workspace has several programs.
    assert!(manifest.contains("default-members = [\"crates/cairn\"]"));
}
