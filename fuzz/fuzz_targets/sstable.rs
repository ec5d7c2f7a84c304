#![no_main]

#[path = "../bodies/files.rs"]
#[expect(dead_code, reason = "shared by the targets of all files")]
mod files;

libfuzzer_sys::fuzz_target!(|data: &[u8]| files::sstable(data));
