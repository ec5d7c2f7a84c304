//! JSON lines: a database as text, for people and for other programs.
//!
//! ```text
//! {"perdura_dump":1,"perdura":"0.1.0","engine":"nvm-inp","partitions":1,"node_bytes":512,"schema":{"tables":[..]}}
//! {"table":"account","tuple":{"id":1,"owner":"Ada","balance":100}}
//! {"table":"account","tuple":{"id":2,"owner":"Grace","balance":50}}
//! {"end":{"tuples":2}}
//! ```
//!
//! - Each line is a JSON object. The first one describes the database. The last one holds the
//!   number of tuples before it, so that a dump that was cut off is not taken for a whole one.
//!   Lines from another program may lack both; then missing tuples are not noticed.
//! - A tuple has every column of its table, by name, in any order. With several partitions its line
//!   has `"partition":p`, too.
//! - Every value comes back bit by bit:
//!
//! | column | value |
//! |---|---|
//! | integers | a number without fraction or exponent, all 64 bits of it; read is any number that is exactly one, such as `1.0` |
//! | `f64` | a number, the shortest that reads as the same; `"NaN"`, `"Infinity"`, `"-Infinity"`; any other NaN is `"NaN:"` and its 64 bits in hexadecimal |
//! | text | a string |
//! | bytes | a string in base64 (RFC 4648, section 4, with padding) |
//!
//! Read are also a byte order mark before the first line, the line ends of Windows, and blank
//! lines. A field, table or column that does not exist is refused, with the one that was probably
//! meant.
//!
//! Invariants:
//! - What is dumped was committed at one moment, as for a backup.
//! - A batch of lines is loaded as one transaction: all of it, or nothing. A database that is
//!   created for the lines holds all of them, or is not there.

mod dump;
mod load;
mod text;

use serde::{Deserialize, Serialize};

use engines::below::Schema;

pub use load::{Existing, LoadOptions};

const FORMAT: u32 = 1;
/// The bytes that a dump begins with.
const HEAD_BEGINS: &[u8] = b"{\"perdura_dump\"";

/// The first line.
#[derive(Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Head {
    perdura_dump: u32,
    perdura: String,
    engine: String,
    partitions: u32,
    node_bytes: u32,
    schema: Schema,
}

/// The last line.
#[derive(Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct End {
    tuples: u64,
}
