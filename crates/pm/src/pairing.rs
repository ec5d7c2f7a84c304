//! The file `identity`, by which files belong to a pool: it stands in their directory and
//! says whose they are, and of which opening.
//!
//! Invariants:
//! - Files are used with the pool that has their uuid, and with it as it was when they were written
//!   last: never with another moment of it.
//! - At every moment, a crash included, the epoch in the pool's header is one of the two in the file.
//! - Of two whole copies in the file the one with the higher sequence number counts; a change is
//!   written to the other one.
//! - From the first file in their directory on there is a file that says whose they are: until the file
//!   `identity` is whole, its name says so.
//!
//! At every opening to write:
//!
//! 1. If the file has two epochs, an opening was cut off: both copies of the pool's header are
//!    written once more as they are, durably. Until then a power cut could take back the epoch that
//!    is seen in it, or what is left of a torn copy could make the abandoned epoch whole again.
//! 2. The copy of the file that counts is written once more, durably: a process that was killed may
//!    have left it in the kernel only, and the other copy is about to go.
//! 3. The other copy gets the pool's epoch and, after it, the next one, durably. Nothing else has
//!    changed in the files: they go with the pool as it is.
//! 4. The pool's header gets the next epoch, durably.
//! 5. The file gets the next epoch alone, durably. Only now may other files change.
//!
//! An opening that is refused and has changed nothing else goes back by steps 3 to 5, with the epoch
//! that there was before as the next one.
//!
//! An epoch is a number, for people, and random bits, so that two copies of a database that are each
//! opened have different ones. `docs/format/identity.md` draws the file.

use std::io;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::epoch::{Epoch, FilesOf};
use crate::files::{File, Files};
use crate::last_transactions::{IDENTITY_BYTES, LastTransactions};
use crate::names::IDENTITY;

/// The places where its two copies start.
const COPIES: [u64; 2] = [0, 4096];
const BYTES: usize = 80;
const MAGIC: u64 = u64::from_le_bytes(*b"PERDFILE");
const VERSION: u64 = 1;

/// Returns the stamp of the database with this uuid, never zero: see [`Files::stamp`].
#[must_use]
pub fn stamp_of(uuid: [u8; 16]) -> u32 {
    crc32c::crc32c(&uuid).max(1)
}

/// The name of the file of a pool's files until it is whole.
fn claim_of(uuid: [u8; 16]) -> String {
    let mut name = format!("{IDENTITY}-");
    uuid.iter().for_each(|byte| name += &format!("{byte:02x}"));
    name
}

/// A copy as it stands in the file. All integers little-endian.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, Debug)]
#[repr(C)]
struct Layout {
    magic: u64,
    version: u64,
    uuid: [u8; 16],
    sequence: u64,
    epoch: Epoch,
    next: Epoch,
    checksum: u64,
}

const _: () = assert!(size_of::<Layout>() == BYTES);
const _: () = assert!(std::mem::offset_of!(Layout, checksum) == BYTES - 8);

impl Layout {
    fn sum(&self) -> u64 {
        u64::from(crc32c::crc32c(&self.as_bytes()[..BYTES - 8]))
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let layout = Self::read_from_bytes(bytes).ok()?;
        let whole =
            layout.magic == MAGIC && layout.version == VERSION && layout.checksum == layout.sum();
        whole.then_some(layout)
    }
}

/// The file `identity` of a directory.
#[derive(Debug)]
pub struct Pairing<F: Files> {
    file: F::File,
    counts: Layout,
    /// The copy that counts.
    copy: usize,
}

impl<F: Files> Pairing<F> {
    /// Marks the files in a new directory as those of the pool with this uuid, durably.
    ///
    /// # Errors
    /// No room, or the medium failed.
    #[track_caller]
    pub fn create(files: &F, uuid: [u8; 16]) -> io::Result<Self> {
        let claim = Self::claim(files, uuid)?;
        let file = files.open(&claim)?;
        let epoch = Epoch::default();
        let counts = Layout {
            magic: MAGIC,
            version: VERSION,
            uuid,
            sequence: 0,
            epoch,
            next: epoch,
            checksum: 0,
        };
        // What a later change overwrites has space.
        file.reserve(IDENTITY_BYTES)?;
        let mut pairing = Self { file, counts, copy: 1 };
        // Both copies: one that is damaged later is not needed.
        pairing.write(epoch, epoch)?;
        pairing.write(epoch, epoch)?;
        files.rename_new(&claim, IDENTITY)?;
        files.sync_directory()?;
        Ok(pairing)
    }

    /// Makes an empty file in a new directory whose name says that all in it belongs to the pool with this
    /// uuid. Returns its name.
    ///
    /// # Errors
    /// No room, or the medium failed.
    #[track_caller]
    pub fn claim(files: &F, uuid: [u8; 16]) -> io::Result<String> {
        let name = claim_of(uuid);
        files.create(&name)?;
        Ok(name)
    }

