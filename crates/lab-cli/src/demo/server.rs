//! The page, served to this machine alone.
//!
//! | request | answer |
//! |---|---|
//! | `GET /` and its files | the page |
//! | `GET /state?since=T` | everything as JSON, with the points after tick T |
//! | `POST /crash?lane=N` | kills the process of an engine |
//! | `POST /set?lane=N&users=U&latency=NS` | other settings |
//! | `POST /engine?lane=N&name=E` | another engine, with a new database |
//!
//! A page of another place can send requests here, too: one that names another host, or comes from a
//! page of another origin, is refused.

use std::io::Cursor;

use command::args::demo::{MOST_LATENCY_NS, MOST_USERS};
use command::failure::Failure;
use perdura::EngineKind;
use serde::Serialize;
use tiny_http::{Header, Method, Request, Response, Server};

use super::side::{Side, TICK};
use super::task::Settings;
use super::view::{Point, View};

type Answer = Response<Cursor<Vec<u8>>>;

const PAGE: &str = include_str!("../../assets/demo/index.html");
const STYLE: &str = include_str!("../../assets/demo/demo.css");
const SCRIPT: &str = include_str!("../../assets/demo/demo.js");
const CHART: &str = include_str!("../../assets/demo/chart.js");

/// Nothing but the page's own files, and in no frame.
const POLICY: &str = "default-src 'self'; img-src data:; frame-ancestors 'none'";

#[derive(Serialize)]
struct State<'a> {
    tick_ms: u64,
    most_users: u32,
    most_latency_ns: u64,
    engines: Vec<&'static str>,
    #[serde(rename = "lanes")]
    sides: Vec<SideState<'a>>,
}

#[derive(Serialize)]
struct SideState<'a> {
    #[serde(flatten)]
    view: &'a View,
    points: Vec<Point>,
}

/// Answers requests for as long as the process lives.
///
/// # Errors
/// The system takes no more connections.
pub(super) fn serve(server: &Server, port: u16, sides: &[Side]) -> Result<(), Failure> {
    loop {
        let request = server.recv().map_err(|error| Failure::about("the page", error))?;
        let answer = answer(&request, port, sides);
        // Who has gone wants no answer.
        let _ = request.respond(answer);
    }
}

fn answer(request: &Request, port: u16, sides: &[Side]) -> Answer {
    if !is_ours(request, port) {
        return refused(403, "this page is for this machine alone");
    }
    let (path, query) = request.url().split_once('?').unwrap_or((request.url(), ""));
    let done = match (request.method(), path) {
        (Method::Get, "/") => return file(PAGE, "text/html"),
        (Method::Get, "/demo.css") => return file(STYLE, "text/css"),
        (Method::Get, "/demo.js") => return file(SCRIPT, "text/javascript"),
        (Method::Get, "/chart.js") => return file(CHART, "text/javascript"),
        (Method::Get, "/state") => state(query, sides),
        (Method::Post, "/crash") => crash(query, sides),
        (Method::Post, "/set") => set(query, sides),
        (Method::Post, "/engine") => engine(query, sides),
        _ => return refused(404, "there is no such page"),
    };
    match done {
        Ok(json) => file(&json, "application/json"),
        Err(why) => refused(400, &why),
    }
}

/// Returns true if the request names this server, and comes from its page or from no page.
fn is_ours(request: &Request, port: u16) -> bool {
    let header = |name: &'static str| {
        let found = request.headers().iter().find(|header| header.field.equiv(name));
        found.map(|header| header.value.as_str())
    };
    let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let host = header("Host").is_some_and(|host| hosts.iter().any(|ours| ours == host));
    let origin = header("Origin")
        .is_none_or(|origin| hosts.iter().any(|ours| origin.strip_prefix("http://") == Some(ours)));
    host && origin
}

fn state(query: &str, sides: &[Side]) -> Result<String, String> {
    let since = field(query, "since").map_or(Ok(0), number)?;
    let views: Vec<_> = sides.iter().map(Side::view).collect();
    let sides = views.iter().map(|view| {
        let points = view.points_since(since);
        SideState { view, points }
    });
    let state = State {
        tick_ms: TICK.as_millis() as u64,
        most_users: MOST_USERS,
        most_latency_ns: MOST_LATENCY_NS,
        engines: EngineKind::ALL.map(EngineKind::name).to_vec(),
        sides: sides.collect(),
    };
    serde_json::to_string(&state).map_err(|error| error.to_string())
}

fn crash(query: &str, sides: &[Side]) -> Result<String, String> {
    Ok(format!("{{\"killed\": {}}}", side(query, sides)?.crash()?))
}

fn set(query: &str, sides: &[Side]) -> Result<String, String> {
    let side = side(query, sides)?;
    let mut settings = side.view().settings;
    if let Some(users) = field(query, "users") {
        settings.users = within(users, 1, MOST_USERS.into())? as u32;
    }
    if let Some(latency) = field(query, "latency") {
        settings.latency_ns = within(latency, 0, MOST_LATENCY_NS)?;
    }
    side.tell(settings);
    settings_json(settings)
}

fn settings_json(settings: Settings) -> Result<String, String> {
    serde_json::to_string(&settings).map_err(|error| error.to_string())
}

fn engine(query: &str, sides: &[Side]) -> Result<String, String> {
    let side = side(query, sides)?;
    let name = field(query, "name").ok_or("name the engine")?;
    let kind: EngineKind =
        name.parse().map_err(|error: perdura::ParseEngineError| error.to_string())?;
    side.change(kind);
    Ok("{}".into())
}

fn side<'a>(query: &str, sides: &'a [Side]) -> Result<&'a Side, String> {
    let number = number(field(query, "lane").ok_or("name the lane")?)?;
    sides.get(number as usize).ok_or_else(|| format!("there is no lane {number}"))
}

fn field<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = query.split('&').filter_map(|field| field.split_once('='));
    fields.find_map(|(field, value)| (field == name).then_some(value))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{}` is no number", pm::Escaped(text)))
}

fn within(text: &str, least: u64, most: u64) -> Result<u64, String> {
    match number(text)? {
        number if (least..=most).contains(&number) => Ok(number),
        number => Err(format!("{number}: {least} to {most} are possible")),
    }
}

fn file(content: &str, kind: &str) -> Answer {
    let answer = Response::from_string(content);
    let answer = with(answer, "Content-Type", &format!("{kind}; charset=utf-8"));
    let answer = with(answer, "Cache-Control", "no-store");
    let answer = with(answer, "X-Content-Type-Options", "nosniff");
    with(answer, "Content-Security-Policy", POLICY)
}

fn refused(status: u16, why: &str) -> Answer {
    file(why, "text/plain").with_status_code(status)
}

fn with(answer: Answer, name: &str, value: &str) -> Answer {
    match Header::from_bytes(name, value) {
        Ok(header) => {
            // One that the answer has already, such as its type, is replaced.
            let mut answer = answer;
            answer.add_header(header);
            answer
        }
        Err(()) => answer,
    }
}
