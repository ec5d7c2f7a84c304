//! The files of the traditional engines and the undo log, in one program.

mod checkpoint_crash;
mod checkpoint_file;
mod encodings;
mod fuzz_corpus;
mod manifest;
mod sstable;
mod undo_log_kill;
mod wal_crash;
mod wal_log;
mod whole;
