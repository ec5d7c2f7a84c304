//! The lints: what the records of the standard scenarios show without any crash: everything that an
//! acknowledged transaction stored is flushed and fenced, nothing is flushed or synced that has not
//! changed, and no fence has nothing to order. Each exception is a place in the source, with its
//! reason.
//!
//! A place that is excused is so for all that comes there. That what counts among it is flushed
//! is shown by leaving each flush and each sync out in turn (`pool.rs`, `files.rs`).

use std::collections::BTreeMap;

use crate::common::{Explained, unexplained};
use faults::lint::{disk_lints, lints};
use faults::plot::{Plot, STANDARD};
use perdura::EngineKind;

/// The findings of a kind, with the places that explain it.
type Kind<'a> = (&'static str, &'a BTreeMap<String, u64>, &'a [Explained]);

fn report(engine: EngineKind, kinds: &[Kind<'_>]) {
    let mut wrong = Vec::new();
    for (what, found, explained) in kinds {
        println!("{engine}, {what}: {found:#?}");
        let (open, stale) = unexplained(found.keys().cloned(), explained);
        wrong.extend(open.iter().map(|place| format!("{what}, not explained: {place}")));
        wrong.extend(stale.iter().map(|text| format!("{what}, explained and not found: {text}")));
    }
    assert!(wrong.is_empty(), "{engine}: {wrong:#?}");
}

fn pool(
    engine: EngineKind,
    unflushed: &[Explained],
    flushed_twice: &[Explained],
    idle_fences: &[Explained],
) {
    let found = lints(&Plot::of_seed(engine, STANDARD).run_in_pool().trace);
    let kinds = [
        ("not flushed at an acknowledgement", &found.unflushed, unflushed),
        ("flushed twice", &found.flushed_twice, flushed_twice),
        ("a fence with nothing to order", &found.idle_fences, idle_fences),
    ];
    report(engine, &kinds);
}

fn files(engine: EngineKind, unsynced: &[Explained], idle_syncs: &[Explained]) {
    let found = disk_lints(&Plot::of_seed(engine, STANDARD).run_in_files().0.trace);
    let kinds = [
        ("not synced at an acknowledgement", &found.unsynced, unsynced),
        ("a sync of what has not changed", &found.idle_syncs, idle_syncs),
    ];
    report(engine, &kinds);
}

/// The allocator's words that nothing makes durable.
macro_rules! carved {
    ($($more:expr),* $(,)?) => {
        &[
            (
                "heap/src/lane.rs",
                "carve",
                "memory.store(self.taken_at()",
                "for the process after a kill, which sees it; after a power cut it says nothing, \
                 since what the chunk's tag says is durable then",
            ),
            (
                "heap/src/lane.rs",
                "carve",
                "memory.store(self.hint(",
                "says where to look first for free slots; what it names is checked like any chunk",
            ),
            $($more),*
        ]
    };
}

/// The same, and the lines of work that came to nothing.
macro_rules! unflushed {
    ($($more:expr),* $(,)?) => {
        carved![
            (
                "storage/src/table/change.rs",
                "write_value",
                "write_slot(lane, lines, bytes, Purpose::Table)",
                "a slot that was given back: the operation failed, or its transaction aborted",
            ),
            $($more),*
        ]
    };
}

const GIVEN_BACK: Explained = (
    "storage/src/table/change.rs",
    "write_words",
    "lane.memory().copy(Off::new(offset), bytes)",
    "a slot that was given back: the operation failed",
);

const SUPERSEDED: Explained = (
    "storage/src/logs/superseded.rs",
    "clear",
    "lane.clear_persisted(slot, &mut self.lines)",
    "by an operation that failed; the next one flushes it. Until the end of that one's \
     transaction the log's entries of the last one say that the slot is superseded",
);

const SETTLED: &str = "the removal of an index entry has just been made durable, for this operation \
                       or for one that failed then";

const UNDONE: &str = "undo serves recovery, too, which cannot know what a killed process had \
                      flushed: it flushes leaves whole, and here most of their lines are clean";

#[test]
fn nvm_inp() {
    pool(
        EngineKind::NvmInp,
        unflushed![GIVEN_BACK, SUPERSEDED],
        &[("engines/src/nvm_inp.rs", "undo", "self.tables.undo(", UNDONE)],
        &[
            ("engines/src/undo/engine.rs", "commit", "memory.fence()", SETTLED),
            ("engines/src/nvm_inp.rs", "settle", "undo.memory.fence()", SETTLED),
        ],
    );
}

#[test]
fn nvm_cow() {
    pool(
        EngineKind::NvmCow,
        unflushed![
            (
                "engines/src/nvm_cow.rs",
                "settle_batch",
                "self.batch.change_bits(",
                "bits of what the batch has superseded, as of what it has made",
            ),
            (
                "storage/src/shadow/batch.rs",
                "change_bits",
                "lane.mark_persisted(*object, lines)",
                "bits of a batch's objects are flushed with the next batch: until its master \
                 record moves, the durable one's list has them, and opening does it once more",
            ),
            (
                "engines/src/nvm_cow.rs",
                "insert",
                "copies.write(",
                "tuples of transactions that aborted",
            ),
            (
                "engines/src/nvm_cow.rs",
                "update",
                "copies.copy(",
                "tuples of transactions that aborted",
            ),
            (
                "index/src/cow/store.rs",
                "write",
                "self.backend.write(page, image)",
                "pages that are free: made by transactions that aborted, or made and copied once \
                 more in one transaction",
            ),
            ("index/src/cow/store.rs", "patch", "self.backend.patch(page, at, bytes)", "the same",),
            (
                "index/src/pages/pool.rs",
                "extend",
                "lane.mini_commit(",
                "the end of a mini-transaction, whose words are durable. Its record may be \
                 applied again, since its words change by mini-transactions only",
            ),
        ],
        &[(
            "engines/src/nvm_cow.rs",
            "write_batch",
            "self.copies.lines.flush(",
            "a line that two slots share; for such a line a set looks back at its last eight",
        )],
        &[],
    );
}

#[test]
fn nvm_log() {
    pool(
        EngineKind::NvmLog,
        unflushed![GIVEN_BACK, SUPERSEDED],
        &[("engines/src/nvm_log.rs", "undo", "self.runs.undo(", UNDONE)],
        &[],
    );
}

const SEAL: Explained = (
    "storage/src/logs/wal.rs",
    "rotate",
    "write_at(self.tail.written, &seal)",
    "the seal lets recovery notice that the segment after it is missing, which no crash causes: \
     that one was durable before",
);

const SEGMENT_REMOVED: Explained = (
    "storage/src/logs/wal.rs",
    "remove_before",
    "self.files.remove(&name)",
    "what a crash brings back is older than what recovery reads, which removes it again",
);

const CLOSED: Explained = (
    "sim/src/files/recording.rs",
    "sync_all",
    "sync()?",
    "closing syncs every file before the pool says that it was closed",
);

const ROOM_OF_LOG: Explained = (
    "storage/src/logs/wal.rs",
    "reserve",
    "self.tail.file.reserve(",
    "room for records: the first of them is synced with it, and the transaction that asked has aborted",
);

#[test]
fn inp() {
    files(
        EngineKind::Inp,
        &[
            (
                "storage/src/logs/checkpoint.rs",
                "create",
                "files.create(&temporary)",
                "a checkpoint that is being written, which nothing needs before it is finished",
            ),
            (
                "storage/src/logs/checkpoint.rs",
                "flush",
                "self.file.write_at(self.at, &self.buffer)",
                "the same; finishing syncs it before it gets its name",
            ),
            (
                "storage/src/logs/checkpoint.rs",
                "finish",
                "self.files.remove(&older)",
                "what a crash brings back is older than the newest, which alone is read; the next \
                 one removes it",
            ),
            SEAL,
            SEGMENT_REMOVED,
            ROOM_OF_LOG,
        ],
        &[CLOSED],
    );
}

#[test]
fn cow() {
    files(
        EngineKind::Cow,
        &[
            (
                "index/src/pages/file.rs",
                "reserve",
                "self.file().reserve(",
                "room for the next batches: nothing leads there before one of them has been synced",
            ),
            (
                "index/src/pages/file.rs",
                "clean",
                "self.source.0.write_out(",
                "pages of a transaction that aborted, which were written early: nothing leads there, \
                 and the transaction after it has changed nothing",
            ),
        ],
        &[
            CLOSED,
            (
                "sim/src/files/recording.rs",
                "sync_all",
                "self.sync_directory()",
                "closing syncs the directory, in which nothing has changed since creation",
            ),
        ],
    );
}

#[test]
fn log() {
    files(
        EngineKind::Log,
        &[
            (
                "lsm/sstable/writer.rs",
                "create",
                "files.create(&name)",
                "a run that is being written, which nothing needs before the manifest names it",
            ),
            (
                "lsm/sstable/writer.rs",
                "spill",
                "self.file.write_at(self.written, &self.buffer)",
                "the same; finishing syncs it, and the directory, before the manifest names it",
            ),
            (
                "lsm/work.rs",
                "install",
                "self.files.remove(&name)",
                "a merged run: what a crash brings back the manifest does not name, and opening \
                 removes it",
            ),
            (
                "storage/src/logs/wal.rs",
                "create_segment",
                "files.create(&name)",
                "the next segment, for which there was no room, nor could it be removed: calls \
                 fail here by intent. It says nothing, and the log does not go on in it",
            ),
            SEAL,
            SEGMENT_REMOVED,
            ROOM_OF_LOG,
        ],
        &[
            CLOSED,
            (
                "lsm/work.rs",
                "install",
                "self.files.sync_directory()",
                "the log's next segment, begun while the run was written, has synced it already",
            ),
        ],
    );
}

#[test]
fn nv_disk() {
    files(
        EngineKind::NvDisk,
        &[
            (
                "paged/src/log/central/space.rs",
                "trim",
                "self.segments[file].cut(",
                "room of a file that has no partition: the head that says so is durable",
            ),
            (
                "paged/src/space.rs",
                "reserve",
                ".reserve(pages * self.page_bytes()",
                "room for pages: those that are written there are synced with it, and the log has the others",
            ),
        ],
        &[
            CLOSED,
            (
                "sim/src/files/recording.rs",
                "sync_all",
                "self.sync_directory()",
                "closing syncs the directory, in which nothing has changed since creation",
            ),
        ],
    );
}

const EMPTIED: Explained = (
    "slotted/src/scheme/mod.rs",
    "log_headers",
    "log.checkpoint(marked, &frames",
    "the next commit flushes it before its first fence; a mark that is there still has frames that \
     change nothing",
);

const ABORTED: &str = "records of transactions that aborted, or of operations that failed: they lie \
                       in free space";

/// A log of slotted pages has grown, or was given back.
const GROWN: Explained = (
    "heap/src/persisted.rs",
    "end_mini",
    "flush_word",
    "a log that has grown gives its old chunk back: another thread may take it, and its fence \
     does not cover the end of the mini-transaction",
);

const OPENED: &str = "opening flushes what a killed process may have stored, and creation opens what \
                      it has made";

#[test]
fn fast() {
    pool(
        EngineKind::Fast,
        carved![
            EMPTIED,
            ("slotted/src/split.rs", "place", "self.write(page, at, record)", ABORTED),
            ("slotted/src/store.rs", "make_page", "self.write(page, at, record)", ABORTED),
            ("slotted/src/merge.rs", "take_in", "self.write(into, at, record)", ABORTED),
            ("slotted/src/overflow.rs", "write_overflow", "self.write(page, WORD", ABORTED),
            (
                "slotted/src/scheme/fast.rs",
                "commit_in_place",
                "memory.store(self.in_place",
                "for the process after a kill, which sees it",
            ),
        ],
        &[("slotted/src/scheme/mod.rs", "log_headers", "log.append(", OPENED)],
        &[],
    );
}

#[test]
fn fash() {
    pool(
        EngineKind::Fash,
        carved![
            EMPTIED,
            ("slotted/src/split.rs", "place", "self.write(page, at, record)", ABORTED),
            ("slotted/src/store.rs", "make_page", "self.write(page, at, record)", ABORTED),
            ("slotted/src/overflow.rs", "write_overflow", "self.write(page, WORD", ABORTED),
        ],
        &[("slotted/src/scheme/mod.rs", "log_headers", "log.append(", OPENED)],
        &[],
    );
}

#[test]
fn nvwal() {
    let opened = ("slotted/src/blocks.rs", "open", "lines.flush(&log.memory)", OPENED);
    pool(EngineKind::Nvwal, carved![], &[opened], &[]);
}

#[test]
fn journal() {
    let twice = [("slotted/src/scheme/journal.rs", "open", "log.settle_now()", OPENED), GROWN];
    pool(EngineKind::Journal, carved![], &twice, &[]);
}

#[test]
fn sofort() {
    const FOUND: &str = "the values of dictionaries that the process before has made, which the first to \
                         find one flushes; and stamps of a transaction with many statements, which come \
                         to a line again after eight others";
    pool(
        EngineKind::Sofort,
        carved![(
            "column/src/session.rs",
            "commit",
            "self.finish_commit(",
            "the stamps of versions: they go with the session's next fence, and recovery stamps again",
        )],
        &[
            ("column/src/recover.rs", "run", "lines.flush(&shared.memory)", OPENED),
            ("column/src/statement.rs", "insert", "self.statement(", FOUND),
            ("column/src/statement.rs", "update", "self.statement(", FOUND),
            ("column/src/statement.rs", "delete", "self.statement(", FOUND),
        ],
        &[],
    );
}

#[test]
fn wal() {
    let opened = ("slotted/src/blocks.rs", "open", "lines.flush(&log.memory)", OPENED);
    pool(EngineKind::Wal, carved![], &[opened, GROWN], &[]);
}
