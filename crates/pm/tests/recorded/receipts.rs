//! Receipts for what was flushed.

use pm::{Flushed, LineSet};
use sim::Recording;

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "no line was written")]
fn there_is_no_receipt_for_an_object_of_which_nothing_was_written() {
    let memory = Recording::new(4096).unwrap();
    let _ = Flushed::lines(&memory, &mut LineSet::new(), 7u64);
}
