//! The bytes of a log segment. Drawn in `docs/format/wal.md`; integers are little-endian.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::MAX_COUNTER;
use crate::logs::stamp::stamped;

/// The first bytes of every segment.
const MAGIC: [u8; 8] = *b"PERDWAL\0";
/// The version of the format that this build reads and writes.
pub(crate) const VERSION: u32 = 1;
/// Bytes of a segment's header.
pub(crate) const SEGMENT_HEADER_BYTES: u64 = 32;
/// Bytes of a frame's header.
pub(crate) const FRAME_HEADER_BYTES: u64 = 16;
/// The mark in the place of a transaction's number that says: the next segment has been started.
const SEALED: u64 = u64::MAX;
/// A payload's length limit in bytes.
pub(crate) const MAX_PAYLOAD_BYTES: u64 = u32::MAX as u64 - FRAME_HEADER_BYTES;

/// The header at the start of a segment.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct SegmentHeader {
    magic: [u8; 8],
    version: U32,
    checksum: U32,
    sequence: U64,
    first_txn: U64,
}

/// The header before the payload of a record. All zero: here the log ends.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct FrameHeader {
    /// The bytes of the whole frame, this header included.
    frame_bytes: U32,
    checksum: U32,
    txn: U64,
}

const _: () = assert!(size_of::<SegmentHeader>() as u64 == SEGMENT_HEADER_BYTES);
const _: () = assert!(std::mem::offset_of!(SegmentHeader, version) == 8);
const _: () = assert!(std::mem::offset_of!(SegmentHeader, checksum) == 12);
const _: () = assert!(std::mem::offset_of!(SegmentHeader, sequence) == 16);
const _: () = assert!(std::mem::offset_of!(SegmentHeader, first_txn) == 24);
const _: () = assert!(size_of::<FrameHeader>() as u64 == FRAME_HEADER_BYTES);
const _: () = assert!(std::mem::offset_of!(FrameHeader, checksum) == 4);
const _: () = assert!(std::mem::offset_of!(FrameHeader, txn) == 8);

/// The message about a header whose checksum does not fit.
const WRONG_HEADER: &str =
    "the segment header's checksum is wrong: it is damaged, or the file is of another database";

/// The fault of the header of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeaderFault {
    /// Its bytes do not fit together.
    Damaged(&'static str),
    /// The header is of another version of the format.
    Version(u32),
}

/// The header of segment `sequence`, whose first record is that of `first_txn`, in the database with
/// this stamp.
pub(crate) fn segment_header(
    sequence: u64,
    first_txn: u64,
    stamp: u32,
) -> [u8; SEGMENT_HEADER_BYTES as usize] {
    let mut header = SegmentHeader {
        magic: MAGIC,
        version: VERSION.into(),
        checksum: 0.into(),
        sequence: sequence.into(),
        first_txn: first_txn.into(),
    };
    header.checksum = segment_checksum(header, stamp).into();
    zerocopy::transmute!(header)
}

fn segment_checksum(mut header: SegmentHeader, stamp: u32) -> u32 {
    header.checksum = 0.into();
    stamped(crc32c::crc32c(header.as_bytes()), stamp)
}

/// The number of the first transaction of segment `sequence`, from its header.
pub(crate) fn read_segment_header(
    bytes: &[u8],
    sequence: u64,
    stamp: u32,
) -> Result<u64, HeaderFault> {
    let Ok((header, _)) = SegmentHeader::read_from_prefix(bytes) else {
        return Err(HeaderFault::Damaged("the segment is shorter than its header"));
    };
    if header.magic != MAGIC {
        return Err(HeaderFault::Damaged("this is no log segment"));
    }
    // There is no version 0: a crash has left the magic and nothing after it.
    if header.version.get() == 0 {
        return Err(HeaderFault::Damaged("the segment's header is torn"));
    }
    // Before the checksum, whose place another version may have changed.
    if header.version.get() != VERSION {
        return Err(HeaderFault::Version(header.version.get()));
    }
    if header.checksum.get() != segment_checksum(header, stamp) {
        return Err(HeaderFault::Damaged(WRONG_HEADER));
    }
    if header.sequence.get() != sequence {
        return Err(HeaderFault::Damaged("the segment header names another segment"));
    }
    if sequence > MAX_COUNTER || header.first_txn.get() > MAX_COUNTER {
        return Err(HeaderFault::Damaged("the segment header has a number out of range"));
    }
    Ok(header.first_txn.get())
}

/// The checksum of a frame, from that of its payload. The segment's number is part of it, so that
/// a frame of a removed segment whose blocks are used again is not taken for one of this segment.
fn frame_checksum(payload: u32, sequence: u64, txn: u64, frame_bytes: u32) -> u32 {
    let mut tail = [0; 20];
    tail[..8].copy_from_slice(&sequence.to_le_bytes());
    tail[8..16].copy_from_slice(&txn.to_le_bytes());
    tail[16..].copy_from_slice(&frame_bytes.to_le_bytes());
    crc32c::crc32c_append(payload, &tail)
}

