//! The store as a whole: against a model, with kills, with power cuts, with many threads.

mod crash;
mod failed_call;
mod failed_sync;
mod model;
mod room;
mod support;
mod threads;
mod undone;
