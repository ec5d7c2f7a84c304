//! A receipt is not made by hand.

use pm::{Durable, Flushed};

fn main() {
    let flushed = Flushed(7u64);
    let durable = Durable(7u64);
    drop((flushed, durable));
}
