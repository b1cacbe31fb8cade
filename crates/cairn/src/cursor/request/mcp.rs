//! The MCP tools that a request offers, wherever in it they stand.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::cursor::prompting::{LeftOutTool, McpTool, OfferedTools, SchemaFault, canonical_schema};
use crate::cursor::proto::agent::{McpDescriptor, McpToolDefinition, McpTools, RequestContext};
use crate::cursor::tools::{UnreadableValue, json_from_value};

/// Collects the MCP tools of a run, one for each pair of server and tool, sorted by that pair.
///
/// The same tool may stand in the run request, in the context's definitions and in the context's descriptors; what
/// stands first in this order is taken. A descriptor without a schema describes no tool that could be offered. One faulty
/// tool of a server must not keep the person from working: it is left out, and said to be.
pub fn collect_mcp_tools(offered: Option<&McpTools>, context: Option<&RequestContext>) -> OfferedTools {
    let mut tools: BTreeMap<(String, String), Result<McpTool, SchemaFault>> = BTreeMap::new();
    let definitions = offered.iter().flat_map(|offered| &offered.mcp_tools);
    for definition in definitions.chain(context.iter().flat_map(|context| &context.tools)) {
        let key = (
            definition.provider_identifier.clone(),
            definition.tool_name.clone(),
        );
        tools.entry(key).or_insert_with(|| from_definition(definition));
    }
    for server in context.into_iter().flat_map(mcp_descriptors) {
        for tool in &server.tools {
            match tools.entry((server.server_identifier.clone(), tool.tool_name.clone())) {
                Entry::Occupied(mut slot) => {
                    if let Ok(tool) = slot.get_mut() {
                        tool.server_identifier = Some(server.server_identifier.as_str().into());
                    }
                }
                Entry::Vacant(slot) => {
                    let schema = match schema(tool.input_schema_json.as_deref(), tool.input_schema.as_ref()) {
                        Ok(None) => continue,
                        Ok(Some(schema)) => Ok(schema),
                        Err(fault) => Err(fault),
                    };
                    slot.insert(schema.map(|schema| McpTool {
                        provider_identifier: server.server_identifier.as_str().into(),
                        server_identifier: Some(server.server_identifier.as_str().into()),
                        tool_name: tool.tool_name.as_str().into(),
                        client_name: "".into(),
                        description: tool.description.as_deref().unwrap_or_default().into(),
                        input_schema: schema.into(),
                    }));
                }
            }
        }
    }
    let mut collected = OfferedTools::default();
    for ((server, tool), found) in tools {
        match found {
            Ok(found) if !tool.is_empty() => collected.tools.push(found),
            Ok(_) => collected.left_out.push(LeftOutTool {
                server,
                tool,
                fault: "it has no name".to_owned(),
            }),
            Err(fault) => collected.left_out.push(LeftOutTool {
                server,
                tool,
                fault: fault.to_string(),
            }),
        }
    }
    collected
}

/// The servers as the context describes them, wherever in it they stand.
pub(super) fn mcp_descriptors(context: &RequestContext) -> impl Iterator<Item = &McpDescriptor> {
    let files = context.mcp_file_system_options.iter();
    let meta = context.mcp_meta_tool_options.iter();
    files
        .flat_map(|options| &options.mcp_descriptors)
        .chain(meta.flat_map(|options| &options.mcp_descriptors))
}

fn from_definition(definition: &McpToolDefinition) -> Result<McpTool, SchemaFault> {
    let schema = schema(
        definition.input_schema_json.as_deref(),
        definition.input_schema.as_ref(),
    )
    // Without any schema a tool's arguments are an object of which nothing is said.
    .and_then(|schema| schema.map_or_else(|| canonical_schema(Value::Object(Map::new())), Ok))?;
    Ok(McpTool {
        provider_identifier: definition.provider_identifier.as_str().into(),
        server_identifier: None,
        tool_name: definition.tool_name.as_str().into(),
        client_name: definition.name.as_str().into(),
        description: definition.description.as_str().into(),
        input_schema: schema.into(),
    })
}

