#[derive(perdura::Table)]
struct Job {
    #[table(key)]
    id: u64,
    weight: f32,
    size: Option<usize>,
}

fn main() {}
