//! The phases of an operation, as P3's figures divide it (P3 5, Figures 6 to 8). They are reported
//! only to an observer that measures them ([`Memory::phase`](pm::Memory::phase)).
//!
//! | P3 | phase |
//! |---|---|
//! | Search | [`SEARCH`] |
//! | Page Update: in-place record insert, or volatile buffer caching | [`INSERT`] |
//! | Page Update: defragmentation | [`DEFRAGMENTATION`] |
//! | Page Update: update slot header | [`SLOT_HEADER`] |
//! | Page Update: *clflush(record)* | [`RECORD_FLUSH`] |
//! | Commit: NVWAL computation | [`COMPUTATION`] |
//! | Commit: heap management | [`HEAP`] |
//! | Commit: log flush | [`LOG_FLUSH`] |
//! | Commit: checkpoint, which a header that is stored in place is one of | [`CHECKPOINT`] |
//! | Commit: misc | [`MISC`] |

use pm::Step;

/// Finding the leaf of a key, and its record there.
pub const SEARCH: Step = Step("search");
/// Putting a record into its page, with all that a split of the page takes; or taking one out.
pub const INSERT: Step = Step("insert");
/// Copying a page to a fresh one.
pub const DEFRAGMENTATION: Step = Step("defragmentation");
/// Making new headers, and copying them to the log or to cached pages.
pub const SLOT_HEADER: Step = Step("slot_header");
/// Flushing records and fresh pages.
pub const RECORD_FLUSH: Step = Step("record_flush");
/// Finding out which bytes of pages differ, and making frames of them.
pub const COMPUTATION: Step = Step("computation");
/// Taking room for the log from the heap.
pub const HEAP: Step = Step("heap");
/// Flushing frames and the mark that commits them, with the fences.
pub const LOG_FLUSH: Step = Step("log_flush");
/// Storing what is committed where it belongs, durably.
pub const CHECKPOINT: Step = Step("checkpoint");
/// Whatever else a commit does.
pub const MISC: Step = Step("misc");

/// All phases, in the order of the table.
pub const ALL: [Step; 10] = [
    SEARCH,
    INSERT,
    DEFRAGMENTATION,
    SLOT_HEADER,
    RECORD_FLUSH,
    COMPUTATION,
    HEAP,
    LOG_FLUSH,
    CHECKPOINT,
    MISC,
];
