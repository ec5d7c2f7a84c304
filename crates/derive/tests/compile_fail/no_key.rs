#[derive(perdura::Table)]
struct Job {
    id: u64,
}

fn main() {}
