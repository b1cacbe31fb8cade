//! The one catalog of tool schemas.
//!
//! Owns what each static tool looks like to the model. Must never know: how a tool is shown or executed.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::assets::AssetError;
use crate::model::ToolDefinition;

/// All static tools, in the order of the catalog file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Catalog {
    entries: Vec<CatalogEntry>,
}

/// One schema of the catalog. A tool that looks different to some models has an entry for each of its variants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CatalogEntry {
    /// Which of the tool's schemas this is; none for a tool's ordinary schema.
    pub variant: Option<String>,
    /// What the model is given.
    pub tool: ToolDefinition,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    #[serde(default)]
    variant: Option<String>,
    description: String,
    parameters: Value,
}

impl Catalog {
    /// Reads and checks the catalog file.
    pub(super) fn parse(text: &str) -> Result<Self, AssetError> {
        let fault = |what: String| AssetError::new("tools.json", what);
        let entries: Vec<Entry> = serde_json::from_str(text).map_err(|e| fault(e.to_string()))?;
        let mut read: Vec<CatalogEntry> = Vec::with_capacity(entries.len());
        for entry in entries {
            // Names without `_` can meet neither form of an MCP tool's name: see `McpTool::model_name`.
            if entry.name.is_empty() || !entry.name.chars().all(|c| c.is_ascii_alphanumeric()) {
                return Err(fault(format!(
                    "{:?} is not a name of letters and digits",
                    entry.name
                )));
            }
            let same =
                |other: &CatalogEntry| *other.tool.name == *entry.name && other.variant == entry.variant;
            if read.iter().any(same) {
                return Err(fault(format!("{} stands in it twice", entry.name)));
            }
            if entry.variant.as_ref().is_some_and(|variant| variant.is_empty()) {
                return Err(fault(format!("{} has a variant without a name", entry.name)));
            }
            if entry.description.trim().is_empty() {
                return Err(fault(format!("{} has no description", entry.name)));
            }
            check_object_schema(&entry.parameters)
                .map_err(|what| fault(format!("{}: {what}", entry.name)))?;
            read.push(CatalogEntry {
                variant: entry.variant,
                tool: ToolDefinition {
                    name: entry.name.into(),
                    description: entry.description.into(),
                    parameters: Arc::from(entry.parameters.to_string()),
                },
            });
        }
        Ok(Self { entries: read })
    }

    /// The tool that a manifest means: `Name`, or `Name/variant` for another than the tool's ordinary schema.
    pub fn get(&self, reference: &str) -> Option<&ToolDefinition> {
        let (name, variant) = match reference.split_once('/') {
            Some((name, variant)) => (name, Some(variant)),
            None => (reference, None),
        };
        self.entries
            .iter()
            .find(|entry| *entry.tool.name == *name && entry.variant.as_deref() == variant)
            .map(|entry| &entry.tool)
    }

    /// All schemas.
    pub fn entries(&self) -> &[CatalogEntry] {
        &self.entries
    }
}

/// Checks that a schema describes a closed object and that it requires only what it describes, at every depth but in an
/// inner object that says it is open.
fn check_object_schema(schema: &Value) -> Result<(), String> {
    if schema["type"] != "object" {
        return Err("the schema's type is not object".to_owned());
    }
    if schema["additionalProperties"] != false {
        return Err("the schema does not set additionalProperties to false".to_owned());
    }
    let properties = schema["properties"]
        .as_object()
        .ok_or("the schema has no properties object")?;
    let empty = Vec::new();
    let required = match &schema["required"] {
        Value::Null => &empty,
        value => value.as_array().ok_or("required is not a list")?,
    };
    for name in required {
        if !name.as_str().is_some_and(|name| properties.contains_key(name)) {
            return Err(format!("required names {name}, which is not a property"));
        }
    }
    for (name, property) in properties {
        let nested = if property["type"] == "array" {
            &property["items"]
        } else {
            property
        };
        let is_open = nested["additionalProperties"] == true && nested["properties"].is_null();
        if nested["type"] == "object" && is_open {
            // Another schema decides what is in it, such as that of an MCP tool.
            continue;
        }
        if nested["type"] == "object" {
            check_object_schema(nested).map_err(|what| format!("{name}: {what}"))?;
        } else if !nested["type"].is_string() {
            return Err(format!("{name} has no type"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(parameters: &str, fault: &str) {
        let text = format!(r#"[{{"name":"T","description":"d","parameters":{parameters}}}]"#);
        assert_eq!(
            Catalog::parse(&text),
            Err(AssetError::new("tools.json", fault.to_owned()))
        );
    }

    #[test]
    fn a_schema_that_is_not_a_closed_object_is_refused() {
        check("{}", "T: the schema's type is not object");
        check(
            r#"{"type":"object","properties":{}}"#,
            "T: the schema does not set additionalProperties to false",
        );
        check(
            r#"{"type":"object","additionalProperties":false}"#,
            "T: the schema has no properties object",
        );
        check(
            r#"{"type":"object","properties":{"a":{}},"additionalProperties":false}"#,
            "T: a has no type",
        );
        check(
            r#"{"type":"object","properties":{},"required":["a"],"additionalProperties":false}"#,
            r#"T: required names "a", which is not a property"#,
        );
        check(
            r#"{"type":"object","properties":{"l":{"type":"array","items":{"type":"object"}}},"additionalProperties":false}"#,
            "T: l: the schema does not set additionalProperties to false",
        );
    }

    #[test]
    fn names_are_unique_and_plain() {
        let schema = r#"{"type":"object","properties":{},"additionalProperties":false}"#;
        let entry = |name: &str| format!(r#"{{"name":"{name}","description":"d","parameters":{schema}}}"#);
        let twice = format!("[{},{}]", entry("T"), entry("T"));
        assert_eq!(
            Catalog::parse(&twice),
            Err(AssetError::new("tools.json", "T stands in it twice".to_owned()))
        );
        let variants = format!(
            r#"[{},{{"name":"T","variant":"child","description":"e","parameters":{schema}}}]"#,
            entry("T")
        );
        let read = Catalog::parse(&variants).unwrap_or(Catalog { entries: Vec::new() });
        let description = |reference| read.get(reference).map(|tool| tool.description.to_string());
        assert_eq!(description("T"), Some("d".to_owned()));
        assert_eq!(description("T/child"), Some("e".to_owned()));
        assert_eq!(description("T/other"), None);
        let odd = format!("[{}]", entry("a_b"));
        assert_eq!(
            Catalog::parse(&odd),
            Err(AssetError::new(
                "tools.json",
                r#""a_b" is not a name of letters and digits"#.to_owned()
            ))
        );
    }
}
