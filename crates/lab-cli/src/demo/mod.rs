//! `perdura demo`: the demonstration of P4 (appendix A) as a page of this machine.
//!
//! This process serves the page; each of the two engines has a process of its own, which it kills.
//! The command ends by Ctrl-C; the engines' processes end with it, since their standard input does,
//! and the directory goes as that of every command.
//!
//! | module | its question |
//! |---|---|
//! | `server` | what can the page ask? |
//! | `side` | who starts, kills and counts an engine's process? |
//! | `view` | what does the page show, and is anything lost? |
//! | `task` | what do the two processes say to each other? |
//! | `worker`, `state`, `users`, `long` | the engine's process |

mod long;
mod server;
mod side;
mod state;
mod task;
mod users;
mod view;
mod worker;

pub(crate) use self::worker::{WORKER, run as worker};

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Instant;

use command::args::demo::DemoArgs;
use command::failure::Failure;
use command::output::print;
use command::scratch::Scratch;
use tiny_http::Server;

use self::side::{Side, Sizes};
use self::task::Settings;

/// Serves the page until it is ended.
///
/// # Errors
/// The port is used, or the directory cannot be made.
pub(crate) fn run(args: &DemoArgs) -> Result<(), Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).map_err(|error| {
        let why = match error.kind() {
            ErrorKind::AddrInUse => "another program uses it; choose another one with --port",
            _ => &error.to_string(),
        };
        Failure::about(format!("port {}", args.port), why)
    })?;
    let port = listener.local_addr().map_err(|error| Failure::about("the page", error))?.port();
    let server =
        Server::from_listener(listener, None).map_err(|error| Failure::about("the page", error))?;
    let scratch = Scratch::new(args.path.as_deref(), false)?;
    let settings = Settings { users: args.users, latency_ns: args.latency };
    let sizes =
        Sizes { subscribers: args.subscribers, statements: args.statements, pace_ms: args.pace };
    let clock = Instant::now();
    let start = |(name, kind)| -> Result<Side, Failure> {
        Side::start(kind, &sizes, settings, scratch.directory(name)?, clock)
    };
    let sides = [("left", args.engine), ("right", args.beside)]
        .into_iter()
        .map(start)
        .collect::<Result<Vec<_>, _>>()?;
    print(&format!("http://127.0.0.1:{port}/\n"))?;
    server::serve(&server, port, &sides)
}
