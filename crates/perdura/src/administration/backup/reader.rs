//! Reading a backup, from front to back: every byte is checked before it is believed.

use std::io::Read;

use engines::below::{Catalog, Source, json_error};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::layout::{
    BlockHeader, DESCRIPTION, Description, Header, MAGIC, PAGES, PARTITION_END, PartitionEnd,
    TABLE_END, TRAILER, TUPLES, TableEnd, Trailer,
};
use crate::administration::tuple_code::Tally;
use crate::error::{BACKUP_VERSION, BackupError, Error};

/// Bytes that no block has.
const BLOCK_LIMIT: u32 = 256 << 20;

/// A backup that is being read.
#[derive(Debug)]
pub(super) struct Reader {
    source: Source,
    path: String,
    uuid: [u8; 16],
    at: u64,
    /// CRC-32C of all bytes before `at`.
    checksum: u32,
    blocks: u64,
}

/// The contents of a block.
pub(super) enum Block<'a> {
    /// Tuples of a table, with where their bytes begin in the file.
    Tuples { partition: u32, table: u32, tuples: u32, bytes: &'a [u8], at: u64 },
    /// A table in a partition is complete.
    TableEnd { partition: u32, table: u32, tally: Tally },
    /// Pages of a partition of a base backup.
    Pages { partition: u32, pages: u32, bytes: &'a [u8] },
    /// A partition of a base backup is complete.
    PartitionEnd { partition: u32, end: PartitionEnd },
    /// The end of the backup.
    Trailer { tuples: u64 },
}

impl Reader {
    /// Reads the header and the description; the reader then stands at the block after them.
    pub(super) fn open(source: Source, path: String) -> Result<(Self, Description), Error> {
        let mut reader = Self { source, path, uuid: [0; 16], at: 0, checksum: 0, blocks: 0 };
        let description = reader.restart()?;
        Ok((reader, description))
    }

    /// The same from the front.
    pub(super) fn restart(&mut self) -> Result<Description, Error> {
        self.source.rewind().map_err(|source| Error::Io { path: self.path.clone(), source })?;
        (self.at, self.checksum, self.blocks) = (0, 0, 0);
        let mut header = Header::new_zeroed();
        if self.source.total_bytes() < size_of::<Header>() as u64 {
            return Err(BackupError::NotABackup { path: self.path.clone() }.into());
        }
        self.take(header.as_mut_bytes())?;
        if header.magic != MAGIC {
            return Err(BackupError::NotABackup { path: self.path.clone() }.into());
        }
        if header.version.get() != BACKUP_VERSION {
            let found = header.version.get();
            return Err(BackupError::Version { path: self.path.clone(), found }.into());
        }
        if header.checksum.get() != header.sum() {
            return Err(self.damaged(0, "the header's checksum is wrong"));
        }
        self.uuid = header.uuid;
        let (mut contents, at) = (Vec::new(), self.at);
        let header = self.block(&mut contents)?;
        if header.kind.get() != DESCRIPTION {
            return Err(self.damaged(at, "the first block is no description"));
        }
        // Its checksum is right: a newer build has written it.
        let description: Description = serde_json::from_slice(&contents).map_err(|error| {
            BackupError::Unknown { path: self.path.clone(), why: json_error(&error) }
        })?;
        if let Err(error) = Catalog::new(&description.schema) {
            return Err(self.damaged(at, &format!("the schema makes no sense: {error}")));
        }
        if !(1..=256).contains(&description.partitions) {
            return Err(self.damaged(at, "the number of partitions makes no sense"));
        }
        Ok(description)
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Bytes read, and bytes of the file.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.at, self.source.total_bytes())
    }

    pub(super) fn damaged(&self, at: u64, what: &str) -> Error {
        BackupError::Damaged { path: self.path.clone(), at, what: what.into() }.into()
    }

    fn take(&mut self, out: &mut [u8]) -> Result<(), Error> {
        let cut = self.source.total_bytes() - self.at < out.len() as u64;
        let read = if cut {
            Err(std::io::ErrorKind::UnexpectedEof.into())
        } else {
            self.source.read_exact(out)
        };
        read.map_err(|source| match source.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                self.damaged(self.source.total_bytes(), "the file ends here, too early")
            }
            _ => Error::Io { path: self.path.clone(), source },
        })?;
        self.checksum = crc32c::crc32c_append(self.checksum, out);
        self.at += out.len() as u64;
        Ok(())
    }

    /// Reads a block whose checksum and number are right.
    fn block(&mut self, contents: &mut Vec<u8>) -> Result<BlockHeader, Error> {
        let at = self.at;
        let mut header = BlockHeader::new_zeroed();
        self.take(header.as_mut_bytes())?;
        let bytes = header.bytes.get();
        // Before anything is believed: it bounds the memory that is taken.
        if u64::from(bytes) > self.source.total_bytes() - self.at || bytes > BLOCK_LIMIT {
            let what = "this block is longer than the rest of the file: the file was cut off, or the block is damaged";
            return Err(self.damaged(at, what));
        }
        contents.clear();
        contents.resize(bytes as usize, 0);
        self.take(contents)?;
        if header.checksum.get() != header.sum(&self.uuid, contents) {
            return Err(self.damaged(at, "a block's checksum is wrong"));
        }
        if header.number.get() != self.blocks {
            return Err(self.damaged(at, "a block is not in its place"));
        }
        self.blocks += 1;
        Ok(header)
    }

    /// Reads the next block.
    pub(super) fn next<'a>(&mut self, contents: &'a mut Vec<u8>) -> Result<Block<'a>, Error> {
        let (at, before) = (self.at, self.checksum);
        let header = self.block(contents)?;
        let contents = &contents[..];
        let (partition, table) = (header.partition.get(), header.table.get());
        match header.kind.get() {
            TUPLES => {
                let at = at + size_of::<BlockHeader>() as u64;
                Ok(Block::Tuples {
                    partition,
                    table,
                    tuples: header.tuples.get(),
                    bytes: contents,
                    at,
                })
            }
            TABLE_END => {
                let end = TableEnd::read_from_bytes(contents)
                    .map_err(|_| self.damaged(at, "the end of a table has another length"))?;
                let tally = Tally { tuples: end.tuples.get(), sum: end.sum.get() };
                Ok(Block::TableEnd { partition, table, tally })
            }
            PAGES => Ok(Block::Pages { partition, pages: header.tuples.get(), bytes: contents }),
            PARTITION_END => {
                let end = PartitionEnd::read_from_bytes(contents)
                    .map_err(|_| self.damaged(at, "the end of a partition has another length"))?;
                Ok(Block::PartitionEnd { partition, end })
            }
            TRAILER => {
                let end = Trailer::read_from_bytes(contents)
                    .map_err(|_| self.damaged(at, "the last block has another length"))?;
                if end.checksum.get() != before {
                    return Err(self.damaged(at, "the checksum of the whole file is wrong"));
                }
                if end.bytes.get() != self.at || self.at != self.source.total_bytes() {
                    return Err(self.damaged(self.at, "the file does not end with its last block"));
                }
                Ok(Block::Trailer { tuples: end.tuples.get() })
            }
            _ => Err(self.damaged(at, "a block of no known kind")),
        }
    }
}
