//! Making a central log, and opening it again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use pm::{File, Files};

use super::super::wait::RoomWaits;
use super::end::{End, Ends, find_end, write_anew};
use super::group::Group;
use super::layout::{self, Head, SECTOR, Shape};
use super::space::Space;
use super::{Central, CentralOptions, State};
use crate::ids::Lsn;
use crate::threads::Threads;
use crate::{PagedError, Result};

/// The number of the first partition that is used. Zero is that of one that never was.
const FIRST_PARTITION: u32 = 1;

fn io(doing: &'static str) -> impl Fn(io::Error) -> PagedError {
    move |source| PagedError::Io { doing, source }
}

fn wrong(name: &str, what: impl Into<String>) -> PagedError {
    PagedError::WrongLog { name: name.into(), what: what.into() }
}

/// Writes the slot of the head that is not the newest.
pub(super) fn write_head<R: File>(file: &R, shape: &Shape, head: &Head) -> io::Result<()> {
    file.write_at(head.count % 2 * SECTOR as u64, &layout::head_slot(shape, head))?;
    file.sync()
}

fn read_head<F: Files>(files: &F, name: &str) -> Result<(F::File, Shape, Head)> {
    let file = open(files, name)?;
    let mut slots = [0; 2 * SECTOR];
    let filled = file.read_at(0, &mut slots).map_err(io("reading the log's head"))?;
    let read: Vec<_> = slots[..filled].chunks(SECTOR).map(layout::read_head_slot).collect();
    let newest = read.iter().flatten().max_by_key(|(_, head)| head.count);
    let Some((shape, head)) = newest.copied() else {
        let fault =
            read.iter().find_map(|read| read.err().filter(|f| *f != layout::Fault::Damaged));
        return Err(wrong(name, fault.unwrap_or(layout::Fault::Damaged).says()));
    };
    if shape.stamp != files.stamp() {
        return Err(wrong(name, layout::Fault::Other.says()));
    }
    Ok((file, shape, head))
}

fn open<F: Files>(files: &F, name: &str) -> Result<F::File> {
    files.open(name).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => wrong(name, "it is missing"),
        _ => io("opening the log")(error),
    })
}

impl<F: Files, T: Threads> Central<F, T> {
    /// Makes an empty log, durably.
    ///
    /// # Errors
    /// The medium refused. There may be some of its files, but the head comes last.
    ///
    /// # Panics
    /// If the options contradict each other.
    pub fn create(
        files: &F,
        prefix: &str,
        options: CentralOptions,
        threads: Arc<T>,
    ) -> Result<Self> {
        Self::create_from(files, prefix, options, threads, FIRST_PARTITION)
    }

    /// Works as [`Self::create`], with LSNs that are greater than those of any log that `create` has
    /// begun: for whoever reads pages whose log cannot be read, in files that nobody needs afterwards.
    /// A log that this has begun before has no lesser LSNs: such pages are not given another one.
    ///
    /// # Errors
    /// As [`Self::create`].
    ///
    /// # Panics
    /// As [`Self::create`].
    pub fn create_behind_all(
        files: &F,
        prefix: &str,
        options: CentralOptions,
        threads: Arc<T>,
    ) -> Result<Self> {
        Self::create_from(files, prefix, options, threads, u32::MAX / 2)
    }

    fn create_from(
        files: &F,
        prefix: &str,
        options: CentralOptions,
        threads: Arc<T>,
        first: u32,
    ) -> Result<Self> {
        options.check();
        let (partitions, partition_bytes) = (options.partitions, options.partition_bytes);
        let shape = Shape { stamp: files.stamp(), partitions, partition_bytes };
        let mut opened = Vec::new();
        for index in 0..partitions {
            let file = files.create(&format!("{prefix}{index}")).map_err(io("making the log"))?;
            let number = if index == first % partitions { first } else { 0 };
            let header = layout::partition_header(&shape, number, 1);
            file.write_at(0, &header).map_err(io("making the log"))?;
            file.sync().map_err(io("making the log"))?;
            opened.push(file);
        }
        let file = files.create(&format!("{prefix}head")).map_err(io("making the log"))?;
        let start = layout::lsn_of(first, SECTOR as u64);
        let head = Head { count: 0, restart: 1, start, first, reached: Lsn::NONE };
        write_head(&file, &shape, &head).map_err(io("making the log"))?;
        files.sync_directory().map_err(io("making the log"))?;
        let end = End {
            number: first,
            offset: SECTOR as u64,
            header_due: false,
            newest: Lsn::NONE,
            last: (first, SECTOR as u64..SECTOR as u64),
        };
        Self::assemble(opened, (file, head), shape, options, threads, &end)
    }

    /// Opens a log after the program has ended or died. Every record that [`super::LogManager::scan`]
    /// gives then is durable. The numbers of partitions and their bytes are those of its creation.
    ///
    /// # Errors
    /// A file is missing or belongs to another log, or the log ends before a record that was durable.
    ///
    /// # Panics
    /// If the options contradict each other.
    pub fn open(files: &F, prefix: &str, options: CentralOptions, threads: Arc<T>) -> Result<Self> {
        Self::open_at(files, prefix, options, threads, Ends::Soundly)
    }

