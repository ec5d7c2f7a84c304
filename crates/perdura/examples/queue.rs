//! A job queue: jobs become due, one worker takes each, and what fails is tried again later. A job
//! that was running when the process was killed is there again when the queue is opened.
//!
//! Workers take the first job that is free (`Scan::skip_locked`), so none waits for another. The
//! program fills a queue, lets four threads work until it is empty, and removes it.
//!
//! ```text
//! cargo run --release --example queue
//! ```

use perdura::{ColumnType::*, Database, Error, Options, Scan, Schema, Table, TableSchema, Value};
use std::time::{Duration, SystemTime};

const WAITING: u8 = 0;
const RUNNING: u8 = 1;

pub(crate) struct Queue {
    db: Database,
    jobs: Table,
}

pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) tries: u32,
    pub(crate) payload: String,
}

impl Queue {
    pub(crate) fn open(path: &std::path::Path) -> Result<Self, Error> {
        let jobs = TableSchema::new("job")
            .column("id", U64)
            .column("state", U8)
            .column("due", Timestamp)
            .column("tries", U32)
            .column("payload", Text { max: 1000 })
            .key(&["id"])
            .index("by_due", &["state", "due"]);
        let db = Database::open_or_create(path, &Schema::new().table(jobs), &Options::new())?;
        let jobs = db.table("job")?;
        // The workers that ran these are gone.
        let running = || Scan::prefix([Value::from(RUNNING)]).by("by_due").limit(1);
        while let Some(row) = db.read(|tx| tx.rows(&jobs, running()).next().transpose())? {
            db.update(&jobs, &[row.get(0)], &[("state", WAITING.into())])?;
        }
        Ok(Self { db, jobs })
    }

    pub(crate) fn enqueue(&self, payload: &str, due: SystemTime) -> Result<u64, Error> {
        self.db.write(|tx| {
            let last = tx.rows(&self.jobs, Scan::all().backward().limit(1)).next().transpose()?;
            let id = last.map_or(1, |row| row.u64(0) + 1);
            let job = [id.into(), WAITING.into(), due.into(), 0.into(), payload.into()];
            tx.insert(&self.jobs, &job).map(|()| id)
        })
    }

    /// Takes the job that has been due for longest, except those that other workers are taking. It
    /// is this worker's from now on.
    pub(crate) fn take(&self, now: SystemTime) -> Result<Option<Job>, Error> {
        self.db.write(|tx| {
            let due = Scan::range(vec![WAITING.into()]..=vec![WAITING.into(), now.into()]);
            let free = due.by("by_due").for_update().skip_locked().limit(1);
            let Some(row) = tx.rows(&self.jobs, free).next().transpose()? else { return Ok(None) };
            tx.update(&self.jobs, &[row.get(0)], &[("state", RUNNING.into())])?;
            Ok(Some(Job { id: row.u64(0), tries: row.try_get(3)?, payload: row.try_get(4)? }))
        })
    }

    pub(crate) fn complete(&self, job: &Job) -> Result<(), Error> {
        self.db.delete(&self.jobs, &[job.id.into()])
    }

    /// The job is due again after a second, then after two, four, and so on.
    pub(crate) fn retry(&self, job: &Job, now: SystemTime) -> Result<(), Error> {
        let due = now + Duration::from_secs(1 << job.tries.min(12));
        let tries = Value::from(job.tries + 1);
        let changes = [("state", WAITING.into()), ("due", due.into()), ("tries", tries)];
        self.db.update(&self.jobs, &[job.id.into()], &changes)
    }
}

const JOBS: u64 = 1000;
const WORKERS: u64 = 4;

/// Sends a letter; some cannot be delivered at the first try.
fn is_sent(job: &Job) -> bool {
    job.tries > 0 || !job.payload.ends_with('7')
}

/// Takes jobs until there are none. What fails is put back, to be due at once.
fn work(queue: &Queue) -> Result<u64, Error> {
    let mut done = 0;
    while let Some(job) = queue.take(SystemTime::now())? {
        if is_sent(&job) {
            queue.complete(&job)?;
            done += 1;
        } else {
            queue.retry(&job, SystemTime::now() - Duration::from_secs(1))?;
        }
    }
    Ok(done)
}

fn main() -> Result<(), Error> {
    let directory = std::env::temp_dir().join(format!("perdura-queue-{}", std::process::id()));
    std::fs::create_dir_all(&directory).map_err(Error::user)?;
    let queue = Queue::open(&directory.join("jobs"))?;
    for job in 0..JOBS {
        queue.enqueue(&format!("letter {job}"), SystemTime::now())?;
    }
    let done: Result<Vec<u64>, Error> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(|| work(&queue))).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker ends")).collect()
    });
    let done = done?;
    println!("{JOBS} jobs, by worker: {done:?}");
    assert_eq!(done.iter().sum::<u64>(), JOBS);
    queue.db.close()?;
    std::fs::remove_dir_all(&directory).map_err(Error::user)
}
