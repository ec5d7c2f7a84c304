#[derive(perdura::Table)]
#[table(primary(id))]
struct Unknown {
    #[table(key)]
    id: u64,
    #[table(indexed)]
    due: u64,
    #[table(max = 80, max = 90)]
    name: String,
}

#[derive(perdura::Table)]
#[table(index("by_due", state, late))]
struct Indexes {
    #[table(key)]
    id: u64,
    #[table(index = "by_state")]
    state: u8,
    #[table(index = "by_state")]
    due: u64,
}

#[derive(perdura::Table)]
struct Default {
    #[table(key)]
    id: u64,
    #[table(default = "none")]
    tries: u32,
}

fn main() {}
