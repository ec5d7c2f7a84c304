//! Values as JSON, and back.

use std::borrow::Cow;
use std::fmt;
use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engines::below::text::{format_timestamp, format_uuid, parse_timestamp, parse_uuid};
use engines::below::{
    Column, ColumnType, OwnedValue, TableLayout, Value, did_you_mean, json_error, shortened,
    visible_json,
};
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

const NAN: &str = "NaN";
const INFINITY: &str = "Infinity";
const MINUS_INFINITY: &str = "-Infinity";
/// The words before the bits of a NaN that is not [`f64::NAN`].
const OTHER_NAN: &str = "NaN:";

/// Characters of a value that an error shows.
const SHOWN: usize = 60;

/// Appends a string.
pub(super) fn put_text(text: &str, out: &mut Vec<u8>) {
    let json = serde_json::to_string(text).expect("text encodes");
    out.extend_from_slice(visible_json(&json).as_bytes());
}

/// Appends the value of a column of this type.
pub(super) fn put_value(kind: ColumnType, value: &Value<'_>, out: &mut Vec<u8>) {
    match *value {
        Value::U64(number) => write!(out, "{number}").expect("a vector takes everything"),
        Value::I64(number) => {
            if kind == ColumnType::Timestamp
                && let Some(text) = format_timestamp(number)
            {
                return put_text(&text, out);
            }
            write!(out, "{number}").expect("a vector takes everything");
        }
        Value::F64(number) => put_float(number, out),
        Value::Bool(truth) => write!(out, "{truth}").expect("a vector takes everything"),
        Value::Null => out.extend(b"null"),
        Value::Text(text) => put_text(text, out),
        Value::Bytes(bytes) => {
            if kind == ColumnType::Uuid
                && let Ok(uuid) = bytes.try_into()
            {
                return put_text(&format_uuid(uuid), out);
            }
            out.push(b'"');
            let start = out.len();
            out.resize(start + bytes.len().div_ceil(3) * 4, 0);
            let written = STANDARD.encode_slice(bytes, &mut out[start..]);
            debug_assert_eq!(written, Ok(out.len() - start));
            out.push(b'"');
        }
    }
}

fn put_float(number: f64, out: &mut Vec<u8>) {
    if number.is_finite() {
        serde_json::to_writer(out, &number).expect("a vector takes everything");
    } else if number == f64::INFINITY {
        put_text(INFINITY, out);
    } else if number == f64::NEG_INFINITY {
        put_text(MINUS_INFINITY, out);
    } else if number.to_bits() == f64::NAN.to_bits() {
        put_text(NAN, out);
    } else {
        put_text(&format!("{OTHER_NAN}{:016x}", number.to_bits()), out);
    }
}

fn special_float(text: &str) -> Option<f64> {
    match text {
        NAN => Some(f64::NAN),
        INFINITY => Some(f64::INFINITY),
        MINUS_INFINITY => Some(f64::NEG_INFINITY),
        other => {
            let digits = other.strip_prefix(OTHER_NAN).filter(|digits| digits.len() == 16)?;
            let hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            let bits = hexadecimal.then(|| u64::from_str_radix(digits, 16).ok()).flatten()?;
            Some(f64::from_bits(bits)).filter(|number| number.is_nan())
        }
    }
}

/// Reads a tuple: a value for each column of a table, in the order of the schema. A column that is
/// not named has its default, or is NULL if it may be.
pub(super) struct TupleSeed<'a>(pub(super) &'a TableLayout);

impl<'de> DeserializeSeed<'de> for TupleSeed<'_> {
    type Value = Vec<OwnedValue<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TupleSeed<'_> {
    type Value = Vec<OwnedValue<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with the columns of table `{}`", self.0.schema.name())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let columns = self.0.declared.columns();
        let mut values: Vec<Option<OwnedValue<'de>>> = Vec::new();
        values.resize_with(columns.len(), || None);
        let mut guess = 0;
        while let Some(number) = map.next_key_seed(NameSeed { layout: self.0, guess })? {
            let column = &columns[number];
            if values[number].is_some() {
                return Err(de::Error::custom(format!("column `{}` comes twice", column.name)));
            }
            values[number] = Some(map.next_value_seed(ColumnSeed(column))?);
            guess = number + 1;
        }
        let missing = |number: usize| {
            de::Error::custom(format!("column `{}` is missing", columns[number].name))
        };
        let each = values.into_iter().enumerate();
        let unnamed = |number: usize| self.0.default_of(number).map(|value| OwnedValue::of(&value));
        each.map(|(number, value)| value.or_else(|| unnamed(number)).ok_or_else(|| missing(number)))
            .collect()
    }
}

/// Reads the name of a column; most often it is the next one.
struct NameSeed<'a> {
    layout: &'a TableLayout,
    guess: usize,
}

