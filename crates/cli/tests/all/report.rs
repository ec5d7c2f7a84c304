//! Reports of the benchmarks, as programs read them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::common::Ran;

/// The keys of an object.
pub(crate) fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// The runs that a report has, of a command that has ended well.
pub(crate) fn runs(ran: &Ran) -> Vec<Value> {
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report: Value = serde_json::from_str(&ran.out).expect("JSON");
    report["runs"].as_array().expect("a list").clone()
}
