//! Changes, applied to each of their pages.

use super::code::{Malformed, entries_of};
use super::{Change, Role};
use crate::ids::{PageNo, TreeNo};
use crate::layout::{GHOST, HEADER_BYTES, LONG};
use crate::maps;
use crate::page::{Entry, Format, Full, Page, PageKind};
use crate::{PagedError, Result};

/// The page that a change is applied to, and the record's surroundings.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The page.
    pub number: PageNo,
    /// Its part in the change.
    pub role: Role,
    /// The page that the record names.
    pub main: PageNo,
    /// The record's tree.
    pub tree: TreeNo,
    /// The stamp of the file.
    pub stamp: u64,
}

type Applied = std::result::Result<(), &'static str>;

const NO_ENTRY: &str = "it has not the entry that a change is of";
const NO_SPACE: &str = "it has no space for a change that is in the log";

fn full(_: Full) -> &'static str {
    NO_SPACE
}

fn malformed(_: Malformed) -> &'static str {
    "a change of it in the log is malformed"
}

fn flag(long: bool) -> u8 {
    if long { LONG } else { 0 }
}

impl Change<'_> {
    /// Changes one of its pages. The caller sets the LSN.
    ///
    /// # Errors
    /// The page is not as it was when the change was made: log and page do not belong together.
    pub fn apply(&self, page: &mut Page, place: &Place) -> Result<()> {
        match place.role {
            Role::Main => self.apply_main(page, place),
            Role::Second => self.apply_second(page, place),
            Role::Map => self.apply_map(page, place),
        }
        .map_err(|what| PagedError::DamagedPage { page: place.number, what })
    }

    fn apply_main(&self, page: &mut Page, place: &Place) -> Applied {
        self.check_kind(page)?;
        match self {
            Self::Insert { key, row, long } => match page.find(key) {
                Ok(slot) => page.set_row(slot, row, flag(*long)).map_err(full),
                Err(slot) => {
                    let entry = Entry { key, row, room: row.len(), flags: flag(*long) };
                    page.insert_at(slot, &entry).map_err(full)
                }
            },
            Self::InsertMany { entries } => insert_all(page, entries),
            Self::Update { key, after, long, .. } => {
                page.set_row(slot_of(page, key)?, after, flag(*long)).map_err(full)
            }
            Self::Patch { key, at, after, .. } => {
                page.patch(slot_of(page, key)?, usize::from(*at), after).map_err(full)
            }
            Self::Ghost { key, .. } => {
                let slot = slot_of(page, key)?;
                page.set_flags(slot, page.entry(slot).flags | GHOST);
                Ok(())
            }
            Self::Unghost { key, row, long } => {
                page.set_row(slot_of(page, key)?, row, flag(*long)).map_err(full)
            }
            Self::Erase { key } => page.set_row(slot_of(page, key)?, &[], GHOST).map_err(full),
            Self::EraseMany { entries } => entries_of(entries).try_for_each(|entry| {
                let slot = slot_of(page, entry.map_err(malformed)?.key)?;
                page.set_row(slot, &[], GHOST).map_err(full)
            }),
            Self::Reclaim { key } | Self::Unpost { key } => {
                page.remove_at(slot_of(page, key)?);
                Ok(())
            }
            Self::Trim { key } => {
                page.trim(slot_of(page, key)?);
                Ok(())
            }
            Self::Post { key, child } => match page.find(key) {
                Ok(_) => Err("it has the child that is to be posted"),
                Err(slot) => {
                    page.insert_at(slot, &child_entry(key, &child.0.to_le_bytes())).map_err(full)
                }
            },
            Self::Split { right, key, .. } => {
                while page.slots() > 0 && page.key(page.slots() - 1) >= *key {
                    page.remove_at(page.slots() - 1);
                }
                page.renew_heads();
                page.set_right(Some(*right));
                page.set_high(Some(key)).map_err(full)
            }
            Self::Merge { high, next, entries, .. } => {
                page.set_right(*next);
                page.set_high(*high).map_err(full)?;
                insert_all(page, entries)
            }
            Self::Root { child, level, .. } => {
                format(page, place, PageKind::Inner, level.checked_add(1).ok_or(NO_SPACE)?);
                page.insert_at(0, &child_entry(&[], &child.0.to_le_bytes())).map_err(full)
            }
            Self::NewTree => {
                format(page, place, PageKind::Leaf, 0);
                Ok(())
            }
            Self::NewMap => {
                format(page, place, PageKind::Map, 0);
                page.set_bit(0, true);
                Ok(())
            }
            Self::NewOverflow { bytes, .. } => {
                if HEADER_BYTES + bytes.len() > page.bytes().len() {
                    return Err(NO_SPACE);
                }
                format(page, place, PageKind::Overflow, 0);
                page.set_part(0, bytes, bytes.len());
                Ok(())
            }
            Self::OverflowBytes { at, before, after, .. } => {
                let (at, part) = (usize::from(*at), page.part().len());
                let end = if before.len() == after.len() { part } else { at + after.len() };
                if at + before.len() > part || HEADER_BYTES + end > page.bytes().len() {
                    return Err(NO_SPACE);
                }
                page.set_part(at, after, end);
                Ok(())
            }
            Self::PopOverflow { key, next, .. } => {
                let slot = slot_of(page, key)?;
                if !page.entry(slot).is_long() {
                    return Err(NO_ENTRY);
                }
                page.patch(slot, 8, &next.map_or(0, |next| next.0).to_le_bytes()).map_err(full)
            }
            Self::FreePage { .. } => {
                format(page, place, PageKind::Free, 0);
                Ok(())
            }
        }
    }

    fn apply_second(&self, page: &mut Page, place: &Place) -> Applied {
        match self {
            Self::Split { level, key, high, next, entries, .. } => {
                page.format(&Format {
                    number: place.number,
                    stamp: place.stamp,
                    kind: kind_of(*level),
                    level: *level,
                    tree: place.tree,
                    right: *next,
                    low: key,
                    high: *high,
                });
                insert_all(page, entries)
            }
            Self::Root { level, entries, .. } => {
                format(page, place, kind_of(*level), *level);
                insert_all(page, entries)
            }
            Self::Merge { .. } | Self::PopOverflow { .. } => {
                format(page, place, PageKind::Free, 0);
                Ok(())
            }
            Self::NewOverflow { .. } | Self::FreePage { .. } => {
                if page.kind() != PageKind::Overflow {
                    return Err(NO_ENTRY);
                }
                let is_new = matches!(self, Self::NewOverflow { .. });
                page.set_right(is_new.then_some(place.main));
                Ok(())
            }
            _ => Err("a change of it in the log is malformed"),
        }
    }

    fn apply_map(&self, page: &mut Page, place: &Place) -> Applied {
        let (Some(mapped), PageKind::Map) = (self.mapped(place.main), page.kind()) else {
            return Err("it is no map");
        };
        let is_used =
            !matches!(self, Self::Merge { .. } | Self::PopOverflow { .. } | Self::FreePage { .. });
        page.set_bit(maps::bit_of(mapped, page.bytes().len()), is_used);
        Ok(())
    }

    fn check_kind(&self, page: &Page) -> Applied {
        let kind = page.kind();
        let is_fit = match self {
            Self::NewTree | Self::NewMap | Self::NewOverflow { .. } | Self::FreePage { .. } => true,
            Self::OverflowBytes { .. } => kind == PageKind::Overflow,
            Self::Post { .. } | Self::Unpost { .. } => kind == PageKind::Inner,
            Self::Split { .. } | Self::Merge { .. } | Self::Root { .. } => {
                matches!(kind, PageKind::Leaf | PageKind::Inner)
            }
            _ => kind == PageKind::Leaf,
        };
        if is_fit { Ok(()) } else { Err("it has another kind than a change in the log is for") }
    }
}

fn kind_of(level: u8) -> PageKind {
    if level == 0 { PageKind::Leaf } else { PageKind::Inner }
}

fn child_entry<'a>(key: &'a [u8], child: &'a [u8; 8]) -> Entry<'a> {
    Entry { key, row: child, room: child.len(), flags: 0 }
}

fn slot_of(page: &Page, key: &[u8]) -> std::result::Result<usize, &'static str> {
    page.find(key).map_err(|_| NO_ENTRY)
}

fn insert_all(page: &mut Page, entries: &[u8]) -> Applied {
    for entry in entries_of(entries) {
        let entry = entry.map_err(malformed)?;
        match page.find(entry.key) {
            Ok(_) => return Err("it has an entry that is to come"),
            Err(slot) => page.insert_at(slot, &entry).map_err(full)?,
        }
    }
    Ok(())
}

/// Empties a page; its range has no ends.
fn format(page: &mut Page, place: &Place, kind: PageKind, level: u8) {
    page.format(&Format {
        number: place.number,
        stamp: place.stamp,
        kind,
        level,
        tree: place.tree,
        right: None,
        low: &[],
        high: None,
    });
}