impl<'de> DeserializeSeed<'de> for NameSeed<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<usize, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for NameSeed<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a column")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<usize, E> {
        let schema = &self.layout.declared;
        if schema.columns().get(self.guess).is_some_and(|column| column.name == name) {
            return Ok(self.guess);
        }
        let unknown = || {
            let known = schema.columns().iter().map(|column| column.name.as_str());
            let meant = did_you_mean(name, known);
            E::custom(format!("table `{}` has no column `{name}`{meant}", schema.name()))
        };
        self.layout.column(name).map(usize::from).ok_or_else(unknown)
    }
}

/// Reads the value of a column.
struct ColumnSeed<'a>(&'a Column);

impl ColumnSeed<'_> {
    fn wrong<T, E: de::Error>(&self, found: impl fmt::Display) -> Result<T, E> {
        Err(E::custom(format!("column `{}` holds {}, not {found}", self.0.name, self.0.kind)))
    }

    fn string<'de, E: de::Error>(&self, text: Cow<'de, str>) -> Result<OwnedValue<'de>, E> {
        match self.0.kind {
            ColumnType::Text { .. } => Ok(OwnedValue::Text(text)),
            ColumnType::Bytes { .. } => match STANDARD.decode(text.as_bytes()) {
                Ok(bytes) => Ok(OwnedValue::Bytes(bytes)),
                Err(error) => Err(E::custom(format!(
                    "column `{}` holds bytes in base64, and this is none: {error}",
                    self.0.name
                ))),
            },
            ColumnType::Uuid => match parse_uuid(&text) {
                Some(uuid) => Ok(OwnedValue::Bytes(uuid.into())),
                None => self.wrong(format_args!("the text `{}`", shortened(&text, SHOWN))),
            },
            ColumnType::Timestamp => match parse_timestamp(&text) {
                Some(micros) => Ok(OwnedValue::I64(micros)),
                None => self.wrong(format_args!(
                    "the text `{}`; write it as in RFC 3339, or as microseconds since 1970",
                    shortened(&text, SHOWN)
                )),
            },
            ColumnType::F64 => match special_float(&text) {
                Some(number) => Ok(OwnedValue::F64(number)),
                None => self.wrong(format_args!("the text `{}`", shortened(&text, SHOWN))),
            },
            _ => self.wrong(format_args!("the text `{}`", shortened(&text, SHOWN))),
        }
    }

    fn is_signed(&self) -> bool {
        self.0.kind.integer_range().is_some_and(|(least, _)| least < 0)
    }

    /// Reads what stands in the place of an integer.
    fn integer<'de, E: de::Error>(self, text: &'de str) -> Result<OwnedValue<'de>, E> {
        if !text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
            let held = serde_json::Deserializer::from_str(text).deserialize_any(self);
            return held.map_err(|error| E::custom(json_error(&error)));
        }
        // Nearly all are written plainly.
        let other = || exact_integer(text);
        let held = if self.is_signed() {
            text.parse().ok().or_else(|| i64::try_from(other()?).ok()).map(OwnedValue::I64)
        } else {
            text.parse().ok().or_else(|| u64::try_from(other()?).ok()).map(OwnedValue::U64)
        };
        held.map_or_else(|| self.wrong(shortened(text, SHOWN)), Ok)
    }
}

/// The integer that a number of JSON is exactly, however it is written: `-0`, `1.0`, `25e-1` is
/// none. `None` also for one that has more than 20 digits.
fn exact_integer(text: &str) -> Option<i128> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (minus, mantissa) =
        mantissa.strip_prefix('-').map_or((false, mantissa), |rest| (true, rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let digits = digits.trim_start_matches('0');
    let Some(last) = digits.rfind(|digit| digit != '0') else { return Some(0) };
    // The number of zeros that follow the last other digit.
    let zeros = (digits.len() - 1 - last) as i64 - fraction.len() as i64;
    let zeros = zeros.checked_add(exponent.parse().ok()?)?;
    let zeros = usize::try_from(zeros).ok().filter(|zeros| zeros + last < 20)?;
    let number: i128 = format!("{}{}", &digits[..=last], "0".repeat(zeros)).parse().ok()?;
    Some(if minus { -number } else { number })
}

impl<'de> DeserializeSeed<'de> for ColumnSeed<'_> {
    type Value = OwnedValue<'de>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<OwnedValue<'de>, D::Error> {
        if self.0.kind.integer_range().is_some() {
            return self.integer(<&RawValue>::deserialize(from)?.get());
        }
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ColumnSeed<'_> {
    type Value = OwnedValue<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value for column `{}`, which holds {}", self.0.name, self.0.kind)
    }

    fn visit_unit<E: de::Error>(self) -> Result<OwnedValue<'de>, E> {
        if self.0.nullable {
            Ok(OwnedValue::Null)
        } else {
            Err(E::invalid_type(de::Unexpected::Unit, &self))
        }
    }

    fn visit_bool<E: de::Error>(self, truth: bool) -> Result<OwnedValue<'de>, E> {
        match self.0.kind {
            ColumnType::Bool => Ok(OwnedValue::Bool(truth)),
            _ => self.wrong(truth),
        }
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<OwnedValue<'de>, E> {
        match self.0.kind {
            ColumnType::F64 => Ok(OwnedValue::F64(number as f64)),
            _ => self.wrong(number),
        }
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<OwnedValue<'de>, E> {
        match self.0.kind {
            ColumnType::F64 => Ok(OwnedValue::F64(number as f64)),
            _ => self.wrong(number),
        }
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<OwnedValue<'de>, E> {
        match self.0.kind {
            ColumnType::F64 => Ok(OwnedValue::F64(number)),
            _ => self.wrong(number),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<OwnedValue<'de>, E> {
        self.string(Cow::Owned(text.into()))
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<OwnedValue<'de>, E> {
        self.string(Cow::Borrowed(text))
    }
}

