//! The rules for Rust files: the header, the size, the room's imports and its never-list.

use crate::Breach;
use crate::map::{self, LEAVES, PROVIDER_PORT, Room, TOOL_NAMES, VENDORS, WIRING};
use crate::repository::Repository;
use crate::tokens::{self, Path, Token};

/// Where the rooms are.
const SOURCE: &str = "crates/cairn/src/";

/// Past this a file has more than one owner for sure; past 500 lines ask why.
const MOST_LINES: usize = 800;

const SQL: &[&str] = &[
    "ALTER", "BEGIN", "COMMIT", "CREATE", "DELETE", "DROP", "INSERT", "PRAGMA", "ROLLBACK", "SELECT",
    "UPDATE", "WITH",
];

/// All breaches of one Rust file. The path is relative to the repository's root.
pub fn check(path: &str, source: &str) -> Vec<Breach> {
    let mut out = Vec::new();
    header(path, source, &mut out);
    let lines = source.lines().count();
    if lines > MOST_LINES {
        out.push(Breach::new(
            path,
            lines,
            format!("{lines} lines, at most {MOST_LINES}: split it by owner"),
        ));
    }
    let Some(module) = module_of(path) else {
        return out;
    };
    let tokens = match tokens::read(source) {
        Ok(tokens) => tokens,
        Err(error) => {
            out.push(Breach::new(path, 0, format!("not readable as Rust: {error}")));
            return out;
        }
    };
    let top = module.first().map_or("lib", String::as_str);
    if let Some(room) = map::room(top) {
        imports(path, &module, room.name, room.may_use, &tokens, &mut out);
        never(path, room, &tokens, &mut out);
    } else if LEAVES.contains(&top) {
        imports(path, &module, top, &[], &tokens, &mut out);
    } else if !WIRING.contains(&top) {
        out.push(Breach::new(
            path,
            0,
            format!(
                "`{top}` is no room: put it into one, or give it a place in the map and in ARCHITECTURE.md"
            ),
        ));
    }
    out
}

fn header(path: &str, source: &str, out: &mut Vec<Breach>) {
    let first = source.lines().next().unwrap_or_default();
    if first
        .strip_prefix("//! ")
        .is_none_or(|text| text.trim().is_empty())
    {
        out.push(Breach::new(
            path,
            1,
            "opens without `//!`: say what it owns and what it must never know",
        ));
        return;
    }
    let is_room = path
        .strip_prefix(SOURCE)
        .is_some_and(|rest| rest.ends_with("/mod.rs") && rest.matches('/').count() == 1);
    let head = source.lines().take_while(|line| line.starts_with("//!"));
    if is_room && !head.flat_map(tokens::words).any(|word| word == "never") {
        out.push(Breach::new(
            path,
            1,
            "a room's header says what it must never know",
        ));
    }
}

/// The module's path inside the crate; `None` outside of the server's source. The crate's root is empty.
fn module_of(path: &str) -> Option<Vec<String>> {
    let rest = path.strip_prefix(SOURCE)?.strip_suffix(".rs")?;
    let mut names: Vec<String> = rest.split('/').map(str::to_owned).collect();
    if names.last().is_some_and(|name| name == "mod") || names == ["lib"] {
        names.pop();
    }
    Some(names)
}

fn imports(
    path: &str,
    module: &[String],
    own: &str,
    may_use: &[&str],
    tokens: &[Token],
    out: &mut Vec<Breach>,
) {
    for used in tokens::paths(tokens) {
        let Some(target) = absolute(module, &used) else {
            continue;
        };
        let Some(room) = target.first() else {
            continue;
        };
        if room == own {
            continue;
        }
        if !may_use.contains(&room.as_str()) {
            let allowed = if may_use.is_empty() {
                "nothing".to_owned()
            } else {
                may_use.join(", ")
            };
            out.push(Breach::new(
                path,
                used.line,
                format!("`{own}` uses `{room}`; it may use {allowed}"),
            ));
        } else if own == "run" && room == "provider" {
            let item = target.get(1).map_or("*", String::as_str);
            if !PROVIDER_PORT.contains(&item) {
                out.push(Breach::new(
                    path,
                    used.line,
                    format!(
                        "`run` uses `provider::{item}`; it may use only the port: {}",
                        PROVIDER_PORT.join(", ")
                    ),
                ));
            }
        }
    }
}

