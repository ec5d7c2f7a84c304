//! The layout of a log-structured partition in memory: `docs/format/memtable-runs.md` draws it.

use pm::{Bad, Memory, Off, Range};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes of the directory of runs.
pub const DIRECTORY_BYTES: u64 = 256;
/// Runs that a partition can have in addition to its MemTable.
pub const MAX_RUNS: usize = 29;

/// Runs of level 0 that are waited for before they are merged, at most: the rest of the directory
/// is for those of the other levels, one each.
pub const MAX_LEVEL0_RUNS: u32 = 12;

/// A run's level stands in the low bits of its word in the directory.
pub(crate) const LEVEL_BITS: u64 = 63;
/// The deepest level: with the least growth factor more than any memory holds.
pub(crate) const MAX_LEVEL: usize = 60;
/// Runs start on lines, so that these bits are free.
const _: () = assert!(LEVEL_BITS < 64 && (MAX_LEVEL as u64) < LEVEL_BITS);

/// The directory: a word each.
pub(crate) const MEMTABLE: u64 = 0;
pub(crate) const BUILDING: u64 = 1;
pub(crate) const DISMANTLING: u64 = 2;
pub(crate) const FIRST_RUN: u64 = 3;

const _: () = assert!((FIRST_RUN + MAX_RUNS as u64) * 8 == DIRECTORY_BYTES);

/// The header that starts a run.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct RunHeader {
    pub(crate) magic: u64,
    /// Bytes of its entries, about: of all that was added to it as a MemTable, or, in the result of a
    /// merge, of the slots that its entries own.
    pub(crate) bytes: u64,
    /// Its entries, at most.
    pub(crate) keys: u64,
    /// The place of the list of the pieces of its filter; zero if it has none.
    pub(crate) filter: u64,
    /// The number of pieces that the filter has.
    pub(crate) pieces: u64,
    /// Bytes of each piece.
    pub(crate) piece_bytes: u64,
    /// Bits of the filter for each key.
    pub(crate) filter_bits: u64,
    /// The plan of the merge that this is the result of: the level it is for, and `TO_BOTTOM`.
    pub(crate) plan: u64,
}

pub(crate) const RUN_MAGIC: u64 = u64::from_le_bytes(*b"PDRUN001");
/// The bit in the plan of a merge that says: no run lies below its result.
pub(crate) const TO_BOTTOM: u64 = 1 << 8;

const INPUTS_AT: u64 = 64;
const CELLS_AT: u64 = INPUTS_AT + 256;

const _: () = assert!(size_of::<RunHeader>() as u64 == INPUTS_AT);
const _: () = assert!(INPUTS_AT + MAX_RUNS as u64 * 8 <= CELLS_AT);
const _: () = assert!(CELLS_AT.is_multiple_of(64));

/// Offsets of the header's words that change.
pub(crate) const BYTES_AT: u64 = 8;
pub(crate) const KEYS_AT: u64 = 16;
pub(crate) const FILTER_AT: u64 = 24;
pub(crate) const PIECES_AT: u64 = 32;
pub(crate) const PIECE_BYTES_AT: u64 = 40;
pub(crate) const FILTER_BITS_AT: u64 = 48;

/// Bytes of a run of so many tables.
pub(crate) fn run_bytes(tables: usize) -> u64 {
    (CELLS_AT + tables as u64 * 8).next_multiple_of(64)
}

/// The word of a run that names the input `number` of the merge that makes it.
pub(crate) fn input_at(run: u64, number: usize) -> Off<u64> {
    Off::new(run + INPUTS_AT + number as u64 * 8)
}

/// The root pointer of a table's tree in a run.
pub(crate) fn cell_at(run: u64, table: usize) -> Off<u64> {
    Off::new(run + CELLS_AT + table as u64 * 8)
}

/// The header of the run at `at`, checked.
pub(crate) fn read_header<M: Memory>(memory: &M, at: u64, tables: usize) -> Result<RunHeader, Bad> {
    if !at.is_multiple_of(64) {
        return Err(Bad::Misaligned { at, align: 64 });
    }
    memory.view(Range::new(at, run_bytes(tables)))?;
    let header: RunHeader = memory.read(Off::new(at))?;
    if header.magic != RUN_MAGIC {
        return Err(Bad::Damaged { what: "run", at });
    }
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_layout() {
        assert_eq!((DIRECTORY_BYTES, MAX_RUNS, size_of::<RunHeader>()), (256, 29, 64));
        assert_eq!(
            (input_at(0, 28).get(), cell_at(0, 0).get(), cell_at(0, 1).get()),
            (288, 320, 328)
        );
        assert_eq!((run_bytes(1), run_bytes(8), run_bytes(9)), (384, 384, 448));
        let offsets = [BYTES_AT, KEYS_AT, FILTER_AT, PIECES_AT, PIECE_BYTES_AT, FILTER_BITS_AT];
        let header = RunHeader {
            magic: 0,
            bytes: 1,
            keys: 2,
            filter: 3,
            pieces: 4,
            piece_bytes: 5,
            filter_bits: 6,
            plan: 7,
        };
        for (number, at) in offsets.into_iter().enumerate() {
            assert_eq!(header.as_bytes()[at as usize], number as u8 + 1);
        }
    }
}
