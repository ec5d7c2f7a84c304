#[derive(perdura::Table)]
struct Job(u64);

#[derive(perdura::Table)]
struct Nothing;

#[derive(perdura::Table)]
enum State {
    Waiting,
}

fn main() {}