/// Where a path that starts with `crate`, `self` or `super` leads, without the `crate`.
fn absolute(module: &[String], used: &Path) -> Option<Vec<String>> {
    let mut at: Vec<String> = module.iter().chain(&used.inside).cloned().collect();
    let mut names = used.names.iter().peekable();
    match names.next()?.as_str() {
        // Alone it is a visibility, `pub(crate)`.
        "crate" if used.names.len() > 1 => at.clear(),
        "super" if used.names.len() > 1 => {
            at.pop();
            while names.next_if(|name| *name == "super").is_some() {
                at.pop();
            }
        }
        _ => return None,
    }
    at.extend(names.cloned());
    Some(at)
}

fn never(path: &str, room: &Room, tokens: &[Token], out: &mut Vec<Breach>) {
    let name = room.name;
    for used in tokens::paths(tokens) {
        for banned in room.never_paths {
            let banned_names: Vec<&str> = banned.split("::").collect();
            if used.names.len() >= banned_names.len()
                && used.names.iter().zip(&banned_names).all(|(a, b)| a == b)
            {
                out.push(Breach::new(
                    path,
                    used.line,
                    format!("`{name}` must never use `{banned}`"),
                ));
            }
        }
    }
    for (text, line, is_literal) in tokens::texts(tokens) {
        let string = if is_literal { tokens::string(text) } else { None };
        if is_literal && string.is_none() {
            continue;
        }
        let text = string.unwrap_or(text);
        for word in tokens::words(text) {
            let singular = word.strip_suffix('s').unwrap_or(&word);
            if room
                .never_words
                .iter()
                .any(|banned| *banned == word || *banned == singular)
            {
                out.push(Breach::new(
                    path,
                    line,
                    format!("`{name}` must never say `{word}`"),
                ));
            }
        }
        let squashed: String = text
            .chars()
            .filter(|c| c.is_alphanumeric())
            .collect::<String>()
            .to_lowercase();
        if !room.may_name_vendors
            && let Some(vendor) = VENDORS.iter().find(|vendor| squashed.contains(**vendor))
        {
            out.push(Breach::new(
                path,
                line,
                format!("`{name}` must never name an endpoint (`{vendor}`)"),
            ));
        }
        if string.is_some_and(|string| !room.may_name_tools && TOOL_NAMES.contains(&string)) {
            out.push(Breach::new(
                path,
                line,
                format!("`{name}` must never name a tool (`{text}`)"),
            ));
        }
        let verb = text.split_whitespace().next().unwrap_or_default();
        if string.is_some() && !room.may_speak_sql && SQL.contains(&verb) {
            out.push(Breach::new(path, line, format!("`{name}` must never hold SQL")));
        }
        if !is_literal && !room.may_wait && matches!(text, "async" | "await") {
            out.push(Breach::new(
                path,
                line,
                format!("`{name}` must never be asynchronous"),
            ));
        }
    }
}

/// Files that no module declares: the compiler never sees them.
pub fn unreachable_modules(repository: &Repository) -> Vec<Breach> {
    let mut out = Vec::new();
    for (path, _) in repository.files() {
        let Some(module) = module_of(path) else {
            continue;
        };
        let Some((name, parent)) = module.split_last() else {
            continue;
        };
        if matches!(path.strip_prefix(SOURCE), Some("main.rs")) {
            continue;
        }
        let parent = parent.join("/");
        let candidates = if parent.is_empty() {
            vec![format!("{SOURCE}lib.rs"), format!("{SOURCE}main.rs")]
        } else {
            vec![format!("{SOURCE}{parent}/mod.rs"), format!("{SOURCE}{parent}.rs")]
        };
        let declared = candidates.iter().any(|candidate| {
            repository
                .text(candidate)
                .is_some_and(|source| declares(source, name))
        });
        // A unit-test file beside its module is declared there with `#[path = "…_tests.rs"] mod tests;`.
        let beside = path
            .strip_suffix("_tests.rs")
            .and_then(|stem| repository.text(&format!("{stem}.rs")));
        let file = path.rsplit('/').next().unwrap_or(path);
        let declared_by_path =
            beside.is_some_and(|source| source.contains(&format!("#[path = \"{file}\"]\nmod tests;")));
        if !declared && !declared_by_path {
            out.push(Breach::new(
                path,
                0,
                "no module declares this file: declare it or delete it",
            ));
        }
    }
    out
}

/// Whether a file has `mod name;` at its top level.
pub fn declares(source: &str, name: &str) -> bool {
    let Ok(tokens) = tokens::read(source) else {
        return false;
    };
    tokens.windows(3).any(|three| {
        matches!(three, [Token::Ident(word, _), Token::Ident(module, _), Token::Sign(';')] if word == "mod" && module == name)
    })
}
