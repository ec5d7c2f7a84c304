#[derive(perdura::Table)]
struct Job<'a> {
    #[table(key)]
    id: u64,
    #[table(max = 80)]
    name: &'a str,
}

fn main() {}
