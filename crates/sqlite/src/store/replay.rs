//! Stores that recovery makes of the last two records of the log.
//!
//! The stores of a commit are flushed by the next one, together with its record, under one fence. So
//! the newest record may be whole while stores of the one before are lost: both are replayed, the
//! older one first.
//!
//! But space that the older one freed, and wrote the head of a free block to, may have become a cell
//! of the newer one, which was stored directly and is in no record. So what the newer one stored
//! directly is left out of the older one. Without a whole newer record its direct stores mean nothing,
//! and nothing is left out.

use std::collections::BTreeMap;

use crate::store::record::Part;
use crate::store::span::{Bytes, Span};

/// A run that recovery stores to a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored<'r> {
    /// The frame's number.
    pub frame: u32,
    /// The offset in the frame.
    pub at: usize,
    /// The bytes; zeros if there are none.
    pub bytes: Option<&'r [u8]>,
    /// Their number.
    pub len: usize,
}

/// Returns the stores of two records, or of one, in the order in which they are made. The frames have
/// `frame_bytes` bytes.
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

/// Adds the stores of a part, but for those to bytes of `without`.
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
