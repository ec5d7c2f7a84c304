//! What a file lies on, and which durability domain that gives.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use crate::domain::Domain;
use crate::pool::page_bytes;

/// The kind of medium under a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Medium {
    /// `tmpfs`, `hugetlbfs`, `dax`, or the file system's magic number for a disk.
    pub name: String,
    /// The strongest promise that the medium keeps by itself.
    pub natural: Domain,
    /// Bytes of a page of a file on it: files and mappings are multiples of that.
    pub page_bytes: u64,
}

impl Medium {
    /// Of what lies in no file, and ends with the process.
    #[must_use]
    pub fn of_no_file(name: &str) -> Self {
        Self { name: name.to_owned(), natural: Domain::Process, page_bytes: page_bytes() }
    }

    /// Whether the kernel grants `MAP_SYNC` on it.
    pub(crate) fn maps_synchronously(&self) -> bool {
        matches!(self.natural, Domain::Adr | Domain::Eadr)
    }
}

const TMPFS: i64 = 0x0102_1994;
const HUGETLBFS: i64 = 0x9584_58f6;
const RAMFS: i64 = 0x8584_58f6;

/// Finds out what `file` lies on.
///
/// # Errors
/// The kernel would not say.
pub fn medium_of(file: &File) -> io::Result<Medium> {
    // SAFETY: a plain struct that the kernel fills in.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and `stat` is ours.
    if unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut stat) } != 0 {
        return Err(io::Error::last_os_error());
    }
    #[expect(clippy::allow_attributes, reason = "the type differs between targets")]
    #[allow(clippy::unnecessary_cast, clippy::cast_lossless)]
    let magic = stat.f_type as i64;
    #[expect(clippy::allow_attributes, reason = "the type differs between targets")]
    #[allow(clippy::unnecessary_cast, clippy::cast_lossless)]
    let block_bytes = stat.f_bsize as u64;
    let synchronous = || match caches_are_saved() {
        true => Domain::Eadr,
        false => Domain::Adr,
    };
    let (name, natural) = match magic {
        TMPFS => ("tmpfs".into(), Domain::Process),
        RAMFS => ("ramfs".into(), Domain::Process),
        HUGETLBFS => ("hugetlbfs".into(), Domain::Process),
        _ if maps_synchronously(file) => ("dax".into(), synchronous()),
        0xef53 => ("ext4".into(), Domain::Disk),
        0x5846_5342 => ("xfs".into(), Domain::Disk),
        0x9123_683e => ("btrfs".into(), Domain::Disk),
        0x794c_7630 => ("overlayfs".into(), Domain::Disk),
        other => (format!("file system {other:#x}"), Domain::Disk),
    };
    // What hugetlbfs calls a block is a huge page.
    let page_bytes = if magic == HUGETLBFS { block_bytes } else { page_bytes() };
    Ok(Medium { name, natural, page_bytes })
}

/// Bytes that are free on the file system of `file`, for whoever asks; all that there can be where it
/// has no limit of its own.
///
/// # Errors
/// The kernel would not say.
pub fn free_bytes(file: &File) -> io::Result<u64> {
    Ok(room(file)?.for_everybody)
}

/// Bytes that are free on a file system.
pub(crate) struct Room {
    pub(crate) for_everybody: u64,
    /// With what is kept for root.
    pub(crate) for_root: u64,
}

pub(crate) fn room(file: &File) -> io::Result<Room> {
    // SAFETY: a plain struct that the kernel fills in.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and `stat` is ours.
    if unsafe { libc::fstatvfs(file.as_raw_fd(), &raw mut stat) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if stat.f_blocks == 0 {
        return Ok(Room { for_everybody: u64::MAX, for_root: u64::MAX });
    }
    #[expect(clippy::allow_attributes, reason = "the types differ between targets")]
    #[allow(clippy::unnecessary_cast, clippy::cast_lossless)]
    let bytes = |blocks| (blocks as u64).saturating_mul(stat.f_frsize as u64);
    Ok(Room { for_everybody: bytes(stat.f_bavail), for_root: bytes(stat.f_bfree) })
}

/// Whether the kernel grants `MAP_SYNC`: the file lies on persistent memory, and a write-back of
/// the processor's caches is enough. Asked for reading alone: the file may be open for no more.
fn maps_synchronously(file: &File) -> bool {
    let page = 4096;
    // SAFETY: a fresh mapping at an address that the kernel chooses, undone at once, never touched.
    unsafe {
        let at = libc::mmap(
            std::ptr::null_mut(),
            page,
            libc::PROT_READ,
            libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC,
            file.as_raw_fd(),
            0,
        );
        if at == libc::MAP_FAILED {
            return false;
        }
        libc::munmap(at, page);
    }
    true
}

/// Whether the platform saves its caches on power loss (eADR), as the kernel reports it for every
/// persistent memory region.
fn caches_are_saved() -> bool {
    let Ok(devices) = std::fs::read_dir("/sys/bus/nd/devices") else { return false };
    let mut domains = devices
        .flatten()
        .filter_map(|device| std::fs::read_to_string(device.path().join("persistence_domain")).ok())
        .peekable();
    domains.peek().is_some() && domains.all(|domain| domain.trim() == "cpu_cache")
}

/// Identifies the running boot of this machine. The kernel is asked once a process.
///
/// # Errors
/// The kernel does not tell; then no `process` pool can be told from one that a reboot has hit.
pub fn boot_id() -> io::Result<[u8; 16]> {
    static KNOWN: OnceLock<[u8; 16]> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(*known);
    }
    let id = ask_boot_id()?;
    Ok(*KNOWN.get_or_init(|| id))
}

fn ask_boot_id() -> io::Result<[u8; 16]> {
    // The kernel makes this file's contents as a whole: one read gets them.
    let mut bytes = [0; 64];
    let count = File::open("/proc/sys/kernel/random/boot_id")?.read(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes[..count]);
    let digits: Vec<u8> =
        text.trim().chars().filter_map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let mut id = [0; 16];
    if digits.len() != 32 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "malformed boot id"));
    }
    for (byte, pair) in id.iter_mut().zip(digits.chunks(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Ok(id)
}
