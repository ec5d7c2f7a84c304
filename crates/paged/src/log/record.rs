//! The bytes of a log record, the same for all log managers.
//!
//! ```text
//! 0      4       8     16   24     32     40            48          56     57        60     64
//! +------+-------+-----+----+------+------+-------------+-----------+------+---------+------+---------+
//! | crc  | bytes | LSN | tx | prev | page | page before | undo next | kind | sure    | mark | payload |
//! +------+-------+-----+----+------+------+-------------+-----------+------+---------+------+---------+
//! ```
//!
//! `crc` is the CRC-32C of everything after it, payload included. `bytes` counts the header and the
//! payload, without the zeros that fill up to a multiple of eight. `mark` belongs to the manager,
//! and so does the unit of `sure`: see [`Placed::sure`].

use super::{Kind, Logged, Record};
use crate::ids::{Lsn, PageNo, TxNo};

/// Bytes of a record's header.
pub const HEADER_BYTES: usize = 64;

/// Records begin at multiples of this.
pub const ALIGN: usize = 8;

/// The fields of a header that the appender does not set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// Its place.
    pub lsn: Lsn,
    /// Its transaction.
    pub tx: TxNo,
    /// The record of the same transaction before it.
    pub prev: Lsn,
    /// A number of the log manager's own.
    pub mark: u32,
    /// The distance back, in the manager's unit, to the place before which everything was durable
    /// when the record was written; zero if it says nothing. So where a record before that place is
    /// not sound, no crash has done it.
    pub sure: u32,
}

/// The greatest [`Placed::sure`]: it has three bytes.
pub const MOST_SURE: u32 = (1 << 24) - 1;

/// The bytes that a record with such a payload takes.
pub const fn record_bytes(payload: usize) -> usize {
    (HEADER_BYTES + payload).next_multiple_of(ALIGN)
}

/// The kind with this code.
fn kind_of(code: u8) -> Option<Kind> {
    [
        Kind::Change,
        Kind::Compensation,
        Kind::Commit,
        Kind::Abort,
        Kind::End,
        Kind::CheckpointBegin,
        Kind::CheckpointEnd,
        Kind::Time,
    ]
    .into_iter()
    .find(|kind| *kind as u8 == code)
}

/// Appends the bytes of a record to `out`. A `code` stands for `record.kind` where the manager has
/// a record of its own.
pub fn encode(out: &mut Vec<u8>, placed: &Placed, record: &Record<'_>, code: Option<u8>) {
    let start = out.len();
    let bytes = (HEADER_BYTES + record.payload.len()) as u32;
    out.extend([0; 4]);
    out.extend(bytes.to_le_bytes());
    let words = [
        placed.lsn.0,
        placed.tx.0,
        placed.prev.0,
        record.page.0,
        record.page_before.0,
        record.undo_next.0,
        u64::from(code.unwrap_or(record.kind as u8))
            | u64::from(placed.sure.min(MOST_SURE)) << 8
            | u64::from(placed.mark) << 32,
    ];
    for word in words {
        out.extend(word.to_le_bytes());
    }
    out.extend(record.payload);
    let crc = crc32c::crc32c(&out[start + 4..]);
    out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
    out.resize(start + record_bytes(record.payload.len()), 0);
}

/// The bytes of the whole record, without filling, as the first eight bytes of its header say.
pub fn bytes_of(header: &[u8]) -> usize {
    u32::from_le_bytes(header[4..8].try_into().expect("four bytes")) as usize
}

/// A record that was read, with its code where that is no [`Kind`], and its mark.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decoded {
    /// The fields that the manager sets.
    pub placed: Placed,
    /// Its kind, or a code of the manager's own.
    pub code: u8,
    kind: Option<Kind>,
    page: PageNo,
    page_before: Lsn,
    undo_next: Lsn,
}

impl Decoded {
    /// The LSN that its page had before.
    pub fn page_before(&self) -> Lsn {
        self.page_before
    }

