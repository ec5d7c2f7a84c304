//! The seam to files: [`Files`] is a directory, [`File`] one file in it.
//!
//! Traditional engines keep their logs and checkpoints here. Files are held to the same durability
//! domain as their pool: see [`HostFiles`].

mod around;
mod host;
mod host_directory;
mod host_file;
mod new_file;
mod ownership;
mod source;
mod window;

use std::io;

pub use around::{AroundFile, AroundPath};
pub use host::HostFiles;
pub use host_file::HostFile;
pub use new_file::NewFile;
pub use source::Source;

use crate::bytes::Bytes;
use crate::counters::Counters;
use crate::escaped::Escaped;
use crate::frame::FrameBytes;
use crate::unfinished::{self, MARK_BYTES, Unfinished};

/// A directory of files. Clones share it. Names are plain file names without a `/`.
///
/// Creating, renaming and removing become durable with the next [`Files::sync_directory`]. All
/// errors are the kernel's; an operation that failed changed nothing that was durable.
pub trait Files: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// A file of this directory.
    type File: File;

    /// Creates an empty file.
    ///
    /// # Errors
    /// There is one of this name already, or the kernel refuses. After any error but the first
    /// there is none.
    #[track_caller]
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// Opens a file to read and write it.
    ///
    /// # Errors
    /// There is none of this name, or the kernel refuses.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// The names of all files, sorted.
    ///
    /// # Errors
    /// The kernel refuses.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Removes a file.
    ///
    /// # Errors
    /// There is none of this name, or the kernel refuses.
    #[track_caller]
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Gives a file another name; a file that had that name is replaced, atomically.
    ///
    /// # Errors
    /// There is no file `from`, or the kernel refuses.
    #[track_caller]
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// As [`Files::rename`], but where there is something called `to` it stays, and this fails.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`], there is no file `from`, or the kernel refuses.
    #[track_caller]
    fn rename_new(&self, from: &str, to: &str) -> io::Result<()>;
    /// Returns whether `name` leads to what is open as `file`. Where other programs make files,
    /// too, one of theirs may have got the name.
    ///
    /// # Errors
    /// The kernel would not say.
    fn leads_to(&self, _name: &str, _file: &Self::File) -> io::Result<bool> {
        Ok(true)
    }
    /// Returns the name of a file until it is finished and called `name`.
    fn unfinished_name(&self, name: &str) -> String {
        format!("{name}.tmp")
    }
    /// As [`Files::create`], for a file that has its [unfinished name](Files::unfinished_name).
    /// Where other programs make files, too, they are kept away from it, it goes when the process
    /// ends before it is finished, and one that an attempt has left which was killed is removed
    /// before: one that has its mark, or that begins with `begins` and has the name which
    /// [`Files::make_whole`] gives.
    ///
    /// # Errors
    /// As [`Files::create`].
    #[track_caller]
    fn create_unfinished(
        &self,
        name: &str,
        _begins: &[u8],
    ) -> io::Result<(Self::File, Option<Unfinished>)> {
        Ok((self.create(name)?, None))
    }
    /// Called before such a file gets its contents in place of its mark. Returns the name that it
    /// has then.
    ///
    /// # Errors
    /// The kernel refuses.
    #[track_caller]
    fn make_whole(&self, name: &str, _unfinished: Option<&Unfinished>) -> io::Result<String> {
        Ok(self.unfinished_name(name))
    }
    /// Returns the bytes at the beginning of such a file, by which it differs from any other.
    ///
    /// # Errors
    /// It is no name.
    fn mark(&self, name: &str) -> io::Result<[u8; MARK_BYTES]> {
        Ok(unfinished::mark(name.as_ref()))
    }
    /// Returns whether something has the name.
    ///
    /// # Errors
    /// The kernel would not say.
    fn is_taken(&self, name: &str) -> io::Result<bool> {
        match self.open(name) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
    /// Returns a number of the database whose files they are, which headers carry, so that a file
    /// of another database does not pass for one of these. Zero where that was not set.
    fn stamp(&self) -> u32 {
        0
    }
    /// Makes what was created, renamed and removed durable.
    ///
    /// # Errors
    /// The sync failed: what is durable is unknown, and the caller must acknowledge nothing more.
    #[track_caller]
    fn sync_directory(&self) -> io::Result<()>;
    /// Makes all files as durable as their medium can, whatever the domain: for closing, after
    /// which a clean mark speaks for them.
    ///
    /// # Errors
    /// A sync failed.
    fn sync_all(&self) -> io::Result<()>;
    /// Returns what was written and synced so far, if it is counted.
    fn counters(&self) -> Counters;
    /// Starts or stops counting.
    fn count(&self, on: bool);
}

