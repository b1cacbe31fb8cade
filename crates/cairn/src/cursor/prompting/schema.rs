//! One canonical text for a JSON Schema, whichever way it travelled.
//!
//! The same schema arrives with its keys in any order, as a tree of doubles or as JSON text. It goes to the model as
//! one text: keys sorted, whole numbers as integers, and a root that every API takes. Must never know: what the schema
//! describes.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Why something is no usable schema of a tool's arguments.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SchemaFault {
    /// The root is not a JSON object, or says that arguments are something else than one.
    #[error("its input schema does not describe an object")]
    NotAnObject,
    /// A number that JSON cannot hold.
    #[error("its input schema holds a number that is not finite")]
    NotFinite,
    /// The text is not JSON.
    #[error("its input schema is not valid JSON")]
    NotJson,
    /// Schemas stand in schemas beyond all use.
    #[error("its input schema is nested too deeply")]
    TooDeep,
}

/// The canonical text of a tool's input schema.
///
/// Arguments are always an object, so a root that leaves `type` or `properties` out gets them: endpoints refuse a
/// tool without them. They also refuse a root that is a reference, or that combines schemas; of those the root becomes
/// the object that all of them together describe. What it then no longer says (that only some of the properties go
/// together) the tool itself still checks.
pub fn canonical_schema(schema: Value) -> Result<String, SchemaFault> {
    let Value::Object(root) = schema else {
        return Err(SchemaFault::NotAnObject);
    };
    let definitions = root.clone();
    let mut root = resolved(root, &definitions)?;
    root.shift_remove("$schema");
    match root.get("type") {
        None => {
            root.insert("type".to_owned(), Value::from("object"));
        }
        Some(kind) if kind == "object" => {}
        Some(Value::Array(kinds)) if kinds.iter().any(|kind| kind == "object") => {
            root.insert("type".to_owned(), Value::from("object"));
        }
        Some(_) => return Err(SchemaFault::NotAnObject),
    }
    root.entry("properties")
        .or_insert_with(|| Value::Object(Map::new()));
    for key in REFUSED_AT_THE_ROOT {
        root.shift_remove(key);
    }
    for key in COMBINERS {
        if let Some(Value::Array(branches)) = root.shift_remove(key) {
            for branch in branches {
                if let Value::Object(branch) = branch {
                    join(&mut root, resolved(branch, &definitions)?, key == "allOf");
                }
            }
        }
    }
    let mut out = String::new();
    write_object(&mut out, &root)?;
    Ok(out)
}

/// Keys that endpoints refuse at the root and that say nothing of which properties there are.
const REFUSED_AT_THE_ROOT: [&str; 2] = ["enum", "not"];
/// Keys that combine schemas, and that endpoints refuse at the root.
const COMBINERS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// The most references that are followed one after the other.
const MOST_REFERENCES: usize = 16;

/// A schema in whose place a reference may stand. What stands beside the reference wins over what it refers to.
fn resolved(
    mut schema: Map<String, Value>,
    definitions: &Map<String, Value>,
) -> Result<Map<String, Value>, SchemaFault> {
    for _ in 0..MOST_REFERENCES {
        let Some(reference) = schema.shift_remove("$ref") else {
            return Ok(schema);
        };
        let path = reference
            .as_str()
            .and_then(|reference| reference.strip_prefix("#/"));
        let mut steps = path.into_iter().flat_map(|path| path.split('/'));
        let first = steps.next().and_then(|step| definitions.get(&unescaped(step)));
        let target = steps.fold(first, |found, step| found?.get(unescaped(step)));
        let Some(Value::Object(target)) = target else {
            return Err(SchemaFault::NotAnObject);
        };
        for (key, value) in target {
            schema.entry(key).or_insert_with(|| value.clone());
        }
    }
    Err(SchemaFault::NotAnObject)
}

/// A step of a JSON pointer.
fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// Adds what a branch of a combined root describes; what is described already stays.
fn join(root: &mut Map<String, Value>, branch: Map<String, Value>, is_binding: bool) {
    if let (Some(Value::Object(properties)), Some(Value::Object(more))) =
        (root.get_mut("properties"), branch.get("properties"))
    {
        for (name, schema) in more {
            properties.entry(name).or_insert_with(|| schema.clone());
        }
    }
    if is_binding && let Some(Value::Array(names)) = branch.get("required") {
        let required = root.entry("required").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(required) = required {
            for name in names {
                if !required.contains(name) {
                    required.push(name.clone());
                }
            }
        }
    }
}

fn write_value(out: &mut String, value: &Value) -> Result<(), SchemaFault> {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => {
            let _ = write!(out, "{value}");
        }
        Value::Number(number) => out.push_str(&canonical_number(&number.to_string())?),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(out, item)?;
            }
            out.push(']');
        }
        Value::Object(object) => write_object(out, object)?,
    }
    Ok(())
}

fn write_object(out: &mut String, object: &Map<String, Value>) -> Result<(), SchemaFault> {
    let mut entries: Vec<(&String, &Value)> = object.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    out.push('{');
    for (index, (key, value)) in entries.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        let _ = write!(out, "{}:", Value::String(key.clone()));
        write_value(out, value)?;
    }
    out.push('}');
    Ok(())
}

