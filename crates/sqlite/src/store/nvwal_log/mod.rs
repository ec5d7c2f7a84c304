//! NVWAL's log: the format of its frames, its blocks in the side file, and its content in ordinary memory.
//!
//! Only commits in the laboratory's mode `nvwal` write to it. A connection in any other mode finds it empty, or
//! applies and empties it before it commits (`store::adr::nvwal`).

mod blocks;
pub(super) mod cache;
pub(super) mod frame_log;