/// A file: read and written at byte offsets.
pub trait File: std::fmt::Debug + Send + Sync + 'static {
    /// Bytes in the file.
    ///
    /// # Errors
    /// The kernel refuses.
    fn len(&self) -> io::Result<u64>;
    /// Returns whether the file has no bytes.
    ///
    /// # Errors
    /// The kernel refuses.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Sets the length: cuts off, or extends with zeros.
    ///
    /// # Errors
    /// The kernel refuses.
    #[track_caller]
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// Makes the file at least so many bytes long and reserves space for all that it grows by, so
    /// that writing there later cannot fail for want of space. The time that it takes does not
    /// depend on the length before.
    ///
    /// # Errors
    /// The medium is full.
    #[track_caller]
    fn reserve(&self, bytes: u64) -> io::Result<()>;
    /// Reads up to `out.len()` bytes; fewer only at the end of the file.
    ///
    /// # Errors
    /// The kernel refuses, or the medium failed.
    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize>;
    /// Fills the memory of a page, which is open, from a place of the file on; after the file's end
    /// with zeros. Returns how many bytes there were.
    ///
    /// # Errors
    /// As [`File::read_at`].
    fn read_frame(&self, at: u64, frame: &mut FrameBytes) -> io::Result<usize> {
        let mut bytes = vec![0; frame.bytes().len()];
        let read = self.read_at(at, &mut bytes)?;
        frame.set(0, &bytes);
        Ok(read)
    }
    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// The medium is full or failed; any part may have been written.
    #[track_caller]
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// As [`File::write_at`], of bytes that lie in a memory.
    ///
    /// # Errors
    /// As [`File::write_at`].
    #[track_caller]
    fn write_bytes(&self, at: u64, bytes: Bytes<'_>) -> io::Result<()> {
        self.write_at(at, &bytes.to_vec())
    }
    /// Makes everything written so far, and the length, durable in the domain of the directory.
    ///
    /// # Errors
    /// The sync failed: what is durable is unknown, and the caller must acknowledge nothing more.
    #[track_caller]
    fn sync(&self) -> io::Result<()>;
    /// Makes the first `bytes` bytes durable, which were written through another handle: by writing
    /// them once more, and a sync. A sync alone is not enough: after one that failed the kernel
    /// takes what it could not write for written.
    ///
    /// # Errors
    /// As [`Self::sync`], or they cannot be read.
    #[track_caller]
    fn sync_anew(&self, bytes: u64) -> io::Result<()> {
        write_anew(self, bytes)?;
        self.sync()
    }
}

/// Writes what a file has once more, so that the next sync takes it to the medium.
#[track_caller]
fn write_anew<R: File + ?Sized>(file: &R, bytes: u64) -> io::Result<()> {
    let mut part = vec![0; bytes.min(256 << 10) as usize];
    let mut at = 0;
    while at < bytes {
        let wanted = (bytes - at).min(part.len() as u64) as usize;
        let filled = file.read_at(at, &mut part[..wanted])?;
        if filled == 0 {
            break;
        }
        file.write_at(at, &part[..filled])?;
        at += filled as u64;
    }
    Ok(())
}

/// Checks that a name is one path component that stays within the directory.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`].
pub fn check_name(name: &str) -> io::Result<()> {
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{}` is not a file name", Escaped(name)),
        ));
    }
    Ok(())
}

/// The error of each later call on a handle whose sync has failed.
pub fn failed_sync() -> io::Error {
    io::Error::other(
        "an earlier sync failed; what is durable is unknown, and nothing more is written",
    )
}
