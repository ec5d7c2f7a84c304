//! The bytes of the central log's files: see `docs/format/paged-log.md`.

use storage::segments::header::{self, Fault as NoHeader};

use super::super::record::{self, Placed};
use super::super::{Kind, Record};
use crate::ids::{Lsn, PageNo, TxNo};

/// Bytes that a medium writes whole: a header's size, and where records begin.
pub(super) const SECTOR: usize = 512;

/// Bytes of a seal, for which each partition keeps room.
pub(super) const SEAL_BYTES: u64 = record::HEADER_BYTES as u64;

/// The code of a seal.
pub(super) const SEAL: u8 = 255;

/// Version 2 differs in the file that a partition has: that of its number modulo their number.
const VERSION: u32 = 3;
const OLDEST: u32 = 2;
const PARTITION_MAGIC: &[u8; 8] = b"PERDPLOG";
const HEAD_MAGIC: &[u8; 8] = b"PERDPLHD";

/// The form of a log, which never changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) stamp: u32,
    pub(super) partitions: u32,
    pub(super) partition_bytes: u64,
}

/// The place of byte `offset` in partition `number`.
pub(super) fn lsn_of(number: u32, offset: u64) -> Lsn {
    Lsn(u64::from(number) << 32 | offset)
}

/// The partition and the offset of a place.
pub(super) fn place_of(lsn: Lsn) -> (u32, u64) {
    ((lsn.0 >> 32) as u32, lsn.0 & u64::from(u32::MAX))
}

/// A thing that is wrong with a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// It is no header, or a bit of it is wrong.
    Damaged,
    /// It is of another version of the format.
    Version(u32),
    /// It is of another database's log, or of one of another form.
    Other,
}

impl Fault {
    pub(super) fn says(self) -> String {
        match self {
            Self::Damaged => "its header is damaged".into(),
            Self::Version(found) => {
                format!("it has format version {found}; this build reads {OLDEST} and {VERSION}")
            }
            Self::Other => "it belongs to the log of another database".into(),
        }
    }
}

/// The words of a header that say of which log it is.
fn words_of(shape: &Shape) -> [u64; 2] {
    [u64::from(shape.partitions) << 32 | u64::from(shape.stamp), shape.partition_bytes]
}

fn shape_of([halves, partition_bytes]: [u64; 2]) -> Shape {
    Shape { stamp: halves as u32, partitions: (halves >> 32) as u32, partition_bytes }
}

fn read<const W: usize>(bytes: &[u8], magic: &[u8; 8]) -> Result<[u64; W], Fault> {
    let read = header::open::<SECTOR, W>(bytes, magic, (OLDEST..=VERSION, 0));
    read.map_err(|fault| match fault {
        NoHeader::Version(found) => Fault::Version(found),
        _ => Fault::Damaged,
    })
}

/// The header of a partition: its number, which gives the round, and the restart that wrote it.
pub(super) fn partition_header(shape: &Shape, number: u32, restart: u32) -> [u8; SECTOR] {
    let [halves, bytes] = words_of(shape);
    let words = [halves, bytes, u64::from(number), u64::from(restart)];
    header::seal(PARTITION_MAGIC, (VERSION, 0), &words, &[])
}

/// The number and the restart in a partition's header.
pub(super) fn read_partition_header(bytes: &[u8], shape: &Shape) -> Result<(u32, u32), Fault> {
    let [halves, partition_bytes, number, restart] = read(bytes, PARTITION_MAGIC)?;
    if shape_of([halves, partition_bytes]) != *shape {
        Err(Fault::Other)
    } else {
        Ok((number as u32, restart as u32))
    }
}

/// Returns what a record says that is written with so many bytes before it: see [`Placed::sure`].
/// The unit is that of records' places.
pub(super) fn sure_of(unsynced_bytes: u64) -> u32 {
    let sure = unsynced_bytes / record::ALIGN as u64 + 1;
    u32::try_from(sure).ok().filter(|sure| *sure <= record::MOST_SURE).unwrap_or(0)
}

/// The offset before which the partition was durable when a record was written.
pub(super) fn durable_before(placed: &Placed) -> u64 {
    let (_, offset) = place_of(placed.lsn);
    match placed.sure {
        0 => 0,
        sure => offset.saturating_sub(u64::from(sure - 1) * record::ALIGN as u64),
    }
}

/// The contents of the head file; the newest of its two slots counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    /// The number of times that it was written.
    pub(super) count: u64,
    /// The number of times that the log was opened. Every record has the number of its time.
    pub(super) restart: u32,
    /// The place where analysis begins.
    pub(super) start: Lsn,
    /// The partition of the oldest record that is kept.
    pub(super) first: u32,
    /// The newest record that was durable when this was written.
    pub(super) reached: Lsn,
}

pub(super) fn head_slot(shape: &Shape, head: &Head) -> [u8; SECTOR] {
    let ([halves, bytes], restart) = (words_of(shape), u64::from(head.restart));
    let first = u64::from(head.first);
    let words = [halves, bytes, head.count, restart, head.start.0, first, head.reached.0];
    header::seal(HEAD_MAGIC, (VERSION, 0), &words, &[])
}

pub(super) fn read_head_slot(bytes: &[u8]) -> Result<(Shape, Head), Fault> {
    let [halves, partition_bytes, count, restart, start, first, reached] = read(bytes, HEAD_MAGIC)?;
    let head = Head {
        count,
        restart: restart as u32,
        start: Lsn(start),
        first: first as u32,
        reached: Lsn(reached),
    };
    Ok((shape_of([halves, partition_bytes]), head))
}

/// Appends the seal of a partition: the log goes on in the next one.
pub(super) fn seal(out: &mut Vec<u8>, at: Lsn, restart: u32, sure: u32) {
    let placed = Placed { lsn: at, tx: TxNo(0), prev: Lsn::NONE, mark: restart, sure };
    let record = Record {
        kind: Kind::End,
        page: PageNo(0),
        page_before: Lsn::NONE,
        undo_next: Lsn::NONE,
        payload: &[],
    };
    record::encode(out, &placed, &record, Some(SEAL));
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { stamp: 77, partitions: 8, partition_bytes: 1 << 20 };

    #[test]
    fn headers_are_read_as_they_were_written() {
        let bytes = partition_header(&SHAPE, 9, 3);
        assert_eq!(read_partition_header(&bytes, &SHAPE), Ok((9, 3)));
        let other = Shape { stamp: 78, ..SHAPE };
        assert_eq!(read_partition_header(&bytes, &other), Err(Fault::Other));
        let head = Head { count: 5, restart: 4, start: Lsn(6), first: 7, reached: Lsn(8) };
        let slot = head_slot(&SHAPE, &head);
        assert_eq!(read_head_slot(&slot), Ok((SHAPE, head)));
        assert_eq!(read_head_slot(&bytes), Err(Fault::Damaged));
        assert_eq!(&slot[..12], b"PERDPLHD\x03\0\0\0");
        for bit in 0..SECTOR * 8 {
            let (mut partition, mut slot) = (bytes, slot);
            partition[bit / 8] ^= 1 << (bit % 8);
            slot[bit / 8] ^= 1 << (bit % 8);
            assert!(read_partition_header(&partition, &SHAPE).is_err(), "bit {bit}");
            assert!(read_head_slot(&slot).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_place_is_a_partition_and_an_offset() {
        assert_eq!(lsn_of(2, 120), Lsn(0x2_0000_0078));
        assert_eq!(place_of(Lsn(0x2_0000_0078)), (2, 120));
        assert!(lsn_of(2, 8) > lsn_of(1, u64::from(u32::MAX)));
    }
}
