//! A receipt has no copies.

use pm::{Dram, Durable, Flushed, LineSet, fence_for};

fn publish(_: Durable<u64>) {}

fn main() {
    let memory = Dram::new(4096).unwrap();
    let durable = fence_for(&memory, Flushed::lines(&memory, &mut LineSet::new(), 7));
    publish(durable.clone());
    publish(durable);
}
