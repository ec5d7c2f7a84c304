#[derive(perdura::Table)]
struct Job {
    #[table(key)]
    id: u64,
    #[table(max = 80)]
    tries: u32,
}

fn main() {}
