//! Parts of this crate on media that record what is done to them.

mod identity;
mod last_transactions;
mod new_file;
mod receipts;