/// A number's canonical text. Digits that came as an integer stay, however many: a double would lose some of them.
fn canonical_number(text: &str) -> Result<String, SchemaFault> {
    if !text.contains(['.', 'e', 'E']) {
        return Ok(if text == "-0" {
            "0".to_owned()
        } else {
            text.to_owned()
        });
    }
    let number: f64 = text.parse().map_err(|_| SchemaFault::NotJson)?;
    if !number.is_finite() {
        return Err(SchemaFault::NotFinite);
    }
    // Rust prints a double in plain decimals, without exponent: a whole one gets no fraction and loses no digit.
    Ok(if number == 0.0 {
        "0".to_owned()
    } else {
        number.to_string()
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn canonical(text: &str) -> String {
        canonical_schema(serde_json::from_str(text).unwrap()).unwrap()
    }

    #[test]
    fn whole_numbers_print_as_integers_and_fractions_stay() {
        let check = |number: &str, expected: &str| {
            let schema = format!(r#"{{"type":"object","properties":{{"a":{{"minimum":{number}}}}}}}"#);
            let expected = format!(r#"{{"properties":{{"a":{{"minimum":{expected}}}}},"type":"object"}}"#);
            assert_eq!(canonical(&schema), expected);
        };
        check("1.0", "1");
        check("0.0", "0");
        check("-0.0", "0");
        check("-0", "0");
        check("-3.0", "-3");
        check("64", "64");
        check("1e3", "1000");
        check("1e21", "1000000000000000000000");
        check("1e22", "10000000000000000000000");
        check("9007199254740993", "9007199254740993");
        check("123456789012345678901234567890", "123456789012345678901234567890");
        check("1.5", "1.5");
        check("0.5", "0.5");
        check("2.50", "2.5");
        check("1e-7", "0.0000001");
    }

    #[test]
    fn keys_are_sorted_at_every_depth_and_lists_keep_their_order() {
        assert_eq!(
            canonical(
                r#"{"type":"object","properties":{"b":{"enum":[2.5,1.0,"x"],"anyOf":[{"z":1,"a":null}]},"a":{}},"required":["b","a"]}"#
            ),
            r#"{"properties":{"a":{},"b":{"anyOf":[{"a":null,"z":1}],"enum":[2.5,1,"x"]}},"required":["b","a"],"type":"object"}"#
        );
    }

    #[test]
    fn strings_keep_their_text() {
        assert_eq!(
            canonical(r#"{"description":"1.0 \"é\" \n","type":"object","properties":{}}"#),
            r#"{"description":"1.0 \"é\" \n","properties":{},"type":"object"}"#
        );
    }

    #[test]
    fn a_root_that_endpoints_would_refuse_becomes_the_object_that_it_describes() {
        let check = |schema: &str, expected: &str| assert_eq!(canonical(schema), expected);
        check(
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":["object","null"]}"#,
            r#"{"properties":{},"type":"object"}"#,
        );
        check(
            r##"{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"object","properties":{"x":{"$ref":"#/$defs/c"}},"required":["x"]},"c":{"minimum":1.0}}}"##,
            r##"{"$defs":{"a/b":{"properties":{"x":{"$ref":"#/$defs/c"}},"required":["x"],"type":"object"},"c":{"minimum":1}},"properties":{"x":{"$ref":"#/$defs/c"}},"required":["x"],"type":"object"}"##,
        );
        check(
            r##"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],
                "anyOf":[{"properties":{"a":{"type":"null"},"b":{"minItems":1.0}},"required":["b"]},{"$ref":"#/definitions/C"}],
                "not":{"required":["z"]},"definitions":{"C":{"properties":{"c":{}}}}}"##,
            r#"{"definitions":{"C":{"properties":{"c":{}}}},"properties":{"a":{"type":"string"},"b":{"minItems":1},"c":{}},"required":["a"],"type":"object"}"#,
        );
        check(
            r#"{"allOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}},"required":["a","b"]},true]}"#,
            r#"{"properties":{"a":{},"b":{}},"required":["a","b"],"type":"object"}"#,
        );
        let fault = |text: &str| canonical_schema(serde_json::from_str(text).unwrap());
        for endless in [
            r##"{"$ref":"#/$defs/x"}"##,
            r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}}"##,
        ] {
            assert_eq!(fault(endless), Err(SchemaFault::NotAnObject));
        }
    }

    #[test]
    fn the_root_is_an_object() {
        assert_eq!(canonical("{}"), r#"{"properties":{},"type":"object"}"#);
        let fault = |text: &str| canonical_schema(serde_json::from_str(text).unwrap());
        assert_eq!(fault(r#"{"type":"string"}"#), Err(SchemaFault::NotAnObject));
        assert_eq!(fault("[]"), Err(SchemaFault::NotAnObject));
        assert_eq!(fault("null"), Err(SchemaFault::NotAnObject));
        assert_eq!(fault(r#"{"minimum":1e999}"#), Err(SchemaFault::NotFinite));
    }
}