    /// The record for a reader of the log, unless it is the manager's own.
    pub fn logged(&self, payload: &[u8]) -> Option<Logged> {
        Some(Logged {
            lsn: self.placed.lsn,
            tx: self.placed.tx,
            prev: self.placed.prev,
            kind: self.kind?,
            page: self.page,
            page_before: self.page_before,
            undo_next: self.undo_next,
            payload: payload.to_vec(),
        })
    }
}

/// Reads the header of a record that is `bytes`, whole and without filling, if it is sound.
pub fn decode(bytes: &[u8]) -> Option<Decoded> {
    if bytes.len() < HEADER_BYTES || bytes_of(bytes) != bytes.len() {
        return None;
    }
    let crc = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
    if crc32c::crc32c(&bytes[4..]) != crc {
        return None;
    }
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    Some(Decoded {
        placed: Placed {
            lsn: Lsn(word(8)),
            tx: TxNo(word(16)),
            prev: Lsn(word(24)),
            mark: (word(56) >> 32) as u32,
            sure: (word(56) >> 8) as u32 & MOST_SURE,
        },
        code: bytes[56],
        kind: kind_of(bytes[56]),
        page: PageNo(word(32)),
        page_before: Lsn(word(40)),
        undo_next: Lsn(word(48)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACED: Placed = Placed {
        lsn: Lsn(1 << 32 | 512),
        tx: TxNo(7),
        prev: Lsn(3),
        mark: 0x0102_0304,
        sure: 0x0005_0607,
    };

    fn record(kind: Kind, payload: &[u8]) -> Record<'_> {
        Record { kind, page: PageNo(5), page_before: Lsn(9), undo_next: Lsn(11), payload }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let kinds = [
            Kind::Change,
            Kind::Compensation,
            Kind::Commit,
            Kind::Abort,
            Kind::End,
            Kind::CheckpointBegin,
            Kind::CheckpointEnd,
            Kind::Time,
        ];
        for (number, kind) in kinds.into_iter().enumerate() {
            for length in [0, 1, 7, 8, 9, 500] {
                let payload: Vec<u8> = (0..length).map(|at| (at * 3 + number) as u8).collect();
                let mut bytes = vec![1, 2, 3];
                encode(&mut bytes, &PLACED, &record(kind, &payload), None);
                assert_eq!(bytes.len(), 3 + record_bytes(length));
                let whole = &bytes[3..3 + HEADER_BYTES + length];
                assert_eq!(bytes_of(whole), whole.len());
                let read = decode(whole).unwrap();
                assert_eq!((read.placed, read.code), (PLACED, number as u8 + 1));
                let logged = read.logged(&payload).unwrap();
                let expected = Logged {
                    lsn: PLACED.lsn,
                    tx: PLACED.tx,
                    prev: PLACED.prev,
                    kind,
                    page: PageNo(5),
                    page_before: Lsn(9),
                    undo_next: Lsn(11),
                    payload,
                };
                assert_eq!(logged, expected);
            }
        }
    }

    #[test]
    fn the_layout_is_that_of_the_format_description() {
        let mut bytes = Vec::new();
        encode(&mut bytes, &PLACED, &record(Kind::Compensation, b"ab"), None);
        assert_eq!(bytes.len(), 72);
        assert_eq!(bytes[4..8], [66, 0, 0, 0]);
        assert_eq!(bytes[8..16], [0, 2, 0, 0, 1, 0, 0, 0]);
        assert_eq!(
            [bytes[16], bytes[24], bytes[32], bytes[40], bytes[48], bytes[56]],
            [7, 3, 5, 9, 11, 2]
        );
        assert_eq!(bytes[57..64], [7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(bytes[64..], *b"ab\0\0\0\0\0\0");
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let mut bytes = Vec::new();
        encode(&mut bytes, &PLACED, &record(Kind::Change, b"a payload"), None);
        bytes.truncate(HEADER_BYTES + 9);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&damaged), None, "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn a_record_of_the_managers_own_is_not_handed_out() {
        let mut bytes = Vec::new();
        encode(&mut bytes, &PLACED, &record(Kind::Change, b""), Some(255));
        let read = decode(&bytes).unwrap();
        assert_eq!((read.code, read.logged(b"")), (255, None));
    }
}
