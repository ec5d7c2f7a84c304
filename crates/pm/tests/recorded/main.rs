//! Parts of this crate on media that record what is done to them.

mod ends;
mod identity;
mod new_file;
mod receipts;
