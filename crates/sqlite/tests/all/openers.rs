//! The VFSes that tests register next to the one that ships.

use std::ffi::CStr;

use perdura_sqlite::database::Opener;

pub(crate) fn openers() -> [(&'static CStr, Box<dyn Opener>); 3] {
    [
        (c"perdura-recording", Box::new(crate::explore::RecordingOpener)),
        (c"perdura-emulated", Box::new(crate::emulated::EmulatedOpener)),
        (c"perdura-watched", Box::new(crate::fetched::WatchedOpener)),
    ]
}
