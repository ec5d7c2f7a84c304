//! The VFSes that a child registers next to the one that ships: none.

use std::ffi::CStr;

use perdura_sqlite::database::Opener;

pub(crate) fn openers() -> [(&'static CStr, Box<dyn Opener>); 0] {
    []
}
