//! The process that has the lock on a file, as `/proc` shows it.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

/// The number of times that `/proc/locks` is read until it names a holder.
const ATTEMPTS: u32 = 8;
/// More than the kernel gives at a time.
const PIECE_BYTES: usize = 64 << 10;

/// The processes that have a lock (`flock`) on a file of this number, on whatever file system: see
/// [`has_open`].
///
/// # Errors
/// The kernel does not say.
pub fn lock_holders(file: &Metadata) -> io::Result<Vec<i32>> {
    for _ in 1..ATTEMPTS {
        let found: Vec<i32> = holders(&locks()?, file.ino()).collect();
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(holders(&locks()?, file.ino()).collect())
}

/// Reads the locks of this machine. Between two pieces the kernel counts how many it has shown: when
/// one of those is given up meanwhile, it leaves another one out. So the pieces are as large as it
/// makes them, and a caller that misses a lock reads again.
fn locks() -> io::Result<String> {
    let mut file = File::open("/proc/locks")?;
    let (mut all, mut piece) = (Vec::new(), vec![0; PIECE_BYTES]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(String::from_utf8_lossy(&all).into_owned()),
            Ok(bytes) => all.extend_from_slice(&piece[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns whether a process has this file open.
///
/// # Errors
/// The process is gone, or may not be looked at.
pub fn has_open(process: i32, file: &Metadata) -> io::Result<bool> {
    for entry in fs::read_dir(format!("/proc/{process}/fd"))? {
        // Follows the link. What was closed meanwhile is not it.
        let Ok(meta) = fs::metadata(entry?.path()) else { continue };
        if (meta.dev(), meta.ino()) == (file.dev(), file.ino()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Names the process that has locked a file, in words: with its number where that is known.
#[cold]
pub(crate) fn holder_text(file: &Metadata) -> String {
    let unseen = || "by another process".to_owned();
    let Ok(mut holders) = lock_holders(file) else { return unseen() };
    // One that may not be looked at is likely enough if its file has the number.
    holders.retain(|process| has_open(*process, file).unwrap_or(true));
    let Some(process) = holders.first() else { return unseen() };
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    match name.trim() {
        "" => format!("by process {process}"),
        name => format!("by process {process}, `{}`", name.escape_debug()),
    }
}

fn holders(locks: &str, inode: u64) -> impl Iterator<Item = i32> {
    locks.lines().filter_map(move |line| {
        // "3: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF"; who waits has "->" in the second place.
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[_, "FLOCK", _, _, process, place, ..] = words.as_slice() else { return None };
        let own: u64 = place.rsplit(':').next()?.parse().ok()?;
        // One of another namespace of processes has no number here.
        (own == inode).then(|| process.parse().ok()).flatten().filter(|process| *process > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_read_as_the_kernel_writes_them() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 fe:00:78 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 fe:00:78 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 14 00:1b:78 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 0 00:1b:78 0 EOF\n\
                     nonsense\n";
        assert_eq!(holders(locks, 78).collect::<Vec<_>>(), [12, 14]);
        assert_eq!(holders(locks, 77).count(), 0);
    }

    #[test]
    fn the_holder_of_a_file_has_it_open() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let meta = file.as_file().metadata().expect("a file");
        assert!(
            !lock_holders(&meta).expect("readable").contains(&std::process::id().cast_signed())
        );
        assert_eq!(holder_text(&meta), "by another process");
        let held = file.reopen().expect("open");
        held.lock().expect("a lock");
        let own = std::process::id();
        assert!(lock_holders(&meta).expect("readable").contains(&own.cast_signed()));
        assert!(has_open(own.cast_signed(), &meta).expect("readable"));
        assert!(holder_text(&meta).starts_with(&format!("by process {own}, `")));
    }
}
