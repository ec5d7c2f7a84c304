//! A job queue: jobs become due, one worker takes each, and what fails is tried again later. A job
//! that was running when the process was killed is there again when the queue is opened.

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
        // Nobody runs these any more.
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

    /// Returns the job that has been due for longest, which is this worker's from now on.
    pub(crate) fn take(&self, now: SystemTime) -> Result<Option<Job>, Error> {
        self.db.write(|tx| {
            let due = Scan::range(vec![WAITING.into()]..=vec![WAITING.into(), now.into()]);
            let first = tx.rows(&self.jobs, due.by("by_due").limit(1)).next().transpose()?;
            let Some(row) = first else { return Ok(None) };
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

fn main() -> Result<(), Error> {
    let queue = Queue::open(&std::env::temp_dir().join("perdura-example-queue"))?;
    queue.enqueue("write a letter", SystemTime::now())?;
    let Some(job) = queue.take(SystemTime::now())? else { return Ok(()) };
    println!("job {}, try {}: {}", job.id, job.tries + 1, job.payload);
    if job.tries == 0 { queue.retry(&job, SystemTime::now()) } else { queue.complete(&job) }
}
