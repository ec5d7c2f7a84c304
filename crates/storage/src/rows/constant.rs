//! Constants in a schema: the value of a column that an insert does not name.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::rows::text::{format_timestamp, format_uuid, parse_timestamp, parse_uuid};
use crate::rows::value::{ColumnType, Value};

/// A value in a schema. In JSON it is `true`, a number, a string (also of a timestamp, a UUID, and
/// of `"NaN"`, `"Infinity"`, `"-Infinity"`), or `{"hex": "00ff"}` for bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Constant {
    /// A truth value.
    Bool(bool),
    /// An integer, unless it is negative.
    U64(u64),
    /// A negative integer.
    I64(i64),
    /// The bits of a finite floating-point number.
    F64(u64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// The floating-point numbers that JSON has no numbers for.
const SPECIAL: [(&str, f64); 3] =
    [("NaN", f64::NAN), ("Infinity", f64::INFINITY), ("-Infinity", f64::NEG_INFINITY)];

impl Constant {
    /// The constant that a column of this type is given by a value; `None` for NULL. Of a value
    /// that the column cannot have it is one that it cannot have either.
    pub(crate) fn of(kind: ColumnType, value: &Value<'_>) -> Option<Self> {
        Some(match *value {
            Value::Null => return None,
            Value::Bool(truth) => Self::Bool(truth),
            Value::U64(number) => Self::U64(number),
            Value::I64(number) => match (kind, format_timestamp(number)) {
                (ColumnType::Timestamp, Some(text)) => Self::Text(text),
                _ => u64::try_from(number).map_or(Self::I64(number), Self::U64),
            },
            Value::F64(number) if number.is_finite() => Self::F64(number.to_bits()),
            Value::F64(number) => {
                let special = SPECIAL.iter().find(|(_, special)| *special == number);
                Self::Text(special.map_or(SPECIAL[0].0, |(name, _)| name).into())
            }
            Value::Text(text) => Self::Text(text.into()),
            Value::Bytes(bytes) => match (kind, bytes.try_into()) {
                (ColumnType::Uuid, Ok(uuid)) => Self::Text(format_uuid(uuid)),
                _ => Self::Bytes(bytes.into()),
            },
        })
    }

    /// The same as a value of a column of this type, and what keeps it: [`Self::value`] of the
    /// result is that value. `None` if the type has none like it.
    pub(crate) fn resolved(&self, kind: ColumnType) -> Option<Self> {
        let signed = kind.integer_range().is_some_and(|(least, _)| least < 0);
        Some(match (kind, self) {
            (ColumnType::Timestamp, Self::Text(text)) => Self::I64(parse_timestamp(text)?),
            (ColumnType::Uuid, Self::Text(text)) => Self::Bytes(parse_uuid(text)?.into()),
            (ColumnType::F64, Self::Text(text)) => {
                let (_, number) = SPECIAL.iter().find(|(name, _)| name == text)?;
                Self::F64(number.to_bits())
            }
            (ColumnType::F64, Self::U64(number)) => Self::F64((*number as f64).to_bits()),
            (ColumnType::F64, Self::I64(number)) => Self::F64((*number as f64).to_bits()),
            (_, Self::U64(number)) if signed => Self::I64(i64::try_from(*number).ok()?),
            (_, same) => same.clone(),
        })
    }

    /// Returns how a value of this type is written, if text was written that is none.
    pub(crate) fn hint(&self, kind: ColumnType) -> &'static str {
        match (kind, self) {
            (ColumnType::Timestamp, Self::Text(_)) => {
                "; a timestamp is written as \"2015-06-04T12:30:00Z\""
            }
            (ColumnType::Uuid, Self::Text(_)) => {
                "; a uuid is written as \"123e4567-e89b-12d3-a456-426614174000\""
            }
            (ColumnType::F64, Self::Text(_)) => {
                "; the only text for one is \"NaN\", \"Infinity\" or \"-Infinity\""
            }
            (ColumnType::Bytes { .. }, Self::Text(_)) => {
                "; bytes are written as {\"hex\": \"00ff\"}"
            }
            _ => "",
        }
    }

    /// The value.
    pub fn value(&self) -> Value<'_> {
        match self {
            Self::Bool(truth) => Value::Bool(*truth),
            Self::U64(number) => Value::U64(*number),
            Self::I64(number) => Value::I64(*number),
            Self::F64(bits) => Value::F64(f64::from_bits(*bits)),
            Self::Text(text) => Value::Text(text),
            Self::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

impl Serialize for Constant {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bool(truth) => to.serialize_bool(*truth),
            Self::U64(number) => to.serialize_u64(*number),
            Self::I64(number) => to.serialize_i64(*number),
            Self::F64(bits) => to.serialize_f64(f64::from_bits(*bits)),
            Self::Text(text) => to.serialize_str(text),
            Self::Bytes(bytes) => {
                let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                let mut map = to.serialize_map(Some(1))?;
                map.serialize_entry("hex", &digits)?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Constant {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reading)
    }
}

struct Reading;

impl<'de> Visitor<'de> for Reading {
    type Value = Constant;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, a string, true, false, or bytes as {\"hex\": \"00ff\"}")
    }

    fn visit_bool<E: de::Error>(self, truth: bool) -> Result<Constant, E> {
        Ok(Constant::Bool(truth))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Constant, E> {
        Ok(Constant::U64(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Constant, E> {
        Ok(u64::try_from(number).map_or(Constant::I64(number), Constant::U64))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Constant, E> {
        Ok(Constant::F64(number.to_bits()))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Constant, E> {
        Ok(Constant::Text(text.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Constant, A::Error> {
        let wrong = || de::Error::custom("bytes are written as {\"hex\": \"00ff\"}");
        let (Some((name, digits)), None) =
            (map.next_entry::<String, String>()?, map.next_key::<String>()?)
        else {
            return Err(wrong());
        };
        let hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if name != "hex" || !hexadecimal || !digits.len().is_multiple_of(2) {
            return Err(wrong());
        }
        let bytes = (0..digits.len()).step_by(2);
        let bytes = bytes.map(|at| u8::from_str_radix(&digits[at..at + 2], 16));
        Ok(Constant::Bytes(bytes.collect::<Result<_, _>>().map_err(|_| wrong())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::catalog::Catalog;
    use crate::rows::schema::{Schema, TableSchema};

    fn table(kind: ColumnType, default: &str) -> Result<Catalog, String> {
        let kind = serde_json::to_string(&kind).unwrap();
        let json = format!(
            "{{\"tables\": [{{\"name\": \"t\", \"columns\": [{{\"name\": \"k\", \"kind\": \"u8\"}}, \
             {{\"name\": \"c\", \"kind\": {kind}, \"default\": {default}}}], \"key\": [\"k\"]}}]}}"
        );
        let schema = Schema::from_json(json.as_bytes()).map_err(|error| error.to_string())?;
        let catalog = Catalog::new(&schema).map_err(|error| error.to_string())?;
        let again = serde_json::to_vec(&catalog.schema).unwrap();
        assert_eq!(Schema::from_json(&again).unwrap(), catalog.schema);
        Ok(catalog)
    }

    #[test]
    fn constants_are_read_by_the_type_of_their_column() {
        let uuid: [u8; 16] = std::array::from_fn(|at| at as u8);
        let cases: [(ColumnType, &str, Value<'_>); 14] = [
            (ColumnType::U8, "7", Value::U64(7)),
            (ColumnType::I16, "7", Value::I64(7)),
            (ColumnType::I64, "-7", Value::I64(-7)),
            (ColumnType::F64, "7", Value::F64(7.0)),
            (ColumnType::F64, "-0.0", Value::F64(-0.0)),
            (ColumnType::F64, "0.1", Value::F64(0.1)),
            (ColumnType::F64, "\"-Infinity\"", Value::F64(f64::NEG_INFINITY)),
            (ColumnType::Bool, "true", Value::Bool(true)),
            (ColumnType::Timestamp, "\"1970-01-01T01:00:01+01:00\"", Value::I64(1_000_000)),
            (ColumnType::Timestamp, "1000000", Value::I64(1_000_000)),
            (ColumnType::Timestamp, "-9223372036854775808", Value::I64(i64::MIN)),
            (ColumnType::Uuid, "\"00010203-0405-0607-0809-0A0B0C0D0E0F\"", Value::Bytes(&uuid)),
            (ColumnType::Bytes { max: 2 }, "{\"hex\": \"00fF\"}", Value::Bytes(&[0, 0xff])),
            (ColumnType::Text { max: 9 }, "\"NaN\"", Value::Text("NaN")),
        ];
        for (kind, default, value) in cases {
            let catalog = table(kind, default).unwrap();
            let layout = &catalog.tables[0];
            assert_eq!(layout.default_of(1), Some(value), "{kind} {default}");
            assert_eq!(layout.default_of(0), None);
            // Declared in the program, it is the same schema.
            let built = TableSchema::new("t").column("k", ColumnType::U8);
            let built = built.column("c", kind).default(value).key(&["k"]);
            assert_eq!(Schema::new().table(built), catalog.schema, "{kind} {default}");
        }
    }

    #[test]
    fn a_default_that_its_column_cannot_have_is_refused() {
        for (kind, default, said) in [
            (
                ColumnType::U8,
                "256",
                "has a default that its column cannot hold: column `c` holds u8 from 0 to 255, not 256",
            ),
            (ColumnType::U8, "-1", "column `c` holds u8 from 0 to 255, not -1"),
            (ColumnType::U8, "\"1\"", "column `c` holds u8, not text"),
            (ColumnType::U64, "1.0", "column `c` holds u64, not f64"),
            (
                ColumnType::I64,
                "9223372036854775808",
                "column `c` holds i64 from -9223372036854775808 to 9223372036854775807, not 9223372036854775808",
            ),
            (ColumnType::Bool, "1", "column `c` holds bool, not u64"),
            (ColumnType::F64, "\"nan\"", "column `c` holds f64, not text; the only text"),
            (ColumnType::Timestamp, "\"1970-01-01\"", "not text; a timestamp is written as \"20"),
            (ColumnType::Uuid, "\"00\"", "column `c` holds uuid, not text; a uuid is written as"),
            (ColumnType::Uuid, "{\"hex\": \"\"}", "column `c` holds a uuid of 16 bytes, not 0"),
            (ColumnType::Text { max: 2 }, "\"abc\"", "column `c` holds at most 2 bytes, not 3"),
            (ColumnType::Bytes { max: 2 }, "\"ab\"", "not text; bytes are written as {\"hex\""),
            (ColumnType::Bytes { max: 2 }, "{\"hex\": \"0\"}", "bytes are written as"),
            (ColumnType::Bytes { max: 2 }, "{\"hex\": \"+f\"}", "bytes are written as"),
            (ColumnType::Bytes { max: 2 }, "{\"hexa\": \"00\"}", "bytes are written as"),
            (ColumnType::Bytes { max: 2 }, "[1]", "a number, a string, true, false, or bytes"),
        ] {
            let error = table(kind, default).unwrap_err();
            assert!(error.contains(said), "{kind} {default}: {error}");
        }
    }
}
