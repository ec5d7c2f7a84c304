//! The master record in a file (P1 3.2): at a fixed offset, in two copies.
//! `docs/format/directory.md` draws the file.
//!
//! The first copy is the master record. Moving it: the pages of the batch are synced; the first
//! copy is written and synced. The second copy is written when the next batch is, before its first
//! sync: whenever the first copy is being overwritten, the second has the directory that was
//! durable before, and no page of that directory has been used again. So a torn first copy loses
//! nothing that was acknowledged.

use pm::Escaped;
use std::io;

use pm::{File, Files};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::directory::Directory;

/// Bytes in which header and copies are laid out: no two share a block of a disk.
pub const MASTER_BLOCK_BYTES: u64 = 4096;

const MAGIC: [u8; 8] = *b"PERDCOW\0";
const VERSION: u32 = 1;

/// The file of a directory could not be created, opened or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MasterError {
    /// The kernel refused.
    #[error("cannot {doing} {name}: {source}", name = Escaped(.name), source = Escaped(.source))]
    Io {
        /// The thing that was tried.
        doing: &'static str,
        /// The file.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The bytes are not what they must be.
    #[error("{name} is damaged: {what}; restore it from a backup", name = Escaped(.name))]
    Damaged {
        /// The file.
        name: String,
        /// The fault.
        what: &'static str,
    },
    /// The file belongs to another database.
    #[error("{name} belongs to another database or partition; put the right file back", name = Escaped(.name))]
    Foreign {
        /// The file.
        name: String,
    },
    /// The file is of another version of the format.
    #[error("{name} has format version {found}; this build reads version {VERSION}", name = Escaped(.name))]
    Version {
        /// The file.
        name: String,
        /// Its version.
        found: u32,
    },
}

/// The first bytes of the file, written once.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    version: U32,
    checksum: U32,
    page_bytes: U32,
    directory_words: U32,
    /// Distinguishes this partition's file from those of others.
    owner: U64,
}

const _: () = assert!(size_of::<Header>() == 32);
/// Bytes of a copy before its words: their checksum and number.
const COPY_HEADER_BYTES: usize = 8;

/// The master record of a file.
#[derive(Debug)]
pub struct FileMaster {
    name: String,
    page_bytes: u32,
    words: usize,
    /// The first copy as it was written last, for the second one.
    image: Vec<u8>,
    second_is_older: bool,
    /// The first copy was torn or damaged when the file was opened.
    is_second_copy: bool,
}

fn header_of(page_bytes: u32, words: usize, owner: u64) -> Header {
    let mut header = Header {
        magic: MAGIC,
        version: VERSION.into(),
        checksum: 0.into(),
        page_bytes: page_bytes.into(),
        directory_words: (words as u32).into(),
        owner: owner.into(),
    };
    header.checksum = crc32c::crc32c(header.as_bytes()).into();
    header
}

