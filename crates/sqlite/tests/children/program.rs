//! The processes that the tests of this crate start: `perdura-sqlite-children NAME ARGUMENTS`. Built for tests alone,
//! by the feature `children`.

#![allow(dead_code, reason = "modules of the tests, of which a part is used here")]

#[path = "../all/attached/databases.rs"]
mod attached;
mod committer;
#[path = "../all/contents.rs"]
mod contents;
#[path = "../all/forked.rs"]
mod forked;
mod forkers;
mod openers;
#[path = "../all/failing/protocol.rs"]
mod protocol;
#[path = "../all/register.rs"]
mod register;
#[path = "../all/shared/connections.rs"]
mod shared;
mod system;
mod wal;
#[path = "../all/wal/connections.rs"]
mod wal_connections;
mod writers;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["writer", path, first] => writers::write(path.as_ref(), number(first)),
        ["shared-writer", path, way, first] => {
            writers::write_shared(path.as_ref(), way, number(first));
        }
        ["pair-writer", one, two, first] => {
            writers::write_pairs([one.as_ref(), two.as_ref()], number(first));
        }
        ["one-commit", path, mode] => writers::commit_once(path.as_ref(), mode),
        ["filler", path] => writers::fill(path.as_ref()),
        ["creator", uri, sql] => writers::create(uri.as_ref(), sql),
        ["steady", path] => wal::steady(path.as_ref()),
        ["steady-rollback", path] => wal::steady_in_rollback_mode(path.as_ref()),
        ["switcher", path] => wal::switch(path.as_ref()),
        ["holder", path, sql] => writers::hold(path.as_ref(), sql),
        ["forker", path] => forkers::fork(path.as_ref()),
        ["prepared-forker", path] => forkers::fork_prepared(path.as_ref()),
        ["committer", work, size, held_locks, key, ref uris @ ..] => {
            let uris: Vec<String> = uris.iter().map(|uri| (*uri).to_owned()).collect();
            committer::commit(&uris, [work, size, held_locks], number(key));
        }
        _ => panic!("no child {arguments:?}"),
    }
}

fn number(text: &str) -> i64 {
    text.parse().expect("a number")
}
