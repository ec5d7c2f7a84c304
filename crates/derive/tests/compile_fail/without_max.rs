type Name = String;

#[derive(perdura::Table)]
struct Job {
    #[table(key)]
    id: u64,
    text: String,
    bytes: Option<Vec<u8>>,
}

#[derive(perdura::Table)]
struct Renamed {
    #[table(key)]
    id: u64,
    name: Name,
}

fn main() {}
