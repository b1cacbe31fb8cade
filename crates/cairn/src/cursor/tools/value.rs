//! JSON to and from `google.protobuf.Value`, whose only number is a double.
//!
//! Owns the rule that no number is changed on the way out, and that integral doubles are written as integers on the
//! way in. Must never know: which tool a value belongs to.

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value as ProtoValue};
use serde_json::{Map, Number, Value};

use super::number::exact_double;

/// A number that the client's value type would change.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the number {number} at `{path}` cannot be passed on unchanged: the client's number type is a double"
)]
pub struct UnrepresentableNumber {
    /// The number as it was written.
    pub number: String,
    /// Where it stands, such as `filter.ids[2]`.
    pub path: String,
}

/// Turns JSON into the client's value type. `path` names the value's place in errors.
pub fn value_from_json(value: &Value, path: &str) -> Result<ProtoValue, UnrepresentableNumber> {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(truth) => Kind::BoolValue(*truth),
        Value::Number(number) => {
            Kind::NumberValue(exact_double(number).ok_or_else(|| UnrepresentableNumber {
                number: number.to_string(),
                path: path.to_owned(),
            })?)
        }
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(items) => Kind::ListValue(ListValue {
            values: items
                .iter()
                .enumerate()
                .map(|(index, item)| value_from_json(item, &format!("{path}[{index}]")))
                .collect::<Result<_, _>>()?,
        }),
        Value::Object(members) => Kind::StructValue(Struct {
            fields: members
                .iter()
                .map(|(name, member)| Ok((name.clone(), value_from_json(member, &format!("{path}.{name}"))?)))
                .collect::<Result<_, _>>()?,
        }),
    };
    Ok(ProtoValue { kind: Some(kind) })
}

/// Turns the client's value type into JSON. Object members come in the order of their names, since the wire has no
/// order of its own; a number that is an integer is written as one.
pub fn json_from_value(value: &ProtoValue) -> Value {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(truth)) => Value::Bool(*truth),
        Some(Kind::NumberValue(number)) => json_number(*number),
        Some(Kind::StringValue(text)) => Value::String(text.clone()),
        Some(Kind::ListValue(list)) => Value::Array(list.values.iter().map(json_from_value).collect()),
        Some(Kind::StructValue(members)) => json_from_struct(members),
    }
}

/// Turns the client's object type into JSON; see [`json_from_value`].
pub(super) fn json_from_struct(members: &Struct) -> Value {
    Value::Object(
        members
            .fields
            .iter()
            .map(|(name, member)| (name.clone(), json_from_value(member)))
            .collect::<Map<_, _>>(),
    )
}

/// JSON has no infinity and no not-a-number: they become null, as every JSON writer has it.
fn json_number(number: f64) -> Value {
    // The shortest form that reads back as the same double, without a point where none is needed.
    let text = match number.abs() < 1e21 {
        true => format!("{number}"),
        false => format!("{number:e}"),
    };
    match text.parse::<Number>() {
        Ok(number) => Value::Number(number),
        Err(_) => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_out_comes_back() {
        let text = r#"{"a":[1,2.5,-3,1e21,true,null,"x"],"b":{"c":0.1}}"#;
        let json: Value = serde_json::from_str(text).unwrap_or_default();
        let proto = value_from_json(&json, "arguments");
        assert_eq!(
            proto.map(|value| json_from_value(&value).to_string()),
            Ok(r#"{"a":[1,2.5,-3,1e21,true,null,"x"],"b":{"c":0.1}}"#.replace("1e21", "1e+21"))
        );
    }

    #[test]
    fn a_number_that_would_change_is_named() {
        let json: Value = serde_json::from_str(r#"{"ids":[1,9007199254740993]}"#).unwrap_or_default();
        assert_eq!(
            value_from_json(&json["ids"], "ids"),
            Err(UnrepresentableNumber {
                number: "9007199254740993".to_owned(),
                path: "ids[1]".to_owned(),
            })
        );
    }

    #[test]
    fn not_a_number_is_null() {
        assert_eq!(json_number(f64::NAN), Value::Null);
        assert_eq!(json_number(f64::INFINITY), Value::Null);
    }
}
