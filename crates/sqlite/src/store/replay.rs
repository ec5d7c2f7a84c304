//! The stores of a recovery from the last two records of the log.
//!
//! A commit's stores are flushed by the next commit, together with its record, under one fence. The newest record may
//! be whole while the previous commit's stores are lost, so both are replayed, the older one first.
//!
//! But space that the older commit freed, storing the header of a free block, may hold a cell of the newer one, which
//! was stored directly and is in no record. So the replay of the older one skips the direct runs of the newer one.
//! Without a whole newer record its direct stores have no meaning, and nothing is skipped.

use std::collections::BTreeMap;

use crate::store::record::Part;
use crate::store::span::{Bytes, Span};

/// A run that a recovery stores into a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored<'r> {
    /// The frame's number.
    pub frame: u32,
    /// The offset in the frame.
    pub at: usize,
    /// The bytes; `None` stands for zeros.
    pub bytes: Option<&'r [u8]>,
    /// The number of bytes.
    pub len: usize,
}

/// The stores of one or two records, in order. Frames have `frame_bytes` bytes.
pub fn replay<'r>(
    older: &'r [Part],
    newer: Option<&'r [Part]>,
    frame_bytes: usize,
) -> Vec<Restored<'r>> {
    let newer = newer.unwrap_or_default();
    let mut direct: BTreeMap<u32, Bytes> = BTreeMap::new();
    for part in newer {
        let of_frame = direct.entry(part.frame).or_insert_with(|| Bytes::none(frame_bytes));
        for run in &part.direct {
            of_frame.add(*run);
        }
    }
    let mut stores = Vec::new();
    for part in older {
        add(part, direct.get(&part.frame), &mut stores);
    }
    for part in newer {
        add(part, None, &mut stores);
    }
    stores
}

/// Adds the stores of a part, except for the bytes in `without`.
fn add<'r>(part: &'r Part, without: Option<&Bytes>, stores: &mut Vec<Restored<'r>>) {
    let mut store = |run: Span, bytes: Option<&'r [u8]>| {
        let rest = without.map_or_else(|| vec![run], |without| without.holes(run));
        stores.extend(rest.into_iter().map(|left| Restored {
            frame: part.frame,
            at: left.at,
            bytes: bytes.map(|bytes| &bytes[left.at - run.at..left.end() - run.at]),
            len: left.bytes,
        }));
    };
    let mut bytes = &part.bytes[..];
    for run in &part.logged {
        let (these, rest) = bytes.split_at(run.bytes);
        store(*run, Some(these));
        bytes = rest;
    }
    for run in &part.erased {
        store(*run, None);
    }
}