    /// Works as [`Self::open`], but where a record is damaged the log ends: for whoever reads what can be
    /// read, in files that nobody needs afterwards.
    ///
    /// # Errors
    /// A file is missing or belongs to another log, or its header is damaged.
    ///
    /// # Panics
    /// As [`Self::open`].
    pub fn open_up_to_damage(
        files: &F,
        prefix: &str,
        options: CentralOptions,
        threads: Arc<T>,
    ) -> Result<Self> {
        Self::open_at(files, prefix, options, threads, Ends::Anywhere)
    }

    fn open_at(
        files: &F,
        prefix: &str,
        options: CentralOptions,
        threads: Arc<T>,
        ends: Ends,
    ) -> Result<Self> {
        let head_name = format!("{prefix}head");
        let (head_file, shape, mut head) = read_head(files, &head_name)?;
        let (partitions, partition_bytes) = (shape.partitions, shape.partition_bytes);
        // A partition has room for four records of the largest size, whatever is asked for now.
        let record_bytes = options.record_bytes.min(partition_bytes as usize / 4 / 8 * 8);
        let options = CentralOptions { partitions, partition_bytes, record_bytes, ..options };
        options.check();
        let mut opened = Vec::new();
        let mut headers = Vec::new();
        for index in 0..partitions {
            let name = format!("{prefix}{index}");
            let file = open(files, &name)?;
            let mut header = [0; SECTOR];
            let filled = file.read_at(0, &mut header).map_err(io("reading the log"))?;
            let found = layout::read_partition_header(&header[..filled], &shape);
            headers.push(found.map_err(|fault| wrong(&name, fault.says()))?);
            opened.push(file);
        }
        let end = find_end(&opened, &headers, &shape, &head, ends, options.record_bytes)?;
        if end.newest < head.reached && ends == Ends::Soundly {
            let at = layout::lsn_of(end.number, end.offset);
            let what = format!(
                "{prefix}{} is damaged or of another moment: the log ends here, but was durable up to {}",
                end.number % partitions,
                head.reached
            );
            return Err(PagedError::DamagedLog { at, what });
        }
        // Before anything is appended: what lies behind the end has a lower restart for ever.
        (head.count, head.restart) = (head.count + 1, head.restart + 1);
        write_head(&head_file, &shape, &head).map_err(io("writing the log's head"))?;
        write_anew(&opened, &end).map_err(io("making the log's end durable"))?;
        files.sync_directory().map_err(io("syncing the log's directory"))?;
        Self::assemble(opened, (head_file, head), shape, options, threads, &end)
    }

    fn assemble(
        files: Vec<F::File>,
        head: (F::File, Head),
        shape: Shape,
        options: CentralOptions,
        threads: Arc<T>,
        end: &End,
    ) -> Result<Self> {
        let space = Space {
            partitions: shape.partitions,
            partition_bytes: shape.partition_bytes,
            record_bytes: options.record_bytes as u64,
            first: head.1.first,
            number: end.number,
            offset: end.offset,
        };
        let (from, since) = layout::place_of(head.1.start);
        let found = u64::from(end.number - from) * shape.partition_bytes + end.offset - since;
        let reserved: io::Result<Vec<u64>> = files.iter().map(File::len).collect();
        let state = State {
            space,
            filling: Group::default(),
            writing: None,
            spare: Vec::new(),
            header_due: end.header_due,
            newest: end.newest,
            aside: 0,
            appended: 0,
            at_begin: 0,
            reserved: reserved.map_err(io("opening the log"))?,
            waiting: Vec::new(),
            gatherer: None,
            company: 0,
            sync_time: Duration::ZERO,
            stopped: None,
        };
        Ok(Self {
            files,
            threads,
            options,
            shape,
            restart: head.1.restart,
            head: Mutex::new(head),
            state: Mutex::new(state),
            durable: AtomicU64::new(end.newest.0),
            end: AtomicU64::new(layout::lsn_of(end.number, end.offset).0),
            appended: AtomicU64::new(0),
            at_checkpoint: AtomicU64::new(0),
            found: AtomicU64::new(found),
            room: RoomWaits::default(),
            checkpointer: Mutex::new(None),
            groups: AtomicU64::new(0),
        })
    }
}

/// The things that a log says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inspected {
    /// The number of partitions.
    pub partitions: u32,
    /// Bytes of a partition.
    pub partition_bytes: u64,
    /// The place where the last checkpoint lets recovery begin.
    pub checkpoint: Lsn,
    /// Bytes that were kept when that was written.
    pub kept_bytes: u64,
}

/// Looks at the log whose files have names that begin with `prefix`, without a change.
///
/// # Errors
/// Its head is missing or damaged, or the medium refuses.
pub fn inspect<F: Files>(files: &F, prefix: &str) -> Result<Inspected> {
    let (_, Shape { partitions, partition_bytes, .. }, head) =
        read_head(files, &format!("{prefix}head"))?;
    let (number, offset) = layout::place_of(head.reached.max(head.start));
    let before = u64::from(number.saturating_sub(head.first)) * partition_bytes;
    let checkpoint = head.start;
    Ok(Inspected { partitions, partition_bytes, checkpoint, kept_bytes: before + offset })
}
