//! `#[derive(Table)]`, which declares a table by the struct of its rows.
//!
//! The macro writes an `impl` of `perdura::TableRow` as one would by hand, and nothing else:
//! `perdura` documents typed rows. `declared.rs` reads the attributes, `generated.rs` writes the
//! `impl`. Properties that only the types of the fields have are checked by constants, which are
//! evaluated where the struct is compiled.

#![forbid(unsafe_code)]

mod declared;
mod generated;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Declares a table by the struct of its rows: implements `perdura::TableRow`, which has an
/// example.
///
/// Each field is a column of the field's name, in order; its type is a `perdura::Field`. Attributes
/// say the rest. Of a field:
///
/// | `#[table(..)]` | meaning |
/// |---|---|
/// | `key` | the field belongs to the primary key, in the order of the fields |
/// | `max = 80` | the longest text, or bytes, in bytes |
/// | `index = "by_owner"` | an index of this column |
/// | `unique = "by_mail"` | an index of this column in which no two tuples have the same value |
/// | `default = 0` | the value that the column gets where an insert does not name it |
/// | `name = "type"` | the column's name |
///
/// Of the struct:
///
/// | `#[table(..)]` | meaning |
/// |---|---|
/// | `name = "job"` | the table's name; without it, the struct's in snake case |
/// | `key(region, id)` | the primary key, in this order |
/// | `index("by_due", state, due)` | an index of these fields, in this order |
/// | `unique("by_mail", realm, mail)` | the same, unique |
/// | `inline` | text and bytes lie within the tuple: `perdura::TableSchema::inline_columns` |
///
/// Indexes of fields come first, in the order of the fields, then those of the struct.
#[proc_macro_derive(Table, attributes(table))]
pub fn derive_table(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    match declared::Declared::read(&input) {
        Ok(declared) => generated::implementation(&declared).into(),
        Err(error) => error.into_compile_error().into(),
    }
}