/// The header of a frame whose payload has `payload_bytes` bytes with the CRC-32C `payload`.
pub(crate) fn frame_header(
    payload: u32,
    payload_bytes: u64,
    sequence: u64,
    txn: u64,
) -> [u8; FRAME_HEADER_BYTES as usize] {
    assert!(payload_bytes <= MAX_PAYLOAD_BYTES, "checked when it was put");
    let frame_bytes = (FRAME_HEADER_BYTES + payload_bytes) as u32;
    zerocopy::transmute!(FrameHeader {
        frame_bytes: frame_bytes.into(),
        checksum: frame_checksum(payload, sequence, txn, frame_bytes).into(),
        txn: txn.into(),
    })
}

/// Returns the frame after the last record of segment `sequence`, of transaction `next_txn - 1`. It
/// says that the segment is complete and that the next segment is there.
pub(crate) fn seal(sequence: u64, next_txn: u64) -> [u8; FRAME_HEADER_BYTES as usize] {
    let sum = crc32c::crc32c(&next_txn.to_le_bytes());
    frame_header(sum, 0, sequence, SEALED)
}

/// Returns whether these bytes are [`seal`]'s.
pub(crate) fn is_seal(bytes: &[u8], sequence: u64, next_txn: u64) -> bool {
    bytes.starts_with(&seal(sequence, next_txn))
}

/// The length of the whole frame that starts with these bytes, if it can be one of `txn`.
pub(crate) fn frame_bytes(header: &[u8], txn: u64) -> Option<u64> {
    let (header, _) = FrameHeader::read_from_prefix(header).ok()?;
    let bytes = u64::from(header.frame_bytes.get());
    (bytes >= FRAME_HEADER_BYTES && header.txn.get() == txn).then_some(bytes)
}

/// The payload of a whole frame, if it is valid.
pub(crate) fn payload_of(frame: &[u8], sequence: u64) -> Option<&[u8]> {
    let (header, payload) = FrameHeader::read_from_prefix(frame).ok()?;
    let sum = frame_checksum(
        crc32c::crc32c(payload),
        sequence,
        header.txn.get(),
        header.frame_bytes.get(),
    );
    (u64::from(header.frame_bytes.get()) == frame.len() as u64 && sum == header.checksum.get())
        .then_some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_that_of_the_format_description() {
        assert_eq!((SEGMENT_HEADER_BYTES, FRAME_HEADER_BYTES, VERSION), (32, 16, 1));
        let header = segment_header(0x0102, 0x0304, 0);
        assert_eq!(&header[..12], b"PERDWAL\0\x01\0\0\0");
        assert_eq!(&header[16..], [2, 1, 0, 0, 0, 0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0]);
        let frame = frame_header(crc32c::crc32c(b"abc"), 3, 1, 7);
        assert_eq!((frame[0], frame[8]), (19, 7));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let header = segment_header(5, 9, 0);
        assert_eq!(read_segment_header(&header, 5, 0), Ok(9));
        for bit in 0..header.len() * 8 {
            let mut damaged = header;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(read_segment_header(&damaged, 5, 0).is_err(), "bit {bit}");
        }
        assert!(read_segment_header(&header, 6, 0).is_err());
        assert!(read_segment_header(&header[..31], 5, 0).is_err());
        let of_another = HeaderFault::Damaged(WRONG_HEADER);
        assert_eq!(read_segment_header(&header, 5, 7), Err(of_another));
        assert_eq!(read_segment_header(&segment_header(5, 9, 7), 5, 7), Ok(9));
        for (sequence, first_txn) in [(u64::MAX, 9), (5, u64::MAX), (MAX_COUNTER + 1, 1)] {
            // With a sound checksum; counting on from it would overflow.
            let header = segment_header(sequence, first_txn, 0);
            let fault = read_segment_header(&header, sequence, 0).expect_err("refused");
            assert!(matches!(fault, HeaderFault::Damaged(what) if what.contains("out of range")));
        }

        let end = seal(5, 9);
        assert!(is_seal(&end, 5, 9) && !is_seal(&end, 6, 9) && !is_seal(&end, 5, 10));
        assert!(!is_seal(&end[..15], 5, 9));
        for bit in 0..end.len() * 8 {
            let mut damaged = end;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_seal(&damaged, 5, 9), "bit {bit}");
        }

        let mut frame = frame_header(crc32c::crc32c(b"payload"), 7, 5, 9).to_vec();
        frame.extend(b"payload");
        assert_eq!(payload_of(&frame, 5), Some(&b"payload"[..]));
        assert_eq!(payload_of(&frame, 6), None, "a frame of another segment");
        for bit in 0..frame.len() * 8 {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(payload_of(&damaged, 5), None, "bit {bit}");
        }
    }
}