impl FileMaster {
    fn new(name: &str, page_bytes: u32, words: usize) -> Self {
        Self {
            name: name.into(),
            page_bytes,
            words,
            image: Vec::new(),
            second_is_older: false,
            is_second_copy: false,
        }
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Returns whether the second copy was taken when the file was opened, since the first one has
    /// a wrong checksum: a crash in the middle of a move leaves it so, and damage does.
    pub fn is_second_copy(&self) -> bool {
        self.is_second_copy
    }

    fn copy_bytes(&self) -> u64 {
        ((COPY_HEADER_BYTES + self.words * 8) as u64).next_multiple_of(MASTER_BLOCK_BYTES)
    }

    fn copy_at(&self, copy: u64) -> u64 {
        MASTER_BLOCK_BYTES + copy * self.copy_bytes()
    }

    /// Returns where the first page lies.
    pub fn data_at(&self) -> u64 {
        self.copy_at(2)
    }

    /// Creates the file `name`, durably, with an empty directory. `owner` distinguishes it from the
    /// files of others.
    ///
    /// # Errors
    /// The kernel refuses, or there is such a file already.
    pub fn create<F: Files>(
        files: &F,
        name: &str,
        page_bytes: u32,
        owner: u64,
        directory: &Directory,
    ) -> Result<(Self, F::File), MasterError> {
        let mut master = Self::new(name, page_bytes, directory.word_count());
        let failed = io_error(name, "create");
        let file = files.create(name).map_err(&failed)?;
        file.reserve(master.data_at()).map_err(&failed)?;
        let header = header_of(page_bytes, master.words, owner);
        file.write_at(0, header.as_bytes()).map_err(&failed)?;
        master.encode(directory);
        for copy in 0..2 {
            file.write_at(master.copy_at(copy), &master.image).map_err(&failed)?;
        }
        file.sync().map_err(&failed)?;
        files.sync_directory().map_err(&failed)?;
        Ok((master, file))
    }

    /// Opens the file `name`; `directory` gets its contents.
    ///
    /// # Errors
    /// There is no such file, it belongs to another database, or is damaged.
    pub fn open<F: Files>(
        files: &F,
        name: &str,
        owner: u64,
        directory: &mut Directory,
    ) -> Result<(Self, F::File), MasterError> {
        let mut master = Self::new(name, 0, directory.word_count());
        let failed = io_error(name, "open");
        let file = files.open(name).map_err(&failed)?;
        let mut bytes = [0; size_of::<Header>()];
        let read = file.read_at(0, &mut bytes).map_err(&failed)?;
        let header: Header = zerocopy::transmute!(bytes);
        let damaged = |what| MasterError::Damaged { name: name.into(), what };
        if read < bytes.len() || header.magic != MAGIC {
            return Err(damaged("it does not begin like a file of pages"));
        }
        // Before the checksum, whose place another version may have changed.
        if header.version.get() != VERSION {
            return Err(MasterError::Version { name: name.into(), found: header.version.get() });
        }
        let page_bytes = header.page_bytes.get();
        let words = header.directory_words.get() as usize;
        if header_of(page_bytes, words, header.owner.get()).checksum != header.checksum {
            return Err(damaged("the checksum of its header is wrong"));
        }
        if words != master.words || header.owner.get() != owner {
            return Err(MasterError::Foreign { name: name.into() });
        }
        master.page_bytes = page_bytes;
        let first = master.read_copy(&file, 0)?;
        let second = master.read_copy(&file, 1)?;
        master.is_second_copy = first.is_none();
        let newer = match (first, second.clone()) {
            (Some(first), Some(second)) => {
                Some(if number(&second) > number(&first) { second } else { first })
            }
            (first, second) => first.or(second),
        };
        let Some(image) = newer else {
            return Err(damaged("both copies of its master record have a wrong checksum"));
        };
        let words = image[COPY_HEADER_BYTES..].chunks_exact(8);
        let set =
            directory.set_words(words.map(|word| word.try_into().map_or(0, u64::from_le_bytes)));
        set.map_err(|_| damaged("its master record is too short"))?;
        // The last process's record counts from now on, so it must stay. If its last sync,
        // that of the master record, failed, the kernel takes the record for written: once more.
        // The pages that it leads to were synced before it was written.
        let copy = u64::from(second.as_ref() == Some(&image));
        file.write_at(master.copy_at(copy), &image).map_err(&failed)?;
        file.sync().map_err(&failed)?;
        master.image = image;
        // Either copy may be the one that a crash tore.
        master.second_is_older = true;
        Ok((master, file))
    }

    /// A copy, if its checksum is right.
    fn read_copy<F: File>(&self, file: &F, copy: u64) -> Result<Option<Vec<u8>>, MasterError> {
        let mut bytes = vec![0; COPY_HEADER_BYTES + self.words * 8];
        let read =
            file.read_at(self.copy_at(copy), &mut bytes).map_err(io_error(&self.name, "read"))?;
        Ok((read == bytes.len() && bytes[..8] == copy_header(&bytes[8..])).then_some(bytes))
    }

    fn encode(&mut self, directory: &Directory) {
        self.image.clear();
        self.image.resize(COPY_HEADER_BYTES, 0);
        for word in directory.words() {
            self.image.extend_from_slice(&word.to_le_bytes());
        }
        let header = copy_header(&self.image[COPY_HEADER_BYTES..]);
        self.image[..COPY_HEADER_BYTES].copy_from_slice(&header);
    }

    /// First step of a move: brings the second copy up to date and syncs it with all pages that
    /// have been written.
    ///
    /// # Errors
    /// The medium failed: nothing more may be acknowledged.
    #[track_caller]
    pub fn sync_pages<F: File>(&mut self, file: &F) -> Result<(), MasterError> {
        let second_is_older = std::mem::take(&mut self.second_is_older);
        let failed = io_error(&self.name, "write");
        if second_is_older {
            file.write_at(self.copy_at(1), &self.image).map_err(&failed)?;
        }
        file.sync().map_err(&failed)
    }

    /// Writes the second copy of the master record, which may be older than the first, and syncs it.
    /// A file that is closed has two equal copies; after a crash the first one counts.
    ///
    /// # Errors
    /// The medium failed.
    #[track_caller]
    pub fn finish<F: File>(&mut self, file: &F) -> Result<(), MasterError> {
        if self.second_is_older { self.sync_pages(file) } else { Ok(()) }
    }

    /// Second step: moves the master record to `directory`, durably.
    ///
    /// # Errors
    /// The medium failed: nothing more may be acknowledged.
    #[track_caller]
    pub fn move_to<F: File>(&mut self, file: &F, directory: &Directory) -> Result<(), MasterError> {
        self.encode(directory);
        self.second_is_older = true;
        let failed = io_error(&self.name, "write");
        file.write_at(self.copy_at(0), &self.image).map_err(&failed)?;
        file.sync().map_err(&failed)
    }
}

fn io_error<'a>(name: &'a str, doing: &'static str) -> impl Fn(io::Error) -> MasterError + 'a {
    move |source| MasterError::Io { doing, name: name.into(), source }
}

/// The number of the transaction, which the words start with.
fn number(image: &[u8]) -> u64 {
    image[COPY_HEADER_BYTES..COPY_HEADER_BYTES + 8].try_into().map_or(0, u64::from_le_bytes)
}

fn copy_header(words: &[u8]) -> [u8; COPY_HEADER_BYTES] {
    let mut header = [0; COPY_HEADER_BYTES];
    header[..4].copy_from_slice(&crc32c::crc32c(words).to_le_bytes());
    header[4..].copy_from_slice(&((words.len() / 8) as u32).to_le_bytes());
    header
}

#[cfg(test)]
mod tests {
    use sim::RecordingFiles;

