//! A receipt of a part is of a part of the object, not of something from elsewhere.

use pm::Durable;

fn publish(_: Durable<Vec<u64>>) {}

fn forge(durable: Durable<(u64, u64)>, stranger: Vec<u64>) {
    publish(durable.part(|_| stranger));
}

fn main() {
    let _ = forge;
}
