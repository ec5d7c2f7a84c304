//! Tests that `scripts/long` runs in a night, and no build.

use crate::demo::Demo;

#[test]
#[ignore = "scripts/long runs it"]
fn ten_kills_in_a_row_lose_nothing() {
    let demo = Demo::start(&["--users", "4", "--statements", "50", "--pace", "5"]);
    for lane in 0..2 {
        for _ in 0..10 {
            demo.crash(lane);
        }
        demo.is_whole(lane, 10);
    }
    demo.end();
}
