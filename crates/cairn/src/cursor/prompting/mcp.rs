//! MCP tools as the model sees them, and the way back from their names.
//!
//! Must never know: how a client sends the tools or how a call reaches a server.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

/// Longest name that every endpoint accepts, in bytes.
const NAME_LIMIT: usize = 64;
/// Hex digits of a hash that makes a name unique.
const HASH_DIGITS: usize = 12;

/// A tool of an MCP server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct McpTool {
    /// The server, as the client names it in definitions and calls.
    pub provider_identifier: Arc<str>,
    /// The server, as the client names it in descriptors; absent if no descriptor names the tool.
    pub server_identifier: Option<Arc<str>>,
    /// The tool, as its server names it.
    pub tool_name: Arc<str>,
    /// The client's own name for the pair, to be sent back with a call; empty if the client gave none.
    pub client_name: Arc<str>,
    /// What the server says of the tool.
    pub description: Arc<str>,
    /// The canonical text of its input schema.
    pub input_schema: Arc<str>,
}

impl McpTool {
    /// The tool's name towards the model: `server__tool` where both parts are plain and fit, else what is plain of
    /// them with a hash of the exact pair.
    ///
    /// A function of the pair alone, so that no server's coming, going or order ever renames the tool of another.
    /// The two forms and the static tools' names never meet: the first form holds `__` exactly once and splits there
    /// without doubt, the second never holds it but ends in `_` and a hash, and a static name has no `_` at all.
    pub fn model_name(&self) -> Arc<str> {
        let (server, tool) = (&*self.provider_identifier, &*self.tool_name);
        let plain = format!("{server}__{tool}");
        if is_plain(server) && is_plain(tool) && plain.len() <= NAME_LIMIT {
            return plain.into();
        }
        // The length in front keeps pairs apart that differ only in where the server's name ends.
        let digest = Sha256::digest(format!("{}:{server}{tool}", server.len()));
        let hash = &hex::encode(digest)[..HASH_DIGITS];
        let mut readable = String::new();
        for c in server.chars().chain(['_']).chain(tool.chars()) {
            let c = if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            };
            if !(c == '_' && (readable.is_empty() || readable.ends_with('_'))) {
                readable.push(c);
            }
        }
        readable.truncate(NAME_LIMIT - HASH_DIGITS - 1);
        match readable.trim_end_matches('_') {
            "" => format!("mcp_{hash}").into(),
            readable => format!("{readable}_{hash}").into(),
        }
    }
}

fn is_plain(part: &str) -> bool {
    !part.is_empty()
        && part
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        && !part.contains("__")
        && !part.starts_with('_')
        && !part.ends_with('_')
}

/// Finds the MCP tool that a name of the model stands for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct McpDirectory {
    tools: BTreeMap<Arc<str>, McpTool>,
}

impl McpDirectory {
    /// The tool that the model calls by this name.
    pub fn get(&self, model_name: &str) -> Option<&McpTool> {
        self.tools.get(model_name)
    }

    /// All tools with their names towards the model.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &McpTool)> {
        self.tools.iter()
    }

    /// Adds a tool; gives it back if its name is taken.
    pub(super) fn insert(&mut self, name: Arc<str>, tool: McpTool) -> Result<(), McpTool> {
        match self.tools.entry(name) {
            std::collections::btree_map::Entry::Vacant(slot) => {
                slot.insert(tool);
                Ok(())
            }
            std::collections::btree_map::Entry::Occupied(_) => Err(tool),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(server: &str, tool: &str) -> String {
        let tool = McpTool {
            provider_identifier: server.into(),
            server_identifier: None,
            tool_name: tool.into(),
            client_name: "".into(),
            description: "".into(),
            input_schema: "{}".into(),
        };
        tool.model_name().to_string()
    }

    #[test]
    fn plain_pairs_keep_their_words() {
        assert_eq!(name("a", "execute_sql"), "a__execute_sql");
        assert_eq!(name("b", "execute_sql"), "b__execute_sql");
        assert_eq!(name("custom-user-tools", "add"), "custom-user-tools__add");
        assert_eq!(name("a", "Shell"), "a__Shell");
    }

    #[test]
    fn pinned_aliases() {
        // A change here renames tools inside histories that people still have.
        assert_eq!(name("my.server", "a.b/c d"), "my_server_a_b_c_d_833d1a2575f9");
    }

    #[test]
    fn every_name_is_acceptable_unique_and_not_a_static_name() {
        let long = "t".repeat(70);
        let pairs = [
            ("enterprise-database-management", long.as_str()),
            ("enterprise-database-management", &format!("{long}1")),
            ("enterprise-database-management", &format!("{long}2")),
            ("a__b", "c"),
            ("a", "b__c"),
            ("a_", "b"),
            ("a", "_b"),
            ("a", "b"),
            ("a.b", "c"),
            ("a/b", "c"),
            ("a b", "c"),
            ("数据库", "查询"),
            ("数据", "库查询"),
            ("", "Shell"),
            ("Shell", ""),
            ("a", "b_"),
            ("ab", "c"),
            ("a", "bc"),
        ];
        let names: std::collections::BTreeSet<String> = pairs.iter().map(|(s, t)| name(s, t)).collect();
        assert_eq!(names.len(), pairs.len());
        for name in names {
            assert!((1..=64).contains(&name.len()), "{name}");
            assert!(name.contains('_'), "{name}");
            assert!(
                name.chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_'),
                "{name}"
            );
        }
    }
}
