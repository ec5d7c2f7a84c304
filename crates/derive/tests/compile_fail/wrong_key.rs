type Optional = Option<u64>;

#[derive(perdura::Table)]
struct Null {
    #[table(key)]
    id: Option<u64>,
}

#[derive(perdura::Table)]
struct Renamed {
    #[table(key)]
    id: Optional,
}

#[derive(perdura::Table)]
#[table(key(region, number))]
struct NoField {
    region: u32,
    id: u64,
}

#[derive(perdura::Table)]
#[table(key(region))]
struct Both {
    region: u32,
    #[table(key)]
    id: u64,
}

fn main() {}
