//! Receipts for what was flushed.

use pm::{Flushed, LineSet};
use sim::Recording;

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "no line was written")]
fn an_object_that_was_not_written_has_no_receipt() {
    let memory = Recording::new(4096).unwrap();
    let _ = Flushed::lines(&memory, &mut LineSet::new(), 7u64);
}