    /// Returns whether the files in a directory say that they belong to the pool with this uuid.
    ///
    /// # Errors
    /// The medium failed, or the kernel refuses.
    pub(crate) fn belong(files: &F, uuid: [u8; 16]) -> io::Result<bool> {
        if files.is_taken(&claim_of(uuid))? {
            return Ok(true);
        }
        Ok(Self::open(files)?.is_ok_and(|pairing| pairing.counts.uuid == uuid))
    }

    /// Reads whose files they are; `None` if nothing says so.
    ///
    /// # Errors
    /// The medium failed, or the kernel refuses.
    pub fn open(files: &F) -> io::Result<Result<Self, FilesOf>> {
        let file = match files.open(IDENTITY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Err(FilesOf::NoIdentity));
            }
            file => file?,
        };
        let mut best: Option<(Layout, usize)> = None;
        for (copy, at) in COPIES.into_iter().enumerate() {
            let mut bytes = [0; BYTES];
            if file.read_at(at, &mut bytes)? < BYTES {
                continue;
            }
            if let Some(layout) = Layout::decode(&bytes)
                && best.is_none_or(|(best, _)| best.sequence < layout.sequence)
            {
                best = Some((layout, copy));
            }
        }
        Ok(match best {
            Some((counts, copy)) => Ok(Self { file, counts, copy }),
            None => Err(FilesOf::Damaged),
        })
    }

    /// Returns an error unless they belong to the pool with this uuid and epoch.
    ///
    /// # Errors
    /// They do not; whose they are.
    pub fn check(&self, uuid: [u8; 16], epoch: Epoch) -> Result<(), FilesOf> {
        if self.counts.uuid != uuid {
            return Err(FilesOf::Another(self.counts.uuid));
        }
        if epoch != self.counts.epoch && epoch != self.counts.next {
            let (pool, files) = (epoch.number, self.counts.next.number);
            return Err(FilesOf::OtherMoment { pool, files });
        }
        Ok(())
    }

    /// The last transaction of each partition when the database was closed last, if that is known.
    ///
    /// # Errors
    /// The medium failed.
    pub fn last_transactions(&self) -> io::Result<Option<LastTransactions>> {
        LastTransactions::read(&self.file)
    }

    /// Notes the last transaction of each partition. All files of the database are durable, and the
    /// pool does not say yet that it is closed.
    ///
    /// # Errors
    /// The medium failed, or is full.
    #[track_caller]
    pub fn note_ends(&self, last: Vec<u64>) -> io::Result<()> {
        LastTransactions { epoch: self.counts.next, last }.write(&self.file)
    }

    /// Returns whether an opening was cut off, so that the pool's header is to be settled before
    /// [`Pairing::rewrite`] (step 1).
    pub fn was_cut_off(&self) -> bool {
        self.counts.epoch != self.counts.next
    }

    /// Step 2 of an opening: what was read is durable.
    ///
    /// # Errors
    /// The medium failed.
    #[track_caller]
    pub fn rewrite(&self) -> io::Result<()> {
        // A sync alone is not enough: after one that failed the kernel takes it for written.
        self.file.write_at(COPIES[self.copy], self.counts.as_bytes())?;
        self.file.sync()
    }

    /// Step 3: the files go with the pool as it is, in this epoch, and with what comes next.
    ///
    /// # Errors
    /// The medium failed.
    #[track_caller]
    pub fn begin(&mut self, epoch: Epoch, next: Epoch) -> io::Result<()> {
        self.write(epoch, next)
    }

    /// Step 3 of taking an opening back that has changed nothing: what comes next is the epoch that
    /// there was before. Steps 4 and 5 follow.
    ///
    /// # Errors
    /// The medium failed.
    #[track_caller]
    pub fn begin_back(&mut self, before: Epoch) -> io::Result<()> {
        self.write(self.counts.next, before)
    }

    /// Step 5: the files go with the pool in the next epoch only.
    ///
    /// # Errors
    /// The medium failed.
    #[track_caller]
    pub fn finish(&mut self) -> io::Result<()> {
        let next = self.counts.next;
        self.write(next, next)
    }

    #[track_caller]
    fn write(&mut self, epoch: Epoch, next: Epoch) -> io::Result<()> {
        let last = || io::Error::new(io::ErrorKind::InvalidData, "its sequence is at its end");
        let sequence = self.counts.sequence.checked_add(1).ok_or_else(last)?;
        let mut layout = Layout { sequence, epoch, next, ..self.counts };
        layout.checksum = layout.sum();
        let copy = 1 - self.copy;
        self.file.write_at(COPIES[copy], layout.as_bytes())?;
        self.file.sync()?;
        (self.counts, self.copy) = (layout, copy);
        Ok(())
    }
}
