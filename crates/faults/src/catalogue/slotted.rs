//! Faults of the engines on slotted pages.

faults! {
    Fast "fast/record-not-flushed":
        "a commit in place does not flush its record",
        NoFlush at "slotted/src/scheme/fast.rs", "commit_in_place", "let records = Flushed::lines";
    Fast "fast/header-before-record":
        "a commit in place has no fence between record and header",
        NoFence at "slotted/src/scheme/fast.rs", "commit_in_place", "fence_for(&memory, records)";
    Fast "fast/header-forged-receipt":
        "a header counts before its record is durable",
        StoreBeforeFence at "slotted/src/scheme/fast.rs", "commit_in_place",
            "store_header(&memory, start";
    Fast "fast/header-not-flushed":
        "a commit in place does not flush its header",
        NoFlush at "slotted/src/scheme/fast.rs", "commit_in_place",
            "let committed = Flushed::lines";
    Fast "fast/header-not-fenced":
        "a commit in place returns without its second fence",
        NoFence at "slotted/src/scheme/fast.rs", "commit_in_place", "fence_for(&memory, committed)";
    Fast "fast/header-not-stored":
        "the word that makes a header count is forgotten",
        NoStore at "slotted/src/scheme/fast.rs", "commit_in_place", "store_header(&memory, start";
    Fast "fast/commit-acknowledged-early":
        "COMMIT returns before its last fence",
        EarlyAcknowledgement;
    Fash "fash/frames-not-flushed":
        "a commit does not flush records and frames",
        NoFlush at "slotted/src/scheme/mod.rs", "log_headers", "log.append(";
    Fash "fash/frames-first-line":
        "a commit does not flush the first of its lines",
        NoFirstLine at "slotted/src/scheme/mod.rs", "log_headers", "log.append(";
    Fash "fash/mark-before-frames":
        "a commit has no fence between frames and mark",
        NoFence at "slotted/src/scheme/mod.rs", "log_headers", "fence_for(&memory, written)";
    Fash "fash/mark-not-flushed":
        "a commit does not flush its mark",
        NoFlush at "slotted/src/scheme/mod.rs", "log_headers", "log.commit(";
    Fash "fash/mark-not-fenced":
        "headers are stored before the mark is durable",
        NoFence at "slotted/src/scheme/mod.rs", "log_headers", "fence_for(&memory, marked)";
    Fash "fash/checkpoint-not-flushed":
        "a checkpoint does not flush the headers",
        NoFlush at "slotted/src/scheme/mod.rs", "log_headers", "log.checkpoint(";
    Fash "fash/log-emptied-early":
        "the log is emptied before the headers are durable",
        NoFence at "slotted/src/scheme/mod.rs", "log_headers", "log.checkpoint(";
    Fash "fash/commit-acknowledged-early":
        "COMMIT returns before its last fence",
        EarlyAcknowledgement;
    Nvwal "nvwal/frames-not-flushed":
        "a commit does not flush its frames",
        NoFlush at "slotted/src/blocks.rs", "commit", "let written = Flushed::lines";
    Nvwal "nvwal/tail-before-frames":
        "a commit has no fence between frames and tail",
        NoFence at "slotted/src/blocks.rs", "commit", "fence_for(&self.memory, written)";
    Nvwal "nvwal/tail-not-flushed":
        "a commit does not flush the tail",
        NoFlush at "slotted/src/blocks.rs", "set_tail", "let stored = Flushed::lines";
    Nvwal "nvwal/tail-not-fenced":
        "a commit returns before the tail is durable",
        NoFence at "slotted/src/blocks.rs", "set_tail", "fence_for(&self.memory, stored)";
    Nvwal "nvwal/checkpoint-not-flushed":
        "a checkpoint does not flush the pages",
        NoFlush at "slotted/src/blocks.rs", "checkpoint", "let stored = Flushed::lines";
    Nvwal "nvwal/log-emptied-early":
        "the log is emptied before the pages are durable",
        NoFence at "slotted/src/blocks.rs", "checkpoint", "fence_for(&self.memory, stored)";
    Nvwal "nvwal/commit-acknowledged-early":
        "COMMIT returns before its last fence",
        EarlyAcknowledgement;
    Journal "journal/journal-not-flushed":
        "a commit does not flush the journal",
        NoFlush at "slotted/src/scheme/journal.rs", "commit", "log.append_marked(";
    Journal "journal/journal-not-fenced":
        "pages are overwritten before the journal is durable",
        NoFence at "slotted/src/scheme/journal.rs", "commit", "fence_for(&memory, hot)";
    Journal "journal/pages-not-flushed":
        "a commit does not flush the pages that it overwrites",
        NoFlush at "slotted/src/scheme/journal.rs", "commit", "let home = Flushed::lines";
    Journal "journal/journal-removed-early":
        "the journal is emptied before the pages are durable",
        NoFence at "slotted/src/scheme/journal.rs", "commit", "fence_for(&memory, home)";
    Journal "journal/zero-not-stored":
        "the journal is not emptied",
        NoStore at "slotted/src/scheme/journal.rs", "commit", "log.remove(";
    Journal "journal/zero-not-flushed":
        "a commit does not flush the empty mark",
        NoFlush at "slotted/src/scheme/journal.rs", "commit", "log.remove(";
    Journal "journal/commit-acknowledged-early":
        "COMMIT returns before its last fence",
        EarlyAcknowledgement;
    Wal "wal/frames-not-flushed":
        "a commit does not flush its frames",
        NoFlush at "slotted/src/blocks.rs", "commit", "let written = Flushed::lines";
    Wal "wal/tail-before-frames":
        "a commit has no fence between frames and tail",
        NoFence at "slotted/src/blocks.rs", "commit", "fence_for(&self.memory, written)";
    Wal "wal/tail-not-flushed":
        "a commit does not flush the tail",
        NoFlush at "slotted/src/blocks.rs", "set_tail", "let stored = Flushed::lines";
    Wal "wal/tail-not-fenced":
        "a commit returns before the tail is durable",
        NoFence at "slotted/src/blocks.rs", "set_tail", "fence_for(&self.memory, stored)";
    Wal "wal/checkpoint-not-flushed":
        "a checkpoint does not flush the pages",
        NoFlush at "slotted/src/blocks.rs", "checkpoint", "let stored = Flushed::lines";
    Wal "wal/log-emptied-early":
        "the log is emptied before the pages are durable",
        NoFence at "slotted/src/blocks.rs", "checkpoint", "fence_for(&self.memory, stored)";
    Wal "wal/commit-acknowledged-early":
        "COMMIT returns before its last fence",
        EarlyAcknowledgement;
}