/// The canonical schema text. JSON text is taken before the tree: it holds numbers that a double cannot.
fn schema(json: Option<&str>, tree: Option<&Bytes>) -> Result<Option<String>, SchemaFault> {
    let value = match (json.filter(|json| !json.trim().is_empty()), tree) {
        (Some(json), _) => serde_json::from_str(json).map_err(|_| SchemaFault::NotJson)?,
        (None, Some(tree)) => json_from_value(tree).map_err(fault_of)?,
        (None, None) => return Ok(None),
    };
    canonical_schema(value).map(Some)
}

fn fault_of(unreadable: UnreadableValue) -> SchemaFault {
    match unreadable {
        UnreadableValue::Malformed(_) => SchemaFault::NotJson,
        UnreadableValue::TooDeep => SchemaFault::TooDeep,
        UnreadableValue::NotFinite => SchemaFault::NotFinite,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use prost::Message as _;
    use prost_types::value::Kind;

    use super::*;
    use crate::cursor::proto::agent::{
        McpDescriptor, McpFileSystemOptions, McpMetaToolOptions, McpToolDescriptor,
    };

    fn number(value: f64) -> prost_types::Value {
        prost_types::Value {
            kind: Some(Kind::NumberValue(value)),
        }
    }

    fn text(value: &str) -> prost_types::Value {
        prost_types::Value {
            kind: Some(Kind::StringValue(value.to_owned())),
        }
    }

    fn list(values: Vec<prost_types::Value>) -> prost_types::Value {
        prost_types::Value {
            kind: Some(Kind::ListValue(prost_types::ListValue { values })),
        }
    }

    fn object(fields: Vec<(&str, prost_types::Value)>) -> prost_types::Value {
        let fields = fields.into_iter().map(|(key, value)| (key.to_owned(), value));
        prost_types::Value {
            kind: Some(Kind::StructValue(prost_types::Struct {
                fields: fields.collect(),
            })),
        }
    }

    fn definition(server: &str, tool: &str) -> McpToolDefinition {
        McpToolDefinition {
            name: format!("{server}-{tool}"),
            provider_identifier: server.to_owned(),
            tool_name: tool.to_owned(),
            description: format!("{tool} of {server}"),
            ..McpToolDefinition::default()
        }
    }

    fn offered(definitions: Vec<McpToolDefinition>) -> McpTools {
        McpTools {
            mcp_tools: definitions,
        }
    }

    #[test]
    fn a_tree_of_doubles_and_json_text_give_the_same_schema() {
        let paths = object(vec![
            ("minItems", number(1.0)),
            ("maxLength", number(64.0)),
            ("minimum", number(0.0)),
            ("default", number(1.5)),
            ("examples", list(vec![number(1.0)])),
            ("multipleOf", number(0.5)),
            ("enum", list(vec![number(1.0), number(2.5)])),
            ("maximum", number(1e21)),
        ]);
        let tree = object(vec![
            ("type", text("object")),
            ("properties", object(vec![("rootPaths", paths)])),
        ]);
        let json = r#"{"properties":{"rootPaths":{"maximum":1e21,"enum":[1,2.5],"multipleOf":0.5,"examples":[1],
            "default":1.5,"minimum":0,"maxLength":64.0,"minItems":1}},"type":"object"}"#;
        let expected = r#"{"properties":{"rootPaths":{"default":1.5,"enum":[1,2.5],"examples":[1],"maxLength":64,"maximum":1000000000000000000000,"minItems":1,"minimum":0,"multipleOf":0.5}},"type":"object"}"#;
        let check = |json: Option<&str>, tree: Option<prost_types::Value>| {
            let definition = McpToolDefinition {
                input_schema: tree.map(|tree| tree.encode_to_vec().into()),
                input_schema_json: json.map(str::to_owned),
                ..definition("a", "t")
            };
            let tools = collect_mcp_tools(Some(&offered(vec![definition])), None).tools;
            assert_eq!(&*tools[0].input_schema, expected);
        };
        check(None, Some(tree.clone()));
        check(Some(json), None);
        check(Some(json), Some(object(vec![("type", text("object"))])));
        check(Some(""), Some(tree));
    }

    #[test]
    fn one_tool_from_three_places_is_one_tool() {
        let context = RequestContext {
            tools: vec![
                McpToolDefinition {
                    description: "from the context".to_owned(),
                    ..definition("a", "t")
                },
                definition("b", "t"),
            ],
            mcp_file_system_options: Some(McpFileSystemOptions {
                mcp_descriptors: vec![McpDescriptor {
                    server_identifier: "a".to_owned(),
                    tools: vec![
                        McpToolDescriptor {
                            tool_name: "t".to_owned(),
                            ..McpToolDescriptor::default()
                        },
                        McpToolDescriptor {
                            tool_name: "described".to_owned(),
                            description: Some("d".to_owned()),
                            input_schema_json: Some("{}".to_owned()),
                            ..McpToolDescriptor::default()
                        },
                        McpToolDescriptor {
                            tool_name: "schemaless".to_owned(),
                            ..McpToolDescriptor::default()
                        },
                    ],
                    ..McpDescriptor::default()
                }],
                ..McpFileSystemOptions::default()
            }),
            ..RequestContext::default()
        };
        let tools = collect_mcp_tools(Some(&offered(vec![definition("a", "t")])), Some(&context)).tools;
        let seen: Vec<_> = tools
            .iter()
            .map(|tool| {
                (
                    &*tool.provider_identifier,
                    &*tool.tool_name,
                    &*tool.client_name,
                    &*tool.description,
                    tool.server_identifier.as_deref(),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("a", "described", "", "d", Some("a")),
                ("a", "t", "a-t", "t of a", Some("a")),
                ("b", "t", "b-t", "t of b", None),
            ]
        );
    }

    #[test]
    fn a_server_is_told_apart_from_its_provider_by_either_kind_of_descriptor() {
        let descriptor = |server: &str| McpDescriptor {
            server_identifier: server.to_owned(),
            tools: vec![McpToolDescriptor {
                tool_name: "t".to_owned(),
                ..McpToolDescriptor::default()
            }],
            ..McpDescriptor::default()
        };
        let context = RequestContext {
            tools: vec![definition("a", "t"), definition("b", "t"), definition("c", "t")],
            mcp_file_system_options: Some(McpFileSystemOptions {
                mcp_descriptors: vec![descriptor("a")],
                ..McpFileSystemOptions::default()
            }),
            mcp_meta_tool_options: Some(McpMetaToolOptions {
                enabled: true,
                mcp_descriptors: vec![descriptor("b")],
            }),
            ..RequestContext::default()
        };
        let tools = collect_mcp_tools(None, Some(&context)).tools;
        let servers: Vec<_> = tools
            .iter()
            .map(|tool| tool.server_identifier.as_deref())
            .collect();
        assert_eq!(servers, [Some("a"), Some("b"), None]);
    }

    #[test]
    fn a_tool_that_cannot_be_offered_is_left_out_by_name_and_takes_no_other_with_it() {
        let faulty = [
            McpToolDefinition {
                input_schema_json: Some("{".to_owned()),
                ..definition("b", "cut")
            },
            McpToolDefinition {
                input_schema: Some(object(vec![("minimum", number(f64::NAN))]).encode_to_vec().into()),
                ..definition("a", "nan")
            },
            definition("a", ""),
            // The first word on a tool counts, whether it is usable or not.
            definition("b", "cut"),
            definition("b", "whole"),
        ];
        for turned in [false, true] {
            let mut definitions = faulty.to_vec();
            definitions[..3].rotate_left(usize::from(turned));
            let collected = collect_mcp_tools(Some(&offered(definitions)), None);
            let names: Vec<_> = collected.tools.iter().map(|tool| &*tool.tool_name).collect();
            assert_eq!(names, ["whole"]);
            let left_out: Vec<_> = collected
                .left_out
                .iter()
                .map(|tool| (tool.server.as_str(), tool.tool.as_str(), tool.fault.as_str()))
                .collect();
            assert_eq!(
                left_out,
                [
                    ("a", "", "it has no name"),
                    ("a", "nan", "its input schema holds a number that is not finite"),
                    ("b", "cut", "its input schema is not valid JSON"),
                ]
            );
        }
    }
}
