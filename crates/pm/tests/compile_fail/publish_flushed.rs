//! What has been flushed is not durable before a fence.

use pm::{Dram, Durable, Flushed, LineSet};

fn publish(_: Durable<u64>) {}

fn main() {
    let memory = Dram::new(4096).unwrap();
    publish(Flushed::lines(&memory, &mut LineSet::new(), 7));
}
