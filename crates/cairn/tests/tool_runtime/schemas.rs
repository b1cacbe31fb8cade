//! What a tool's schema says holds at its call: what the schema refuses, the runtime refuses, for every argument.

use cairn::cursor::prompting::PromptAssets;
use serde_json::{Map, Value, json};

use super::tool_calls::*;

/// A value that fits this schema, which may be that of the named property.
fn fitting(name: &str, schema: &Value) -> Value {
    if let Some(words) = schema["enum"].as_array() {
        return words[0].clone();
    }
    match schema["type"].as_str().unwrap() {
        "string" if name == "url" => json!("http://h/p"),
        "string" => json!("x"),
        "integer" => schema["minimum"].clone(),
        "boolean" => json!(false),
        "array" => {
            let least = schema["minItems"].as_u64().unwrap_or(1);
            let items = (0..least).map(|index| {
                let mut item = fitting(name, &schema["items"]);
                if let Some(id) = item.get_mut("id") {
                    *id = json!(index.to_string());
                }
                item
            });
            Value::Array(items.collect())
        }
        "object" => required(schema),
        other => panic!("{name} has the unknown type {other}"),
    }
}

/// An object with what this schema requires.
fn required(schema: &Value) -> Value {
    let mut object = Map::new();
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap();
        object.insert(name.to_owned(), fitting(name, &schema["properties"][name]));
    }
    Value::Object(object)
}

/// Values that this schema does not take.
fn unfitting(schema: &Value) -> Vec<Value> {
    let mut values = match schema["type"].as_str().unwrap() {
        "string" => vec![json!(1)],
        "boolean" => vec![json!("true")],
        "integer" => vec![json!("1"), json!(1.5)],
        "array" => vec![json!("x"), json!([null])],
        "object" => vec![json!("x")],
        other => panic!("the unknown type {other}"),
    };
    values.extend(schema.get("enum").map(|_| json!("none of these")));
    values.extend(schema["minimum"].as_i64().map(|least| json!(least - 1)));
    values.extend(schema["maximum"].as_i64().map(|most| json!(most + 1)));
    values.extend(schema["minLength"].as_i64().map(|_| json!("")));
    let item = || fitting("", &schema["items"]);
    values.extend(schema["minItems"].as_u64().map(|least| {
        let items = (1..least).map(|_| item());
        Value::Array(items.collect())
    }));
    values.extend(schema["maxItems"].as_u64().map(|most| {
        let items = (0..=most).map(|_| item());
        Value::Array(items.collect())
    }));
    values
}

#[test]
fn every_bound_of_every_schema_is_kept_at_the_call() {
    let assets = PromptAssets::load().unwrap();
    for entry in assets.catalog().entries() {
        let tool = &*entry.tool.name;
        let schema: Value = serde_json::from_str(&entry.tool.parameters).unwrap();
        let is_refused = |arguments: &Value| {
            let mut tools = offering(&[tool], subagents());
            let effects = tools
                .execute(&call("a", tool, &arguments.to_string()), 0)
                .unwrap();
            let said = format!("{effects:?}");
            said.contains("was not executed, its arguments do not fit")
        };
        let whole = required(&schema);
        assert!(!is_refused(&whole), "{tool} {whole}");
        let with = |name: &str, value: Value| {
            let mut changed = whole.clone();
            changed[name] = value;
            changed
        };
        assert!(is_refused(&with("no_such_argument", json!(1))), "{tool}");
        for (name, property) in schema["properties"].as_object().unwrap() {
            for value in unfitting(property) {
                let arguments = with(name, value);
                assert!(is_refused(&arguments), "{tool} took {arguments}");
            }
        }
        for name in schema["required"].as_array().unwrap() {
            let mut without = whole.clone();
            without.as_object_mut().unwrap().remove(name.as_str().unwrap());
            assert!(is_refused(&without), "{tool} took {without}");
        }
    }
}
