//! The store as a whole: against a model, with kills, with power cuts, with many threads.

mod abort;
mod archive;
mod archive_kills;
mod background;
mod bounded;
mod cold;
mod crash;
mod damaged_log;
mod failed_call;
mod failed_sync;
mod full_ring;
mod history;
mod lost_end;
mod lost_memory;
mod model;
mod moments;
pub(crate) mod nv_power;
mod queue;
mod rest;
mod restart;
mod room;
mod seen;
mod starving;
mod stress;
mod support;
mod threads;
mod undone;