#[cfg(test)]
mod tests {
    use engines::below::{Catalog, Schema, TableSchema};
    use proptest::prelude::*;

    use super::*;

    fn catalog() -> Catalog {
        let table = TableSchema::new("t")
            .column("a", ColumnType::U64)
            .column("b", ColumnType::I64)
            .column("c", ColumnType::F64)
            .column("d \"e\"", ColumnType::Text { max: 100 })
            .column("f", ColumnType::Bytes { max: 100 })
            .column("g", ColumnType::Bool)
            .column("h", ColumnType::Timestamp)
            .column("i", ColumnType::Uuid)
            .key(&["a"]);
        Catalog::new(&Schema::new().table(table)).unwrap()
    }

    fn read<'t>(layout: &TableLayout, text: &'t str) -> Result<Vec<OwnedValue<'t>>, String> {
        let mut from = serde_json::Deserializer::from_str(text);
        TupleSeed(layout).deserialize(&mut from).map_err(|error| error.to_string())
    }

    fn write(layout: &TableLayout, values: &[Value<'_>]) -> String {
        let mut out = b"{".to_vec();
        for (number, (column, value)) in layout.schema.columns().iter().zip(values).enumerate() {
            if number > 0 {
                out.push(b',');
            }
            put_text(&column.name, &mut out);
            out.push(b':');
            put_value(column.kind, value, &mut out);
        }
        out.push(b'}');
        String::from_utf8(out).unwrap()
    }

    fn same(left: &Value<'_>, right: &Value<'_>) -> bool {
        match (left, right) {
            (Value::F64(left), Value::F64(right)) => left.to_bits() == right.to_bits(),
            (left, right) => left == right,
        }
    }

    proptest! {
        #[test]
        fn every_value_comes_back_bit_by_bit(
            a in any::<u64>(), b in any::<i64>(), c in any::<u64>(), d in any::<String>(),
            f in prop::collection::vec(any::<u8>(), 0..20), g in any::<bool>(),
            (h, far) in (any::<i64>(), 0..30u32), i in any::<[u8; 16]>(),
        ) {
            let catalog = catalog();
            let c = f64::from_bits(c);
            let values = [
                Value::U64(a), Value::I64(b), Value::F64(c), Value::Text(&d), Value::Bytes(&f),
                Value::Bool(g), Value::I64(h >> far), Value::Bytes(&i),
            ];
            let text = write(&catalog.tables[0], &values);
            prop_assert!(!text.contains('\n'));
            let found = read(&catalog.tables[0], &text).unwrap();
            for (value, found) in values.iter().zip(&found) {
                prop_assert!(same(value, &found.value()), "{text}: {value:?}, {found:?}");
            }
        }
    }

    #[test]
    fn floats_at_their_limits_come_back() {
        let catalog = catalog();
        let nans = [0x7ff0_0000_0000_0001, 0xfff8_0000_0000_0000, u64::MAX, f64::NAN.to_bits()];
        let others = [
            0.0,
            -0.0,
            1.0,
            f64::MIN,
            f64::MAX,
            f64::MIN_POSITIVE,
            5e-324,
            f64::INFINITY,
            f64::NEG_INFINITY,
            0.1 + 0.2,
            9_007_199_254_740_993.0,
        ];
        for number in nans.map(f64::from_bits).into_iter().chain(others) {
            let values = [
                Value::U64(1),
                Value::I64(1),
                Value::F64(number),
                Value::Text(""),
                Value::Bytes(&[]),
                Value::Bool(true),
                Value::I64(0),
                Value::Bytes(&[0; 16]),
            ];
            let text = write(&catalog.tables[0], &values);
            let found = read(&catalog.tables[0], &text).unwrap();
            assert!(same(&values[2], &found[2].value()), "{text}: {found:?}");
        }
    }

    /// A tuple with one value replaced.
    fn tuple(change: (&str, &str)) -> String {
        let all = [
            ("a", "1"),
            ("b", "1"),
            ("c", "1"),
            ("d \\\"e\\\"", "\"\""),
            ("f", "\"\""),
            ("g", "true"),
            ("h", "0"),
            ("i", "\"00000000-0000-0000-0000-000000000000\""),
        ];
        let each = all.map(|(name, value)| {
            let value = if name == change.0 { change.1 } else { value };
            format!("\"{name}\": {value}")
        });
        format!("{{{}}}", each.join(", "))
    }

    #[test]
    fn an_integer_is_taken_however_it_is_written() {
        let catalog = catalog();
        let number = |column: &str, text: &str| {
            let tuple = tuple((column, text));
            match read(&catalog.tables[0], &tuple).unwrap()[usize::from(column == "b")].value() {
                Value::U64(number) => i128::from(number),
                Value::I64(number) => i128::from(number),
                other => panic!("{other:?}"),
            }
        };
        for (text, meant) in [
            ("-0", 0),
            ("0.000e-9999999999", 0),
            ("1.0", 1),
            ("1E3", 1000),
            ("1.5e+1", 15),
            ("12300e-2", 123),
            // These are none of the numbers that a float has.
            ("9007199254740993.0", 9_007_199_254_740_993),
            ("922337203685477580.70e1", i64::MAX.into()),
        ] {
            assert_eq!(number("a", text), meant, "{text}");
            assert_eq!(number("b", text), meant, "{text}");
        }
        assert_eq!(number("a", "18446744073709551615.0"), u64::MAX.into());
        assert_eq!(number("b", "-9.223372036854775808e18"), i64::MIN.into());
    }

    #[test]
    fn what_does_not_fit_a_column_is_told_with_its_name() {
        let catalog = catalog();
        let layout = &catalog.tables[0];
        assert!(read(layout, &tuple(("", ""))).is_ok());
        for (name, value, said) in [
            ("a", "-1", "column `a` holds u64, not -1"),
            ("a", "1.5", "column `a` holds u64, not 1.5"),
            ("a", "1.0000000000000000000001", "column `a` holds u64, not 1.0000000000000000000001"),
            ("a", "-1.0", "column `a` holds u64, not -1.0"),
            ("a", "9e-1", "column `a` holds u64, not 9e-1"),
            ("a", "1e20", "column `a` holds u64, not 1e20"),
            ("a", "1e99999999999999999999", "column `a` holds u64, not 1e9"),
            ("a", "01", "invalid number"),
            ("a", "+1", "expected value"),
            ("a", "18446744073709551616", "column `a` holds u64, not 18446744073709551616"),
            ("a", "\"1\"", "column `a` holds u64, not the text `1`"),
            ("a", "null", "a value for column `a`, which holds u64"),
            ("a", "1, \"a\": 2", "column `a` comes twice"),
            ("a", "1, \"z\": 2", "table `t` has no column `z`"),
            ("b", "9223372036854775808", "column `b` holds i64, not 9223372036854775808"),
            ("b", "[1]", "column `b`"),
            ("c", "\"nan\"", "column `c` holds f64, not the text `nan`"),
            ("c", "\"NaN:7ff0000000000000\"", "column `c`"),
            ("c", "\"NaN:+ff8000000000000\"", "column `c`"),
            ("c", "1e999", "number out of range"),
            ("c", "NaN", "expected value"),
            ("f", "\"a\"", "column `f` holds bytes in base64"),
            ("f", "\"QQ\"", "column `f` holds bytes in base64"),
            ("f", "\"QR==\"", "column `f` holds bytes in base64"),
            ("f", "7", "column `f`"),
            ("a", "true", "column `a` holds u64, not true"),
            ("g", "1", "column `g` holds bool, not 1"),
            ("g", "\"true\"", "column `g` holds bool, not the text `true`"),
            ("h", "1.5", "column `h` holds timestamp, not 1.5"),
            ("h", "\"2009-02-29T00:00:00Z\"", "write it as in RFC 3339, or as microseconds"),
            ("i", "\"0000\"", "column `i` holds uuid, not the text `0000`"),
            ("i", "0", "column `i` holds uuid, not 0"),
        ] {
            let error = read(layout, &tuple((name, value))).unwrap_err();
            assert!(error.contains(said), "{name}: {value}: {error}");
        }
        let error = read(layout, "{\"a\": 1}").unwrap_err();
        assert!(error.contains("column `b` is missing"), "{error}");
        assert!(read(layout, "[]").unwrap_err().contains("table `t`"));
    }
}
