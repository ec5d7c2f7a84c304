//! Faults of the engines of P1, and of the heap, the index and the storage under them.

faults! {
    NvmInp "nvm-inp/insert-without-flush":
        "INSERT fences without having flushed tuple and log entry",
        NoFlush at "engines/src/nvm_inp.rs", "insert", "Flushed::lines";
    NvmInp "nvm-inp/insert-without-fence":
        "INSERT publishes before tuple and log entry are durable",
        NoFence at "engines/src/nvm_inp.rs", "insert", "fence_for";
    NvmInp "nvm-inp/insert-start-of-line":
        "INSERT does not round the start of what it flushes down to its line",
        NoFirstLine at "engines/src/nvm_inp.rs", "insert", "Flushed::lines";
    NvmInp "nvm-inp/insert-end-of-line":
        "INSERT does not round the end of what it flushes up to its line",
        NoLastLine at "engines/src/nvm_inp.rs", "insert", "Flushed::lines";
    NvmInp "nvm-inp/insert-forged-receipt":
        "INSERT makes its index entries count before the fence",
        StoreBeforeFence at "engines/src/nvm_inp.rs", "insert", "publish_tuple";
    NvmInp "nvm-inp/insert-not-marked":
        "INSERT forgets to mark its slots as persisted",
        NoStore at "engines/src/nvm_inp.rs", "insert", "mark_tuple";
    NvmInp "nvm-inp/insert-not-logged":
        "INSERT writes no entry to the log",
        NoCopy at "engines/src/nvm_inp.rs", "insert", "log.append";
    NvmInp "nvm-inp/update-without-flush":
        "UPDATE fences without having flushed fields and log entry",
        NoFlush at "engines/src/nvm_inp.rs", "update", "Flushed::lines";
    NvmInp "nvm-inp/update-without-fence":
        "UPDATE changes the tuple before its log entry is durable",
        NoFence at "engines/src/nvm_inp.rs", "update", "fence_for";
    NvmInp "nvm-inp/statement-without-flush":
        "a statement is acknowledged without its entry and fields having been flushed",
        NoFlush at "engines/src/nvm_inp.rs", "statement", "Flushed::lines";
    NvmInp "nvm-inp/statement-without-fence":
        "a statement changes the tuple before its log entry is durable",
        NoFence at "engines/src/nvm_inp.rs", "statement", "fence_for";
    NvmInp "nvm-inp/statement-leaves-the-last-one":
        "a statement does not flush what the one before it has changed in place",
        NoFlush at "engines/src/nvm_inp.rs", "statement", "superseded.lines.flush";
    NvmInp "nvm-inp/statement-forged-receipt":
        "a statement changes the tuple before the fence",
        StoreBeforeFence at "engines/src/nvm_inp.rs", "statement", "replace_fields";
    NvmInp "nvm-inp/statement-not-logged":
        "a statement writes no entry to the log",
        NoCopy at "engines/src/nvm_inp.rs", "statement", "log.append_statement";
    NvmInp "nvm-inp/update-flush-behind-fence":
        "UPDATE flushes fields and log entry after the fence",
        FlushAfterFence at "engines/src/nvm_inp.rs", "update", "Flushed::lines";
    NvmInp "nvm-inp/update-fence-of-another-thread":
        "UPDATE relies on a fence of another thread",
        FenceOfAnotherThread at "engines/src/nvm_inp.rs", "update", "fence_for";
    NvmInp "nvm-inp/update-before-fence":
        "UPDATE stores the new words into the tuple before the fence",
        StoreBeforeFence at "engines/src/nvm_inp.rs", "update", "replace_fields";
    NvmInp "nvm-inp/update-value-not-written":
        "UPDATE publishes a value that it has not written",
        NoCopy at "storage/src/table/change.rs", "write_value", "write_slot";
    NvmInp "nvm-inp/update-image-not-written":
        "UPDATE overwrites an inlined column without having copied what was there",
        NoCopy at "storage/src/table/image.rs", "write_image", "write_slot";
    NvmInp "nvm-inp/update-changes-not-flushed":
        "UPDATE leaves the changed tuple unflushed at commit",
        NoFlush at "engines/src/nvm_inp.rs", "update", "self.tables.lines.flush";
    NvmInp "nvm-inp/delete-without-fence":
        "DELETE takes index entries away before its log entry is durable",
        NoFence at "engines/src/nvm_inp.rs", "delete", "memory.fence";
    NvmInp "nvm-inp/delete-not-logged":
        "DELETE writes no entry to the log",
        NoCopy at "engines/src/nvm_inp.rs", "delete", "log.append";
    NvmInp "nvm-inp/commit-without-fences":
        "COMMIT does not fence",
        NoFence at "engines/src/undo/engine.rs", "commit", "memory.fence";
    NvmInp "nvm-inp/commit-not-flushed":
        "COMMIT does not flush the state word",
        NoFlush at "engines/src/undo/engine.rs", "commit", "log.commit";
    NvmInp "nvm-inp/chunk-tag-torn":
        "the tag of a fresh chunk is stored in two parts",
        TornStore at "heap/src/lane.rs", "carve", "tag.encode";
    NvmInp "nvm-inp/commit-state-early":
        "COMMIT stores the state word before the changes are durable",
        StoreBeforeFence at "engines/src/undo/engine.rs", "commit", "log.commit";
    NvmInp "nvm-inp/commit-acknowledged-early":
        "COMMIT returns before its last fence",
        EarlyAcknowledgement;
    NvmInp "nvm-inp/abort-not-retracted":
        "ABORT does not take entries out of the log that it has undone",
        NoStore at "engines/src/nvm_inp.rs", "undo", "log.retract(";
    NvmInp "nvm-inp/abort-not-flushed":
        "ABORT does not flush what it has undone",
        NoFlush at "engines/src/nvm_inp.rs", "undo", "tables.undo";
    NvmInp "nvm-inp/slot-not-cleared":
        "a superseded slot stays marked as persisted",
        NoStore at "storage/src/logs/superseded.rs", "clear", "clear_persisted";
    NvmInp "nvm-inp/chunk-tag-not-flushed":
        "the tag of a fresh chunk is not flushed",
        NoFlush at "heap/src/lane.rs", "carve", "flush_word(at)";
    NvmInp "nvm-inp/chunk-tag-not-stored":
        "a fresh chunk gets no tag",
        NoStore at "heap/src/lane.rs", "carve", "tag.encode";
    NvmInp "nvm-inp/growth-not-flushed":
        "the header is not flushed when the pool grows",
        NoFlush at "pm/src/header.rs", "write", "copy_range";
    NvmInp "nvm-inp/growth-not-fenced":
        "the header is not fenced when the pool grows",
        NoFence at "pm/src/header.rs", "write", "fence";
    NvmInp "nvm-inp/split-leaf-not-written":
        "a split publishes a leaf that it has not written",
        NoCopy at "index/src/split.rs", "write_leaf", "copy";
    NvmCow "nvm-cow/copies-not-flushed":
        "a batch does not flush its tuple copies",
        NoFlush at "engines/src/nvm_cow.rs", "write_batch", "copies.lines.flush";
    NvmCow "nvm-cow/pages-not-flushed":
        "a batch does not flush the pages of its dirty directory",
        NoFlush at "engines/src/nvm_cow.rs", "write_batch", "write_back";
    NvmCow "nvm-cow/pages-end-of-line":
        "a batch does not round the end of what it flushes of a page up to its line",
        NoLastLine at "engines/src/nvm_cow.rs", "write_batch", "write_back";
    NvmCow "nvm-cow/bits-not-flushed":
        "persisted bits of the last batch are not flushed",
        NoFlush at "engines/src/nvm_cow.rs", "write_batch", "batch.lines.flush";
    NvmCow "nvm-cow/batch-not-fenced":
        "a batch has no fence",
        NoFence at "engines/src/nvm_cow.rs", "write_batch", "memory.fence";
    NvmCow "nvm-cow/list-not-flushed":
        "the list of new and superseded objects is not flushed",
        NoFlush at "storage/src/shadow/pool_master.rs", "write", "part.len";
    NvmCow "nvm-cow/directory-not-flushed":
        "the directory in the master record is not flushed",
        NoFlush at "storage/src/shadow/pool_master.rs", "write", "Range::new(at";
    NvmCow "nvm-cow/directory-not-written":
        "the master record leads to a directory that is not written",
        NoCopy at "storage/src/shadow/pool_master.rs", "write", "image[..bytes]";
    NvmCow "nvm-cow/master-not-flushed":
        "the master record is not flushed",
        NoFlush at "storage/src/shadow/pool_master.rs", "publish", "flush_word";
    NvmCow "nvm-cow/master-early":
        "the master record is moved before the dirty directory is durable",
        StoreBeforeFence at "storage/src/shadow/pool_master.rs", "publish", "store";
    NvmCow "nvm-cow/bit-not-set":
        "the persisted bit of a new object is not set",
        NoStore at "storage/src/shadow/batch.rs", "change_bits", "mark_persisted";
    NvmCow "nvm-cow/bit-not-cleared":
        "the persisted bit of a superseded object is not cleared",
        NoStore at "engines/src/nvm_cow.rs", "settle_batch", "batch.change_bits";
    NvmCow "nvm-cow/extent-not-flushed":
        "the pool of pages grows by an extent whose header is not flushed",
        NoFlush at "index/src/pages/pool.rs", "extend", "mini_commit";
    NvmCow "nvm-cow/page-not-written":
        "a page of the dirty directory is not written",
        NoCopy at "index/src/cow/store.rs", "write", "backend.write";
    NvmCow "nvm-cow/page-patched-in-part":
        "changes of a page in the cache of the batch are left out",
        NoCopy at "index/src/cow/store.rs", "patch", "backend.patch";
    NvmCow "nvm-cow/acknowledged-early":
        "a commit returns before its last fence",
        EarlyAcknowledgement;
    NvmLog "nvm-log/entry-not-flushed":
        "an entry of the MemTable and its log entry are not flushed",
        NoFlush at "engines/src/nvm_log.rs", "record", "Flushed::lines";
    NvmLog "nvm-log/entry-not-fenced":
        "an entry of the MemTable counts before its log entry is durable",
        NoFence at "engines/src/nvm_log.rs", "record", "fence_for";
    NvmLog "nvm-log/entry-not-logged":
        "an entry of the MemTable is not logged",
        NoCopy at "engines/src/nvm_log.rs", "record", "log.append";
    NvmLog "nvm-log/fields-not-flushed":
        "new fields and their log entry are not flushed",
        NoFlush at "engines/src/nvm_log.rs", "record_fields", "Flushed::lines";
    NvmLog "nvm-log/fields-before-fence":
        "new words are stored into an entry before the fence",
        StoreBeforeFence at "engines/src/nvm_log.rs", "try_update", "replace_fields";
    NvmLog "nvm-log/tombstone-before-fence":
        "a tombstone counts before its log entry is durable",
        StoreBeforeFence at "engines/src/nvm_log.rs", "try_delete", "publish";
    NvmLog "nvm-log/commit-not-flushed":
        "COMMIT does not flush the state word",
        NoFlush at "engines/src/undo/engine.rs", "commit", "log.commit";
    NvmLog "nvm-log/commit-state-early":
        "COMMIT stores the state word before the changes are durable",
        StoreBeforeFence at "engines/src/undo/engine.rs", "commit", "log.commit";
    NvmLog "nvm-log/commit-acknowledged-early":
        "COMMIT returns before its last fence",
        EarlyAcknowledgement;
    NvmLog "nvm-log/abort-not-flushed":
        "ABORT does not flush what it has undone",
        NoFlush at "engines/src/nvm_log.rs", "undo", "runs.undo";
    NvmLog "nvm-log/freeze-not-flushed":
        "freezing does not flush its mini-transaction",
        NoFlush at "storage/src/runs/freeze.rs", "freeze", "mini_commit";
    NvmLog "nvm-log/freeze-not-fenced":
        "freezing does not fence its mini-transaction",
        NoFence at "storage/src/runs/freeze.rs", "freeze", "mini_commit";
    NvmLog "nvm-log/freeze-unsettled":
        "freezing does not flush the bits of what the last transaction superseded",
        NoFlush at "engines/src/nvm_log/room.rs", "put_off_work", "superseded.clear_all";
    NvmLog "nvm-log/new-run-not-written":
        "the descriptor of a new run is not written",
        NoCopy at "storage/src/runs/mod.rs", "write_run", "copy";
    NvmLog "nvm-log/merged-leaf-not-flushed":
        "a leaf of a merged run is not flushed",
        NoFlush at "storage/src/runs/merge.rs", "merge_leaf", "append_leaf";
    NvmLog "nvm-log/filter-not-flushed":
        "a Bloom filter is attached without a flush",
        NoFlush at "storage/src/runs/filter.rs", "finish_filter", "mini_commit";
    NvmLog "nvm-log/filter-bits-not-flushed":
        "the bits of a Bloom filter are not flushed",
        NoFlush at "storage/src/runs/filter.rs", "copy_some", "flush";
    Inp "inp/commit-not-synced":
        "COMMIT does not sync the log",
        NoSync at "storage/src/logs/wal.rs", "flush", "sync";
    Inp "inp/commit-acknowledged-early":
        "COMMIT returns before its sync",
        EarlyAcknowledgement;
    Inp "inp/log-written-late":
        "the log is written after the sync",
        WriteAfterSync at "storage/src/logs/wal.rs", "spill", "write_bytes";
    Inp "inp/log-record-lost":
        "a piece of the log is not written",
        NoWrite at "storage/src/logs/wal.rs", "spill", "write_bytes";
    Inp "inp/segment-not-synced":
        "the header of a new log segment is not synced",
        NoSync at "storage/src/logs/wal.rs", "begin_segment", "tail.file.sync";
    Inp "inp/segment-name-not-synced":
        "the name of a new log segment is not synced",
        NoSync at "storage/src/logs/wal.rs", "begin_segment", "sync_directory";
    Inp "inp/checkpoint-not-synced":
        "a checkpoint gets its name before it is durable",
        NoSync at "storage/src/logs/checkpoint.rs", "complete", "sync";
    Inp "inp/checkpoint-renamed-early":
        "a checkpoint is renamed before it is synced",
        EarlyRename at "storage/src/logs/checkpoint.rs", "finish", "rename";
    Inp "inp/log-trimmed-early":
        "the log is removed before the checkpoint that replaces it is durable",
        EarlyRemove at "storage/src/logs/wal.rs", "remove_before", "remove";
    Cow "cow/pages-not-synced":
        "a batch does not sync its pages before the master record",
        NoSync at "engines/src/cow.rs", "write_batch", "sync_pages";
    Cow "cow/master-not-synced":
        "the master record is not synced",
        NoSync at "engines/src/cow.rs", "write_batch", "move_to";
    Cow "cow/page-lost":
        "a page of the dirty directory is not written",
        NoWrite at "index/src/pages/file.rs", "clean", "write_out";
    Cow "cow/page-late":
        "a page of the dirty directory is written after the sync",
        WriteAfterSync at "index/src/pages/file.rs", "clean", "write_out";
    Cow "cow/master-lost":
        "the master record is not written",
        NoWrite at "engines/src/cow.rs", "write_batch", "move_to";
    Cow "cow/acknowledged-early":
        "a commit returns before its last sync",
        EarlyAcknowledgement;
    Log "log/commit-not-synced":
        "COMMIT does not sync the log",
        NoSync at "storage/src/logs/wal.rs", "flush", "sync";
    Log "log/commit-acknowledged-early":
        "COMMIT returns before its sync",
        EarlyAcknowledgement;
    Log "log/log-written-late":
        "the log is written after the sync",
        WriteAfterSync at "storage/src/logs/wal.rs", "spill", "write_bytes";
    Log "log/run-not-synced":
        "the manifest names a run that is not durable",
        NoSync at "storage/src/lsm/sstable/writer.rs", "sync", "sync";
    Log "log/run-late":
        "a run is written after its sync",
        WriteAfterSync at "storage/src/lsm/sstable/writer.rs", "spill", "write_at";
    Log "log/run-name-not-synced":
        "the manifest names a run whose name is not durable",
        NoSync at "storage/src/lsm/work.rs", "install", "sync_directory";
    Log "log/manifest-not-synced":
        "an edit of the manifest is not synced",
        NoSync at "storage/src/lsm/manifest.rs", "edit", "sync";
    Log "log/manifest-edit-lost":
        "an edit of the manifest is not written",
        NoWrite at "storage/src/lsm/manifest.rs", "edit", "write_at";
    Log "log/log-trimmed-early":
        "the log is removed before the run that replaces it is durable",
        EarlyRemove at "storage/src/logs/wal.rs", "remove_before", "remove";
    Log "log/segment-not-synced":
        "the header of a new log segment is not synced",
        NoSync at "storage/src/logs/wal.rs", "begin_segment", "tail.file.sync";
    Log "log/inputs-removed-early":
        "the inputs of a merge are removed before its result is durable",
        EarlyRemove at "storage/src/lsm/work.rs", "install", "remove";
}
