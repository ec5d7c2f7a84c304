//! `perdura demo`: real processes, killed through the page's own requests. No test looks at a time.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{interruptible, run};

/// Longer than any machine takes: what has not come by then does not come.
const HANGS: Duration = Duration::from_secs(120);

/// A demonstration that runs.
pub(crate) struct Demo {
    child: Child,
    port: u16,
    directory: tempfile::TempDir,
}

impl Demo {
    /// Starts one on any port, and waits until both engines work.
    pub(crate) fn start(more: &[&str]) -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let mut child = interruptible(&[])
            .args(["demo", "--port", "0", "--subscribers", "100", "--path"])
            .arg(directory.path())
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut line = String::new();
        let output = child.stdout.as_mut().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("an address");
        let port = line.trim().strip_prefix("http://127.0.0.1:");
        let port = port.and_then(|port| port.strip_suffix('/')).expect("this machine's");
        let demo = Self { child, port: port.parse().expect("a port"), directory };
        for lane in 0..2 {
            demo.until(lane, |lane| lane["status"] == "running");
        }
        demo
    }

    /// Sends a request; returns the status and the body.
    fn ask(&self, method: &str, path: &str, host: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        let request = format!("{method} {path} HTTP/1.0\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.expect("a status"), body.to_owned())
    }

    fn own(&self, method: &str, path: &str) -> (u16, String) {
        self.ask(method, path, &format!("127.0.0.1:{}", self.port))
    }

    fn lane(&self, number: usize) -> Value {
        let (status, body) = self.own("GET", "/state");
        assert_eq!(status, 200, "{body}");
        let state: Value = serde_json::from_str(&body).expect("JSON");
        state["lanes"][number].clone()
    }

    /// Waits until an engine is as wanted.
    fn until(&self, number: usize, wanted: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let lane = self.lane(number);
            assert_eq!(lane["failure"], Value::Null, "{lane}");
            if wanted(&lane) {
                return lane;
            }
            assert!(started.elapsed() < HANGS, "{lane}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Has an engine's process killed, and waits until the next one has committed; returns both.
    pub(crate) fn crash(&self, number: usize) -> (u64, u64) {
        let (status, body) = self.own("POST", &format!("/crash?lane={number}"));
        assert_eq!(status, 200, "{body}");
        let killed: Value = serde_json::from_str(&body).expect("JSON");
        let killed = killed["killed"].as_u64().expect("its number");
        (killed, self.comes_back(number, killed))
    }

    /// Waits until the process after the one that was killed has committed; returns its number.
    fn comes_back(&self, number: usize, killed: u64) -> u64 {
        let is_back = |lane: &Value| {
            let last = lane["crashes"].as_array().and_then(|crashes| crashes.last());
            last.is_some_and(|last| {
                last["pid_before"] == killed && last["first_commit_ms"].is_f64()
            })
        };
        let lane = self.until(number, is_back);
        assert_eq!(lane["crashes"].as_array().expect("a list").last().expect("one")["lost"], 0);
        lane["pid"].as_u64().expect("its number")
    }

    /// Checks that after so many crashes nothing is lost, nor there too much, nor torn.
    pub(crate) fn is_whole(&self, number: usize, restarts: u64) {
        let checks = &self.lane(number)["checks"];
        assert_eq!(checks["restarts"], restarts, "{checks}");
        for wrong in ["lost", "surplus", "torn"] {
            assert_eq!(checks[wrong], 0, "{checks}");
        }
        assert!(checks["acknowledged"].as_u64().expect("a number") > 0, "{checks}");
    }

    /// Ends it as Ctrl-C does; nothing is left.
    pub(crate) fn end(mut self) {
        let workers = [0, 1].map(|lane| self.lane(lane)["pid"].as_u64().expect("its number"));
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("it lives");
        let status = self.child.wait().expect("it ends");
        assert_eq!(status.signal(), Some(2), "{status:?}");
        let started = Instant::now();
        let is_there = |worker: &u64| {
            let command = std::fs::read(format!("/proc/{worker}/cmdline"));
            command.is_ok_and(|command| command.windows(6).any(|word| word == b"__demo"))
        };
        let holds = |path: &Path| path.read_dir().expect("a directory").next().is_some();
        while workers.iter().any(is_there) || holds(self.directory.path()) {
            assert!(started.elapsed() < HANGS, "{workers:?} or their files are left");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Has ended already, unless a test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn longs(lane: &Value) -> &[Value] {
    lane["long"].as_array().expect("a list")
}

fn count(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

#[test]
fn kills_lose_nothing_and_long_transactions_continue() {
    let demo = Demo::start(&["--statements", "10000", "--pace", "5", "--users", "1"]);
    let mut processes = BTreeSet::from([count(&demo.lane(0)["pid"])]);
    for _ in 0..3 {
        demo.until(0, |lane| {
            longs(lane).iter().all(|long| {
                let segments = long["segments"].as_array().expect("a list");
                segments.last().is_some_and(|last| last["pid"] == lane["pid"])
            })
        });
        let (killed, next) = demo.crash(0);
        assert!(processes.contains(&killed));
        assert!(processes.insert(next), "a new process");
    }
    demo.is_whole(0, 3);
    let has_four = |long: &Value| long["segments"][3].is_object();
    let lane = demo.until(0, |lane| longs(lane).iter().all(has_four));
    for long in longs(&lane) {
        assert_eq!(long["runs"], 0, "{long}");
        assert_eq!(long["undone"], 0, "{long}");
        let segments = long["segments"].as_array().expect("a list");
        let mut at = 0;
        for segment in segments {
            assert_eq!(count(&segment["from"]), at + 1, "{long}");
            at = count(&segment["to"]);
        }
        let of: BTreeSet<u64> = segments.iter().map(|segment| count(&segment["pid"])).collect();
        assert_eq!(of, processes, "{long}");
    }

    // The other process is killed from outside, and begins its long transactions again.
    let lane = demo.until(1, |lane| count(&lane["long"][0]["done"]) > 2);
    let pid = count(&lane["pid"]);
    let process = Pid::from_raw(pid as i32).expect("a process");
    kill_process(process, Signal::KILL).expect("it lives");
    demo.comes_back(1, pid);
    let lane = demo.until(1, |lane| count(&lane["long"][0]["undone"]) > 2);
    assert_eq!(lane["long"][0]["runs"], 0);
    demo.is_whole(1, 1);
    demo.end();
}

#[test]
fn long_transactions_that_commit_have_done_each_statement_once() {
    let demo = Demo::start(&["--statements", "8", "--pace", "1", "--beside", "wal"]);
    for lane in 0..2 {
        let mut runs = 0;
        for _ in 0..3 {
            let now = demo.until(lane, |lane| count(&lane["long"][0]["runs"]) > runs);
            runs = count(&now["long"][0]["runs"]);
            demo.crash(lane);
        }
        demo.is_whole(lane, 3);
    }
    demo.end();
}

#[test]
fn the_page_is_for_this_machine_and_takes_no_nonsense() {
    let demo = Demo::start(&["--engine", "nvm-inp", "--beside", "sofort"]);
    for (path, holds) in [("/", "<main"), ("/demo.css", ":root"), ("/demo.js", "chart.js")] {
        let (status, body) = demo.own("GET", path);
        assert!(status == 200 && body.contains(holds), "{path}: {status}");
        assert!(!body.contains("https://"), "{path} needs no network");
    }
    assert_eq!(demo.ask("GET", "/state", "example.org").0, 403);
    assert_eq!(demo.ask("POST", "/crash?lane=0", "example.org").0, 403);
    assert_eq!(demo.ask("POST", "/crash?lane=0", "x\r\nOrigin: http://example.org").0, 403);
    for (method, path, status) in [
        ("GET", "/crash?lane=0", 404),
        ("GET", "/../Cargo.toml", 404),
        ("POST", "/crash", 400),
        ("POST", "/crash?lane=2", 400),
        ("POST", "/set?lane=0&users=0", 400),
        ("POST", "/set?lane=0&users=many", 400),
        ("POST", "/set?lane=0&latency=1000000000000", 400),
        ("POST", "/engine?lane=0&name=nonsense", 400),
        ("GET", "/state?since=yesterday", 400),
    ] {
        let (found, body) = demo.own(method, path);
        assert_eq!(found, status, "{method} {path}: {body}");
    }
    assert_eq!(demo.lane(0)["crashes"], Value::Array(Vec::new()));

    // Settings reach the process, and stay over a kill.
    assert_eq!(demo.own("POST", "/set?lane=0&users=3&latency=1000").0, 200);
    demo.until(0, |lane| lane["told"]["users"] == 3 && lane["told"]["latency_ns"] == 1000);
    demo.crash(0);
    assert_eq!(demo.lane(0)["told"]["users"], 3);

    let before = count(&demo.lane(1)["pid"]);
    assert_eq!(demo.own("POST", "/engine?lane=1&name=nvm-cow").0, 200);
    let lane = demo.until(1, |lane| lane["engine"] == "nvm-cow" && lane["status"] == "running");
    assert_ne!(count(&lane["pid"]), before);
    assert_eq!(lane["checks"]["restarts"], 0);

    let port = demo.port.to_string();
    let ran = run(&["demo", "--port", &port]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.is_empty() && ran.err.contains(&port), "{ran:?}");
    assert!(ran.err.contains("--port"), "{ran:?}");
    demo.end();
}
