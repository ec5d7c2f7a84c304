//! Finds out what a file lies on, and which durability domain that gives.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use crate::domain::Domain;
use crate::limits::page_bytes;

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
    /// Describes what lies in no file and ends with the process.
    #[must_use]
    pub fn of_no_file(name: &str) -> Self {
        Self { name: name.to_owned(), natural: Domain::Process, page_bytes: page_bytes() }
    }

    /// Returns whether the kernel grants `MAP_SYNC` on it.
    pub(crate) fn maps_synchronously(&self) -> bool {
        matches!(self.natural, Domain::Adr | Domain::Eadr)
    }
}

const HUGETLBFS: i64 = 0x9584_58f6;

/// The kind of a file system, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The file lies in memory, and is gone after a reboot.
    Memory(&'static str),
    /// A sync hands what was written to a disk, or to the server that keeps it.
    Synced(&'static str),
    /// Its files are those of another file system, of which it gives no number.
    Overlay,
    /// The file system is unknown, and taken for one that syncs: where that does nothing it costs
    /// little, and elsewhere the promise needs it.
    Unknown,
}

/// The table of numbers; `docs/guarantees.md` says what each is worth.
fn kind_of(magic: i64) -> Kind {
    // The type has the sign of the target's words.
    match magic & 0xffff_ffff {
        0x0102_1994 => Kind::Memory("tmpfs"),
        0x8584_58f6 => Kind::Memory("ramfs"),
        HUGETLBFS => Kind::Memory("hugetlbfs"),
        0x794c_7630 => Kind::Overlay,
        0xef53 => Kind::Synced("ext4"),
        0x5846_5342 => Kind::Synced("xfs"),
        0x9123_683e => Kind::Synced("btrfs"),
        0xca45_1a4e => Kind::Synced("bcachefs"),
        0xf2f5_2010 => Kind::Synced("f2fs"),
        0x2fc1_2fc1 => Kind::Synced("zfs"),
        0x6969 => Kind::Synced("nfs"),
        0x6573_5546 => Kind::Synced("fuse"),
        0xff53_4d42 | 0xfe53_4d42 => Kind::Synced("smb"),
        0x0102_1997 => Kind::Synced("9p"),
        _ => Kind::Unknown,
    }
}

/// Returns whether the file system under an overlay has extents, as one on a disk does. One in
/// memory has none, and the overlay passes the question on.
fn knows_extents(file: &File) -> bool {
    /// `struct fiemap`, with room for no extent: only their number is asked for.
    #[repr(C)]
    struct Fiemap {
        start: u64,
        length: u64,
        flags: u32,
        mapped: u32,
        room: u32,
        reserved: u32,
    }
    const FS_IOC_FIEMAP: u64 = 0xc020_660b;
    let mut map = Fiemap { start: 0, length: 4096, flags: 0, mapped: 0, room: 0, reserved: 0 };
    // SAFETY: the kernel reads and fills in our struct, and writes no extents.
    unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut map) == 0 }
}

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
    let kind = kind_of(magic);
    let (name, natural) = match kind {
        Kind::Memory(name) => (name.into(), Domain::Process),
        _ if maps_synchronously(file) => {
            let natural = if caches_are_saved() { Domain::Eadr } else { Domain::Adr };
            ("dax".into(), natural)
        }
        Kind::Overlay if !knows_extents(file) => ("overlayfs in memory".into(), Domain::Process),
        Kind::Overlay => ("overlayfs".into(), Domain::Disk),
        Kind::Synced(name) => (name.into(), Domain::Disk),
        Kind::Unknown => (format!("file system {magic:#x}"), Domain::Disk),
    };
    // What hugetlbfs calls a block is a huge page.
    let page_bytes = if magic == HUGETLBFS { block_bytes } else { page_bytes() };
    Ok(Medium { name, natural, page_bytes })
}

/// Bytes that are free on the file system of `file` for this user; all that there can be where it
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
    /// The space with what is kept for root.
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

/// Returns whether the kernel grants `MAP_SYNC`: the file lies on persistent memory, and a
/// write-back of the processor's caches is enough. It asks for reading alone: the file may be open
/// for no more.
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

/// Returns whether the platform saves its caches on power loss (eADR), as the kernel reports it for
/// every persistent memory region.
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
/// The kernel does not say; then a `process` pool may be one that a reboot has hit.
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn numbers_of_file_systems_say_what_they_are() {
        for (magic, kind) in [
            (0x0102_1994, Kind::Memory("tmpfs")),
            (0x8584_58f6, Kind::Memory("ramfs")),
            (0x9584_58f6, Kind::Memory("hugetlbfs")),
            (0x794c_7630, Kind::Overlay),
            (0xef53, Kind::Synced("ext4")),
            (0x5846_5342, Kind::Synced("xfs")),
            (0x9123_683e, Kind::Synced("btrfs")),
            (0x6969, Kind::Synced("nfs")),
            (0x6573_5546, Kind::Synced("fuse")),
            (0xff53_4d42, Kind::Synced("smb")),
            (0x0102_1997, Kind::Synced("9p")),
            (0x1234_5678, Kind::Unknown),
        ] {
            assert_eq!(kind_of(magic), kind, "{magic:#x}");
        }
        // As a target has it whose words are signed and short.
        assert_eq!(kind_of(i64::from(0x9584_58f6_u32.cast_signed())), Kind::Memory("hugetlbfs"));
    }

    /// Extents tell a disk from memory where both are there: what lies in memory has no extents,
    /// what lies on a disk has.
    #[cfg(not(miri))]
    #[test]
    fn extents_tell_a_disk_from_memory() {
        for place in [Path::new("/dev/shm"), &std::env::temp_dir()] {
            let Ok(file) = tempfile::tempfile_in(place) else { continue };
            let medium = medium_of(&file).unwrap();
            match &*medium.name {
                "tmpfs" | "ramfs" => {
                    assert!(!knows_extents(&file), "{}", medium.name);
                    assert_eq!(medium.natural, Domain::Process);
                }
                "ext4" | "xfs" | "btrfs" => {
                    assert!(knows_extents(&file), "{}", medium.name);
                    assert_ne!(medium.natural, Domain::Process);
                }
                _ => {}
            }
        }
    }
}
