//! The rules for any tracked text: no machine's paths, no private registry, prompts without vendors, true documents.

use crate::Breach;
use crate::map::VENDORS;
use crate::repository::Repository;

/// The documents whose paths must exist.
pub const DOCUMENTS: &[&str] = &[
    ".agents/skills/prefix-stability/SKILL.md",
    "AGENTS.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "crates/prefix-conformance/README.md",
    "docs/benchmarks.md",
    "docs/faults.md",
    "docs/prefix-conformance.md",
    "docs/protocol.md",
];

// Written in two pieces so that this file keeps its own rule.
const MACHINE_FOLDERS: &[&str] = &[concat!("/", "work"), concat!("/", "root"), concat!("/", "tmp")];

/// Absolute paths that exist on one machine only, or that two test runs would share.
pub fn machine_paths(path: &str, text: &str) -> Vec<Breach> {
    let mut out = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for folder in MACHINE_FOLDERS {
            let found = line.match_indices(folder).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                let after = line[at + folder.len()..].chars().next();
                let starts = before.is_none_or(|c| c.is_whitespace() || "\"'`(=:[<>,".contains(c));
                starts && after.is_none_or(|c| !c.is_alphanumeric() && !"_-.".contains(c))
            });
            if found {
                let rule = format!(
                    "names the machine's folder {folder}: use a path of the repository or a temporary folder"
                );
                out.push(Breach::new(path, number + 1, rule));
            }
        }
    }
    out
}

/// Anything that makes a build ask another registry than the public one.
pub fn registries(path: &str, text: &str) -> Vec<Breach> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let mut out = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let mut breach = |rule: &str| out.push(Breach::new(path, number + 1, rule));
        match name {
            "Cargo.lock" => {
                // Where the toolchain's own index stands.
                let public = "source = \"registry+https://github.com/rust-lang/";
                if line.starts_with("source =") && !line.starts_with(public) {
                    breach("a crate from elsewhere than the toolchain's own registry");
                }
            }
            _ => {
                let settings = [
                    concat!("npm_config_", "registry"),
                    concat!("--", "registry"),
                    concat!("replace", "-with"),
                    concat!("CARGO_", "REGISTR"),
                ];
                if settings.iter().any(|setting| line.contains(setting)) {
                    breach("sets a registry: that belongs to the machine, not to the repository");
                }
            }
        }
    }
    if name == "package-lock.json" {
        out.push(Breach::new(
            path,
            0,
            "a lock file names the registry that made it; the client is pinned in package.json",
        ));
    }
    if name == ".npmrc" {
        out.push(Breach::new(
            path,
            0,
            "registry settings belong to the machine, not to the repository",
        ));
    }
    out
}

/// Names of vendors, models and products in what a model reads: prompts are ours and serve any model.
pub fn vendors_in_prompt(path: &str, text: &str) -> Vec<Breach> {
    const MORE: &[&str] = &["copilot", "cursor", "gpt", "grok", "kimi", "llama"];
    let mut out = Vec::new();
    if !path.starts_with("crates/cairn/prompt/") {
        return out;
    }
    for (number, line) in text.lines().enumerate() {
        let lower = line.to_lowercase();
        for name in VENDORS.iter().chain(MORE) {
            let found = lower.match_indices(name).any(|(at, _)| {
                // A folder such as `.name/` is a fact about the person's files.
                !lower[..at].ends_with(|c: char| c.is_alphabetic() || c == '.')
            });
            if found {
                out.push(Breach::new(
                    path,
                    number + 1,
                    format!("a prompt names `{name}`: say it without the vendor"),
                ));
            }
        }
    }
    out
}

/// Paths in backticks that do not exist, and awaited ones that do. Fenced examples are not looked at.
pub fn dead_paths(path: &str, text: &str, repository: &Repository) -> Vec<Breach> {
    let mut out = Vec::new();
    let mut fenced = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if fenced {
            continue;
        }
        for span in line.split('`').skip(1).step_by(2).filter(|span| is_path(span)) {
            if !exists(repository, span) {
                out.push(Breach::new(path, number + 1, format!("`{span}` does not exist")));
            }
        }
    }
    out
}

/// Test suites that a document tells to run, in commands too, and that do not exist: Rust suites by `--test NAME`, of the
/// package that the line names, and the official client's by `test/NAME.test.mjs`.
pub fn dead_suites(path: &str, text: &str, repository: &Repository) -> Vec<Breach> {
    let mut out = Vec::new();
    let has = |wanted: &str| repository.paths().iter().any(|path| path == wanted);
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line
            .split(|c: char| !(c.is_ascii_alphanumeric() || "._-/".contains(c)))
            .collect();
        let package = words
            .windows(2)
            .find_map(|pair| (pair[0] == "-p").then_some(pair[1]))
            .unwrap_or("cairn");
        let rust = words
            .windows(2)
            .filter(|pair| pair[0] == "--test")
            .map(|pair| pair[1])
            .filter(|suite| {
                let tests = format!("crates/{package}/tests/{suite}");
                !has(&format!("{tests}.rs")) && !has(&format!("{tests}/main.rs"))
            });
        let client = words
            .iter()
            .filter(|word| word.starts_with("test/") && word.ends_with(".test.mjs"))
            .filter(|word| !has(&format!("e2e/{word}")))
            .copied();
        for suite in rust.chain(client) {
            out.push(Breach::new(
                path,
                number + 1,
                format!("the suite `{suite}` does not exist"),
            ));
        }
    }
    out
}

/// Whether a text in backticks claims to be a path of the repository: a folder (`run/`) or a file by its ending,
/// or anything below a folder that only a repository has.
fn is_path(span: &str) -> bool {
    const ENDINGS: &[&str] = &[".json", ".lock", ".md", ".mjs", ".proto", ".rs", ".sql", ".toml"];
    const TOPS: &[&str] = &[
        ".agents/", ".ci/", "benches/", "crates/", "docs/", "e2e/", "prompt/", "proto/", "src/", "tests/",
    ];
    let plain = span
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
    let listed =
        ENDINGS.iter().any(|end| span.ends_with(end)) || TOPS.iter().any(|top| span.starts_with(top));
    plain && !span.starts_with('/') && (listed || span.ends_with('/'))
}

/// A path is told from the root, from the server's crate or its source; a bare file name from anywhere.
fn exists(repository: &Repository, span: &str) -> bool {
    let bare = span.trim_end_matches('/');
    repository.paths().iter().any(|path| {
        let path = path.trim_end_matches('/');
        ["", "crates/cairn/", "crates/cairn/src/"]
            .iter()
            .any(|base| path.strip_prefix(base) == Some(bare))
            || (!span.contains('/') && path.rsplit('/').next() == Some(bare))
    })
}
