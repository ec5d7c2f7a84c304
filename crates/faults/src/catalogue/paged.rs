//! Faults of the engines with pages in files and a log in files or in persistent memory.
//! `crate::paged` has more faults of their store.

faults! {
    NvDisk "nv-disk/commit-not-synced":
        "COMMIT does not sync the log",
        NoSync at "paged/src/log/central/flush.rs", "write_out", "file.sync";
    NvDisk "nv-disk/log-written-late":
        "a group of the log is written after its sync",
        WriteAfterSync at "paged/src/log/central/flush.rs", "write_out", "file.write_at";
    NvDisk "nv-disk/log-not-written":
        "a group of the log is not written",
        NoWrite at "paged/src/log/central/flush.rs", "write_out", "file.write_at";
    NvDisk "nv-disk/page-not-written":
        "a page is taken for clean that was not written",
        NoWrite at "paged/src/pool/cleaner.rs", "write_batch", "self.file.write_at";
    NvDisk "nv-disk/pages-not-synced":
        "pages are taken for clean that are not durable",
        NoSync at "paged/src/pool/cleaner.rs", "write_batch", "self.file.sync";
    NvDisk "nv-disk/head-not-synced":
        "the log is used again before its head says where it begins",
        NoSync at "paged/src/log/central/open.rs", "write_head", "file.sync";
    NvDisk "nv-disk/head-not-written":
        "the log's head does not follow its begin",
        NoWrite at "paged/src/log/central/open.rs", "write_head", "file.write_at";
    NvDisk "nv-disk/checkpoint-not-noted":
        "the pages do not know of a checkpoint that the log begins with",
        NoWrite at "paged/src/file.rs", "note", "file.write_at";
    NvDisk "nv-disk/checkpoint-noted-late":
        "the log begins with a checkpoint of which the pages do not know durably",
        NoSync at "paged/src/file.rs", "note", "file.sync";
    NvDisk "nv-disk/commit-acknowledged-early":
        "COMMIT returns before its sync",
        EarlyAcknowledgement;
    NvDisk "nv-disk/unchanged-acknowledged-early":
        "in an open group a transaction that has changed nothing is durable, before those that \
         it follows",
        UnchangedAcknowledges;
    NvLoggingFoi "nv-logging-foi/object-not-flushed":
        "an object of the log is not flushed",
        NoFlush at "paged/src/log/nv/insert.rs", "insert", "memory.flush";
    NvLoggingFoi "nv-logging-foi/entry-not-flushed":
        "the entry that leads to an object is not flushed",
        NoFlush at "paged/src/log/nv/insert.rs", "insert", "ring.set";
    NvLoggingFoi "nv-logging-foi/object-without-fence":
        "an object is taken for durable before its fence",
        NoFence at "paged/src/log/nv/insert.rs", "insert", "memory.fence";
    NvLoggingFoi "nv-logging-foi/page-not-written":
        "a page is taken for clean that was not written",
        NoWrite at "paged/src/pool/cleaner.rs", "write_batch", "self.file.write_at";
    NvLoggingFoi "nv-logging-foi/pages-not-synced":
        "pages are taken for clean that are not durable",
        NoSync at "paged/src/pool/cleaner.rs", "write_batch", "self.file.sync";
    NvLoggingFoi "nv-logging-foi/head-not-flushed":
        "the log is used again before its head says where it begins",
        NoFlush at "paged/src/log/nv/form.rs", "move_to", "memory.flush_word";
    NvLoggingFoi "nv-logging-foi/commit-acknowledged-early":
        "COMMIT returns before its fence",
        EarlyAcknowledgement;
    NvLoggingFoc "nv-logging-foc/object-not-flushed":
        "an object of the log is not flushed",
        NoFlush at "paged/src/log/nv/commit.rs", "pass", "memory.flush";
    NvLoggingFoc "nv-logging-foc/entry-not-flushed":
        "the entry that leads to an object is not flushed",
        NoFlush at "paged/src/log/nv/commit.rs", "pass", "ring.set";
    NvLoggingFoc "nv-logging-foc/object-without-fence":
        "an object is taken for durable before its fence",
        NoFence at "paged/src/log/nv/commit.rs", "pass", "memory.fence";
    NvLoggingFoc "nv-logging-foc/page-not-written":
        "a page is taken for clean that was not written",
        NoWrite at "paged/src/pool/cleaner.rs", "write_batch", "self.file.write_at";
    NvLoggingFoc "nv-logging-foc/pages-not-synced":
        "pages are taken for clean that are not durable",
        NoSync at "paged/src/pool/cleaner.rs", "write_batch", "self.file.sync";
    NvLoggingFoc "nv-logging-foc/head-not-flushed":
        "the log is used again before its head says where it begins",
        NoFlush at "paged/src/log/nv/form.rs", "move_to", "memory.flush_word";
    NvLoggingFoc "nv-logging-foc/commit-acknowledged-early":
        "COMMIT returns before its fence",
        EarlyAcknowledgement;
    NvLoggingFoc "nv-logging-foc/unchanged-acknowledged-early":
        "in an open group a transaction that has changed nothing is durable, before those that \
         it follows",
        UnchangedAcknowledges;
}
