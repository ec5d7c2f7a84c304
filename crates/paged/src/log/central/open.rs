//! Creates and opens a central log.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use pm::{File, Files};
use storage::segments::Segment;

use super::super::wait::RoomWaits;
use super::end::{End, Ends, find_end, write_anew};
use super::group::Group;
use super::layout::{self, Head, SECTOR, Shape};
use super::space::{Space, sync_all};
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
    let file = open(name, files.open(name))?;
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

/// A file that was opened; one that is missing is named.
fn open<V>(name: &str, opened: io::Result<V>) -> Result<V> {
    opened.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => wrong(name, "it is missing"),
        _ => io("opening the log")(error),
    })
}

/// The header of a partition: its number, and that of its restart.
type PartitionHeader = (u32, u32);

/// Opens the file of a partition, and reads its header.
fn open_partition<F: Files>(
    files: &F,
    name: &str,
    shape: &Shape,
) -> Result<(Segment<F::File>, PartitionHeader)> {
    let segment = open(name, Segment::open(files, name))?;
    let mut header = [0; SECTOR];
    let filled = segment.file().read_at(0, &mut header).map_err(io("reading the log"))?;
    let found = layout::read_partition_header(&header[..filled], shape);
    Ok((segment, found.map_err(|fault| wrong(name, fault.says()))?))
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

    /// Works as [`Self::create`], with LSNs that are greater than those of any log that `create`
    /// has begun: for reading pages whose log cannot be read, in files that are not needed
    /// afterwards. A log that this has begun before has no lesser LSNs: such pages are not given
    /// another one.
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
            let name = format!("{prefix}{index}");
            let segment = Segment::create(files, &name).map_err(io("making the log"))?;
            let number = if index == first % partitions { first } else { 0 };
            let header = layout::partition_header(&shape, number, 1);
            segment.begin(&header).map_err(io("making the log"))?;
            opened.push(segment);
        }
        let file = files.create(&format!("{prefix}head")).map_err(io("making the log"))?;
        file.reserve(2 * SECTOR as u64).map_err(io("making the log"))?;
        let start = layout::lsn_of(first, SECTOR as u64);
        let head = Head { count: 0, restart: 1, start, first, reached: Lsn::NONE };
        write_head(&file, &shape, &head).map_err(io("making the log"))?;
        files.sync_directory().map_err(io("making the log"))?;
        let end = End {
            number: first,
            offset: SECTOR as u64,
            header_due: false,
            newest: Lsn::NONE,
            last: ((first % partitions) as usize, SECTOR as u64..SECTOR as u64),
            bytes: 0,
        };
        let kept = [end.last.0].into();
        let log = Self::assemble((opened, kept), (file, head), shape, options, threads, &end);
        if !log.state.lock().space.reserve(0).map_err(io("making the log"))? {
            return Err(io("making the log")(io::ErrorKind::StorageFull.into()));
        }
        log.sync_space()?;
        Ok(log)
    }

    /// Opens a log after the program has ended or died. Every record that
    /// [`super::LogManager::scan`] gives then is durable. The numbers of partitions and their bytes
    /// are those of its creation.
    ///
    /// # Errors
    /// A file is missing or belongs to another log, or the log ends before a record that was
    /// durable.
    ///
    /// # Panics
    /// If the options contradict each other.
    pub fn open(files: &F, prefix: &str, options: CentralOptions, threads: Arc<T>) -> Result<Self> {
        Self::open_at(files, prefix, options, threads, Ends::Soundly)
    }

    /// Works as [`Self::open`], but the log ends where a record is damaged: for reading what can be
    /// read, in files that are not needed afterwards.
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
            let (segment, header) = open_partition(files, &format!("{prefix}{index}"), &shape)?;
            opened.push(segment);
            headers.push(header);
        }
        let end = find_end(&opened, &headers, &shape, &head, ends, options.record_bytes)?;
        if end.newest < head.reached && ends == Ends::Soundly {
            let at = layout::lsn_of(end.number, end.offset);
            let what = format!(
                "{prefix}{} is damaged or of another moment: the log ends here, but was durable up to {}",
                end.last.0, head.reached
            );
            return Err(PagedError::DamagedLog { at, what });
        }
        let begun = if end.header_due { end.number - 1 } else { end.number };
        let file_of = |number: u32| headers.iter().position(|(found, _)| *found == number);
        let kept: VecDeque<usize> = (head.first..=begun).filter_map(file_of).collect();
        if end.header_due && kept.len() == opened.len() {
            let (at, what) = (layout::lsn_of(end.number, 0), "no file is free for it".into());
            return Err(PagedError::DamagedLog { at, what });
        }
        // Before anything is appended: what lies after the end has a lower restart for ever.
        (head.count, head.restart) = (head.count + 1, head.restart + 1);
        write_head(&head_file, &shape, &head).map_err(io("writing the log's head"))?;
        write_anew(&opened, &end).map_err(io("making the log's end durable"))?;
        files.sync_directory().map_err(io("syncing the log's directory"))?;
        let log = Self::assemble((opened, kept), (head_file, head), shape, options, threads, &end);
        log.sync_space()?;
        Ok(log)
    }

    /// Makes durable what is reserved in the files: by this program, or by one that has died.
    fn sync_space(&self) -> Result<()> {
        let unsynced = self.state.lock().space.take_unsynced(None);
        sync_all(&unsynced).map_err(io("syncing space of the log"))
    }

    fn assemble(
        (segments, kept): (Vec<Segment<F::File>>, VecDeque<usize>),
        head: (F::File, Head),
        shape: Shape,
        options: CentralOptions,
        threads: Arc<T>,
        end: &End,
    ) -> Self {
        let files = segments.iter().map(|segment| Arc::clone(segment.file())).collect();
        let number = if end.header_due { end.number - 1 } else { end.number };
        let sizes = (options.record_bytes as u64, options.reserve_bytes);
        let mut space = Space::new(segments, kept, &shape, sizes, (number, end.offset));
        if end.header_due {
            space.advance();
        }
        let state = State {
            space,
            filling: Group::default(),
            writing: None,
            spare: None,
            header_due: end.header_due,
            newest: end.newest,
            aside: 0,
            appended: 0,
            at_begin: 0,
            waiting: Vec::new(),
            gatherer: None,
            company: 0,
            sync_time: Duration::ZERO,
            stopped: None,
        };
        Self {
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
            found: AtomicU64::new(end.bytes),
            room: RoomWaits::default(),
            checkpointer: Mutex::new(None),
            groups: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
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
    let (_, shape, head) = read_head(files, &format!("{prefix}head"))?;
    let Shape { partitions, partition_bytes, .. } = shape;
    let (newest, mut kept_bytes) = layout::place_of(head.reached.max(head.start));
    for index in 0..partitions {
        let (segment, (number, _)) = open_partition(files, &format!("{prefix}{index}"), &shape)?;
        if (head.first..newest).contains(&number) {
            kept_bytes += segment.reserved();
        }
    }
    Ok(Inspected { partitions, partition_bytes, checkpoint: head.start, kept_bytes })
}
