#![no_main]

#[path = "../bodies/pool.rs"]
mod pool;

libfuzzer_sys::fuzz_target!(|data: &[u8]| pool::pool(data));
