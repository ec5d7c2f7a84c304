//! A flush is made durable by one fence; its receipt is used up.

use pm::{Dram, Flushed, LineSet, fence_for};

fn main() {
    let memory = Dram::new(4096).unwrap();
    let flushed = Flushed::lines(&memory, &mut LineSet::new(), 7u64);
    let first = fence_for(&memory, flushed);
    let second = fence_for(&memory, flushed);
    drop((first, second));
}