    use super::*;

    #[test]
    fn the_layout_is_that_of_the_format_description() {
        let header: [u8; 32] = zerocopy::transmute!(header_of(4096, 3, 7));
        assert_eq!(&header[..12], b"PERDCOW\0\x01\0\0\0");
        assert_eq!(header[16..], [0, 16, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        let master = FileMaster::new("f", 4096, 3);
        assert_eq!((master.copy_at(0), master.copy_at(1), master.data_at()), (4096, 8192, 12_288));
    }

    #[test]
    fn torn_first_copy_after_opening_loses_nothing() {
        let files = RecordingFiles::new();
        let mut directory = Directory::new(1, 1, 1);
        let (mut master, file) = FileMaster::create(&files, "f", 512, 7, &directory).unwrap();
        for transaction in 1..=2 {
            directory.transaction = transaction;
            master.sync_pages(&file).unwrap();
            master.move_to(&file, &directory).unwrap();
        }
        let (first, second) = (master.copy_at(0) as usize, master.copy_at(1) as usize);
        // Older than the first copy, as a kill leaves it; or torn, as a power cut does.
        for torn in [false, true] {
            let mut image = files.image();
            image.get_mut("f").unwrap()[second] ^= u8::from(torn);
            let files = RecordingFiles::from_image(image);
            let mut opened = Directory::new(1, 1, 1);
            let (mut master, file) = FileMaster::open(&files, "f", 7, &mut opened).unwrap();
            assert_eq!((opened.transaction, master.is_second_copy()), (2, false));
            master.sync_pages(&file).unwrap();
            opened.transaction = 3;
            master.move_to(&file, &opened).unwrap();
            let mut image = files.image();
            image.get_mut("f").unwrap()[first] ^= 1;
            let files = RecordingFiles::from_image(image);
            let (master, _) = FileMaster::open(&files, "f", 7, &mut opened).unwrap();
            assert_eq!((opened.transaction, master.is_second_copy()), (2, true), "torn: {torn}");
        }
    }
}
