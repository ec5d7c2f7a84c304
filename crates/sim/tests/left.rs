//! A program of its own: a recording of another test would take what the last one has left.
//!
//! A recording uses again the memory that the one before it left.

use pm::{Memory, Off};
use sim::Recording;

const LIMIT: u64 = 1 << 20;

#[test]
fn what_a_recording_leaves_does_not_show_in_the_next_one() {
    let full = vec![7; 40_000];
    for bytes in [40_000, 20_000, 1, 12_288, 30_000, 0, 36_864] {
        let left = Recording::from_image(&full, LIMIT).expect("room");
        left.grow(50_000).expect("room");
        assert!(left.contents()[40_000..].iter().all(|byte| *byte == 0));
        left.copy(Off::new(49_000), &[9; 1000]);
        drop(left);
        let image: Vec<u8> = (0..bytes).map(|at| (at / 5000) as u8).collect();
        let next = Recording::from_image(&image, LIMIT).expect("room");
        assert!(next.contents() == image, "{bytes}");
        next.grow(60_000).expect("room");
        let after = &next.contents()[bytes..];
        assert!(after.len() == 60_000 - bytes && after.iter().all(|byte| *byte == 0), "{bytes}");
    }
}
