//! Tables and rows, apart from where they lie: the schema that a user declares, what follows from
//! it, values, NULL, keys as bytes, rows as bytes, and all of that as people write it.
//!
//! | what | file |
//! |---|---|
//! | the declaration, its limits, what follows from it | `schema.rs`, `catalog.rs`; `limits.rs` of this crate |
//! | values going in, rows coming out | `value.rs`, `owned.rs`, `row.rs`, `names.rs`, `getters.rs` |
//! | what is refused | `fits.rs`, `check.rs` |
//! | NULL and defaults | `null_words.rs`, `nulls.rs`, `constant.rs` |
//! | keys in memcomparable encoding, and as byte strings for trees | `key.rs`, `tree_key.rs` |
//! | a stored row, whatever its form | `stored.rs` |
//! | rows with all fields in one string of bytes: a word a column, or as few bytes as can be | `inline.rs`, `packed.rs` |
//! | what people read and write | `text.rs`, `by_hand.rs`, `difference.rs`, `description.rs` |
//!
//! Knows nothing of memories and files, of slots, logs and indexes.

pub(crate) mod by_hand;
pub(crate) mod catalog;
pub(crate) mod check;
pub(crate) mod constant;
pub(crate) mod description;
pub(crate) mod difference;
pub(crate) mod fits;
pub(crate) mod getters;
pub(crate) mod inline;
pub(crate) mod key;
pub(crate) mod names;
pub(crate) mod null_words;
pub(crate) mod nulls;
pub(crate) mod owned;
pub(crate) mod packed;
pub(crate) mod row;
pub(crate) mod schema;
pub(crate) mod stored;
pub mod text;
pub(crate) mod tree_key;
pub(crate) mod value;
