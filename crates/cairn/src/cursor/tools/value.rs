//! JSON to and from an encoded `google.protobuf.Value`, whose only number is a double.
//!
//! Owns the rule that no number is changed on the way out, and that integral doubles are written as integers on the
//! way in. Must never know: which tool a value belongs to.

use bytes::Bytes;
use prost::{DecodeError, Message as _};
use serde_json::{Map, Number, Value};

use super::number::exact_double;
use crate::cursor::proto::agent::json_value::Kind;
use crate::cursor::proto::agent::{JsonList, JsonObject, JsonValue};

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

/// The deepest nesting that is read. Far more than any schema needs, and little enough to stand inside of a request: JSON
/// readers give up at 128 levels, ours and those of endpoints.
const DEEPEST: usize = 100;

/// Why a value of the client cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnreadableValue {
    /// The bytes are none.
    #[error("it is no value: {0}")]
    Malformed(DecodeError),
    /// Values stand in values beyond all use.
    #[error("it is nested more than {DEEPEST} levels deep")]
    TooDeep,
    /// A number that JSON cannot hold.
    #[error("it holds a number that is not finite")]
    NotFinite,
}

/// Turns JSON into the client's value type. `path` names the value's place in errors.
///
/// # Errors
/// If a number would not stay what it is.
pub fn value_from_json(value: &Value, path: &str) -> Result<Bytes, UnrepresentableNumber> {
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
        Value::Array(items) => {
            let items = items.iter().enumerate();
            let values = items.map(|(index, item)| value_from_json(item, &format!("{path}[{index}]")));
            let list = JsonList {
                values: values.collect::<Result<_, _>>()?,
            };
            Kind::ListValue(list.encode_to_vec().into())
        }
        Value::Object(members) => {
            let fields = members.iter().map(|(name, member)| {
                Ok((name.clone(), value_from_json(member, &format!("{path}.{name}"))?))
            });
            let object = JsonObject {
                fields: fields.collect::<Result<_, _>>()?,
            };
            Kind::StructValue(object.encode_to_vec().into())
        }
    };
    Ok(JsonValue { kind: Some(kind) }.encode_to_vec().into())
}

/// Turns the client's value type into JSON. Object members come in the order of their names, since the wire has no
/// order of its own; a number that is an integer is written as one.
///
/// # Errors
/// If there is no such JSON, or too deep a one.
pub fn json_from_value(value: &Bytes) -> Result<Value, UnreadableValue> {
    json_at(value, 1)
}

/// Turns the client's object type into JSON; see [`json_from_value`].
pub(super) fn json_from_struct(members: &Bytes) -> Result<Value, UnreadableValue> {
    object_at(members, 1)
}

fn json_at(value: &Bytes, level: usize) -> Result<Value, UnreadableValue> {
    if level > DEEPEST {
        return Err(UnreadableValue::TooDeep);
    }
    let value = JsonValue::decode(value.clone()).map_err(UnreadableValue::Malformed)?;
    Ok(match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(truth)) => Value::Bool(truth),
        Some(Kind::NumberValue(number)) => Value::Number(json_number(number)?),
        Some(Kind::StringValue(text)) => Value::String(text),
        Some(Kind::ListValue(list)) => {
            let list = JsonList::decode(list).map_err(UnreadableValue::Malformed)?;
            let items = list.values.iter().map(|item| json_at(item, level + 1));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Some(Kind::StructValue(members)) => object_at(&members, level)?,
    })
}

fn object_at(members: &Bytes, level: usize) -> Result<Value, UnreadableValue> {
    let object = JsonObject::decode(members.clone()).map_err(UnreadableValue::Malformed)?;
    let members = object
        .fields
        .iter()
        .map(|(name, member)| Ok((name.clone(), json_at(member, level + 1)?)));
    Ok(Value::Object(members.collect::<Result<Map<_, _>, _>>()?))
}

fn json_number(number: f64) -> Result<Number, UnreadableValue> {
    // The shortest form that reads back as the same double, without a point where none is needed.
    let text = match number.abs() < 1e21 {
        true => format!("{number}"),
        false => format!("{number:e}"),
    };
    text.parse().map_err(|_| UnreadableValue::NotFinite)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_goes_out_comes_back() {
        let text = r#"{"a":[1,2.5,-3,1e21,true,null,"x"],"b":{"c":0.1}}"#;
        let json: Value = serde_json::from_str(text).unwrap_or_default();
        let proto = value_from_json(&json, "arguments").unwrap();
        assert_eq!(
            json_from_value(&proto).map(|value| value.to_string()),
            Ok(r#"{"a":[1,2.5,-3,1e21,true,null,"x"],"b":{"c":0.1}}"#.replace("1e21", "1e+21"))
        );
        // What is left undecoded level by level is what the protocol's own type says.
        let whole = prost_types::Value::decode(proto.clone()).unwrap();
        assert_eq!(Bytes::from(whole.encode_to_vec()), proto);
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
    fn what_is_not_finite_is_no_json() {
        assert_eq!(json_number(f64::NAN), Err(UnreadableValue::NotFinite));
        assert_eq!(json_number(f64::INFINITY), Err(UnreadableValue::NotFinite));
    }

    #[test]
    fn a_value_is_read_as_deep_as_it_may_be_and_no_deeper() {
        let nested =
            |levels: usize| (1..levels).fold(Value::from("x"), |inner, _| serde_json::json!({ "n": inner }));
        let deepest = nested(DEEPEST);
        let encoded = value_from_json(&deepest, "arguments").unwrap();
        assert_eq!(json_from_value(&encoded), Ok(deepest.clone()));
        let encoded = value_from_json(&nested(DEEPEST + 1), "arguments").unwrap();
        assert_eq!(json_from_value(&encoded), Err(UnreadableValue::TooDeep));
    }
}
