//! A place for a pool, its files, or a copy: an open directory, and a name in it.
//!
//! A path can lead elsewhere from one moment to the next: a link is flipped, a directory renamed, a
//! file removed and made anew. So a path is walked once, to the directory in which its last name
//! stands; from then on everything is done to names in that open directory.
//!
//! Invariants:
//! - What belongs together is found in one open directory: the files of a pool, the name under which
//!   a database is made and the one that it gets.
//! - Something is removed or gets another name only while its name leads to what the caller holds
//!   open. An inode that is open is not given out again, so its number says whose it is.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::path::Arg;

use crate::names::IDENTITY;

/// Links that a name may lead through, as many as the kernel follows.
const MOST_LINKS: u32 = 40;

/// Device and inode.
type Inode = (u64, u64);

/// An open directory, and a name in it. Clones share the directory.
#[derive(Clone, Debug)]
pub struct Place {
    directory: Arc<File>,
    name: OsString,
    /// The path of the name.
    path: PathBuf,
    asked: Arc<Asked>,
    /// The suffix after the name of what was asked for.
    suffix: String,
}

/// The path that was asked for.
#[derive(Debug)]
struct Asked {
    path: PathBuf,
    /// The directory where a relative path began.
    start: Option<File>,
    /// The root directory of the process at that time.
    root: Option<Inode>,
}

/// Says where something is by now that a path has led to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Whereabouts {
    /// The thing is where it was, or that cannot be found out.
    There,
    /// The thing has no name any more.
    Removed,
    /// The thing has this name, as far as that is known.
    At(Option<PathBuf>),
}

impl Place {
    /// The place of a path's last name, whether there is something of that name or not. A link that
    /// has this name is not followed.
    ///
    /// # Errors
    /// There is no such directory.
    pub fn of(path: &Path) -> io::Result<Self> {
        let start = match path.is_absolute() {
            true => None,
            false => Some(open_directory(None, Path::new("."))?),
        };
        let root = std::fs::metadata("/").ok().map(|meta| inode(&meta));
        let asked = Arc::new(Asked { path: path.into(), start, root });
        Self::from(None, path, asked)
    }

    /// As [`Place::of`], but links are followed: the place in which the thing itself has its name.
    ///
    /// # Errors
    /// As [`Place::of`]; there are too many links.
    pub fn find(path: &Path) -> io::Result<Self> {
        Self::of(path)?.resolve_links()
    }

    fn from(start: Option<&File>, path: &Path, asked: Arc<Asked>) -> io::Result<Self> {
        if path.as_os_str().is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let (parent, name) = match path.file_name() {
            Some(name) => (parent_of(path), name),
            None => (path, OsStr::new(".")),
        };
        let directory = Arc::new(open_directory(start, parent)?);
        Ok(Self { directory, name: name.into(), path: path.into(), asked, suffix: String::new() })
    }

    /// Returns the place where the thing itself has its name, if a link has this one.
    ///
    /// # Errors
    /// A directory on the way is not there, or there are too many links.
    pub fn resolve_links(mut self) -> io::Result<Self> {
        for _ in 0..MOST_LINKS {
            match rustix::fs::readlinkat(&self.directory, &self.name, Vec::new()) {
                Ok(target) => {
                    let target = Path::new(OsStr::from_bytes(target.as_bytes()));
                    let path = parent_of(&self.path).join(target);
                    let found = Self::from(Some(&self.directory), target, self.asked)?;
                    self = Self { path, suffix: self.suffix, ..found };
                }
                // No link, or nothing at all.
                Err(Errno::INVAL | Errno::NOENT) => return Ok(self),
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::LOOP.into())
    }

    /// The same name with something appended, in the same directory.
    #[must_use]
    pub fn with_suffix(&self, suffix: &str) -> Self {
        let longer = |name: &OsStr| {
            let mut name = name.to_owned();
            name.push(suffix);
            name
        };
        Self {
            directory: self.directory.clone(),
            name: longer(&self.name),
            path: longer(self.path.as_os_str()).into(),
            asked: self.asked.clone(),
            suffix: format!("{}{suffix}", self.suffix),
        }
    }

    /// The path of this place: the one that was asked for, or where links led.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name in its directory.
    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    /// The path that was asked for, with what was appended.
    pub fn asked_path(&self) -> PathBuf {
        let mut path = self.asked.path.as_os_str().to_owned();
        path.push(&self.suffix);
        path.into()
    }

    /// Returns whether something has the name, a link that leads nowhere included.
    ///
    /// # Errors
    /// The kernel would not say.
    pub fn is_taken(&self) -> io::Result<bool> {
        Ok(self.inode()?.is_some())
    }

    fn inode(&self) -> io::Result<Option<Inode>> {
        inode_at(&self.directory, &self.name)
    }

    /// Returns whether the name leads to what is open as `file`.
    ///
    /// # Errors
    /// The kernel would not say.
    pub(crate) fn leads_to(&self, file: &File) -> io::Result<bool> {
        leads_to(&self.directory, &self.name, file)
    }

    /// Returns whether a directory with files can be made of this name, or of the one to which a link of
    /// this name leads: nothing has it, or an empty directory.
    ///
    /// # Errors
    /// The kernel would not say.
    pub fn is_free_for_files(&self) -> io::Result<bool> {
        if !self.is_taken()? {
            return Ok(true);
        }
        match self.open_directory() {
            Ok(directory) => is_empty(&directory),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens whatever has the name, only to tell it from what gets the name later. Nothing can be
    /// read or written through it.
    ///
    /// # Errors
    /// Nothing has it, or the kernel refuses.
    pub(crate) fn hold(&self) -> io::Result<File> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        Ok(openat(&self.directory, &*self.name, flags, Mode::empty())?.into())
    }

    /// Opens the file of this name, which is not followed if it is a link.
    pub(crate) fn open(&self, flags: OFlags) -> io::Result<File> {
        open_at(&self.directory, &self.name, flags)
    }

    /// Returns the type of file that has the name; a link is not followed.
    pub(crate) fn kind(&self) -> io::Result<FileType> {
        let stat = rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(stat.st_mode))
    }

    /// Owner and mode of what has the name.
    pub(crate) fn owner(&self) -> io::Result<(u32, u32)> {
        let stat = rustix::fs::statat(&self.directory, &*self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((stat.st_uid, stat.st_mode & 0o7777))
    }

    /// Creates a file, for its owner only.
    pub(crate) fn create_file(&self) -> io::Result<File> {
        create_at(&self.directory, &self.name)
    }

    /// Creates a directory, for its owner only.
    pub(crate) fn create_directory(&self) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.directory, &self.name, Mode::RWXU)?)
    }

    /// Opens the directory of this name, through a link if one has it.
    pub(crate) fn open_directory(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        Ok(openat(&self.directory, &*self.name, flags, Mode::empty())?.into())
    }

    /// Removes `file`, which has this name. What else may have got the name stays.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`], also if something else has the name; the kernel refuses.
    pub(crate) fn remove(&self, file: &File) -> io::Result<()> {
        remove_at(&self.directory, &self.name, file)
    }

    /// Removes the files in `directory`, and the directory itself, if it still has this name and
    /// nothing else is in it.
    ///
    /// # Errors
    /// As [`Place::remove`], or something is left in it.
    pub(crate) fn remove_directory(&self, directory: &File) -> io::Result<()> {
        remove_files(directory)?;
        if !self.leads_to(directory)? {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::REMOVEDIR)?)
    }

    /// Removes the directory of this name, if it is empty: one that was made just now and could not be
    /// opened.
    pub(crate) fn remove_empty_directory(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.directory, &*self.name, AtFlags::REMOVEDIR)?)
    }

    /// Gives `file`, which has this name, that of `to` in the same directory, if nothing has that.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`]; [`io::ErrorKind::NotFound`], also if something else has
    /// this name by now; the kernel refuses.
    pub(crate) fn rename_new(&self, file: &File, to: &Self) -> io::Result<()> {
        if !self.leads_to(file)? {
            return Err(io::ErrorKind::NotFound.into());
        }
        rename_new_at(&self.directory, &self.name, &to.name)
    }

    /// Makes the names in the directory durable, whatever its medium.
    ///
    /// # Errors
    /// The sync failed.
    pub fn sync_directory(&self) -> io::Result<()> {
        // A descriptor that is only good for names cannot be synced.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        open_at(&self.directory, OsStr::new("."), flags)?.sync_all()
    }

    /// Returns where `file` is, which this place was found to have: whether its name leads to it,
    /// and the path that was asked for still leads to the name.
    pub(crate) fn whereabouts(&self, file: &File) -> Whereabouts {
        Self::judge(&self.is_as_asked(file), file)
    }

    /// As [`Place::whereabouts`], but of the name alone, wherever the path leads by now.
    pub(crate) fn whereabouts_here(&self, file: &File) -> Whereabouts {
        Self::judge(&self.leads_to(file), file)
    }

    fn judge(as_before: &io::Result<bool>, file: &File) -> Whereabouts {
        match as_before {
            // A process that may not look, in another root directory perhaps, does not know.
            Ok(true) | Err(_) => Whereabouts::There,
            Ok(false) if file.metadata().is_ok_and(|meta| meta.nlink() == 0) => {
                Whereabouts::Removed
            }
            Ok(false) => Whereabouts::At(path_of(file)),
        }
    }

    fn is_as_asked(&self, file: &File) -> io::Result<bool> {
        if !self.leads_to(file)? {
            return Ok(false);
        }
        use io::ErrorKind::{NotADirectory, NotFound};
        let Asked { path, start, root } = &*self.asked;
        if *root != Some(inode(&std::fs::metadata("/")?)) {
            return Ok(true);
        }
        let found = || -> io::Result<bool> {
            let found = Self::from(start.as_ref(), path, self.asked.clone())?.resolve_links()?;
            let found = match &*self.suffix {
                "" => found,
                suffix => found.with_suffix(suffix).resolve_links()?,
            };
            let same = inode(&found.directory.metadata()?) == inode(&self.directory.metadata()?);
            Ok(same && found.name == self.name)
        };
        match found() {
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(false),
            found => found,
        }
    }
}

/// Something that was made at a place, held open so that it is not mistaken for what gets its name
/// later. Others are not kept out.
#[derive(Debug)]
pub struct Named {
    place: Place,
    held: File,
    /// True for a directory that was there before.
    prepared: bool,
}

impl Named {
    /// Holds the file that is open as `file` and has its name at `place`.
    pub(crate) fn of(place: &Place, file: &File) -> io::Result<Self> {
        let held = place.hold()?;
        if inode(&held.metadata()?) != inode(&file.metadata()?) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Self { place: place.clone(), held, prepared: false })
    }

    /// The same of a directory that was there before files were made in it, if it was.
    pub(crate) fn prepared(self, prepared: bool) -> Self {
        Self { prepared, ..self }
    }

    /// Returns whether its name still leads to it.
    ///
    /// # Errors
    /// The kernel would not say.
    pub fn has_its_name(&self) -> io::Result<bool> {
        self.place.leads_to(&self.held)
    }

    /// Returns where it is by now: whether the path that was asked for still leads to it.
    pub fn whereabouts(&self) -> Whereabouts {
        self.place.whereabouts(&self.held)
    }

    /// Gives it the name of `to`, in the same directory, if nothing has that.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`]; [`io::ErrorKind::NotFound`] if it has lost its name; the
    /// kernel refuses.
    pub fn rename_new(&mut self, to: Place) -> io::Result<()> {
        self.place.rename_new(&self.held, &to)?;
        self.place = to;
        Ok(())
    }

    /// Removes a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if it has lost its name; the kernel refuses.
    pub fn remove(&self) -> io::Result<()> {
        self.place.remove(&self.held)
    }

    /// Removes the files in a directory, and the directory, unless it was there before them.
    ///
    /// # Errors
    /// As [`Named::remove`], or something is left in it.
    pub fn remove_directory(&self) -> io::Result<()> {
        match self.prepared {
            true => remove_files(&self.held),
            false => self.place.remove_directory(&self.held),
        }
    }
}

/// Says why a file or a directory cannot be opened that has this owner and mode.
pub(crate) fn no_right(owner: u32, mode: u32) -> String {
    let own = rustix::process::geteuid().as_raw();
    format!(
        "belongs to user {owner}, with mode {mode:03o}, and this process is of user {own}; give all files of the database to one user (chown)"
    )
}

/// Names a type of file, for people.
pub(crate) fn what(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Fifo => "a FIFO",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Socket => "a socket",
        FileType::Symlink => "a link",
        _ => "something else",
    }
}

/// The directory that a path's last name is in.
pub(crate) fn parent_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

fn inode(meta: &std::fs::Metadata) -> Inode {
    (meta.dev(), meta.ino())
}

/// The name that the kernel knows of an open file.
fn path_of(file: &File) -> Option<PathBuf> {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    // It may have got another one meanwhile, or be out of sight.
    let meta = std::fs::symlink_metadata(&path).ok()?;
    (inode(&meta) == inode(&file.metadata().ok()?)).then_some(path)
}

/// Calls the kernel's `openat`; a signal does not interrupt it.
fn openat(
    directory: impl AsFd,
    name: impl Arg + Copy,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    retry_on_intr(|| rustix::fs::openat(directory.as_fd(), name, flags | OFlags::CLOEXEC, mode))
}

/// A directory that is only gone through.
pub(crate) fn open_directory(start: Option<&File>, path: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let opened: Result<OwnedFd, Errno> = match start {
        Some(start) => openat(start, path, flags, Mode::empty()),
        None => openat(CWD, path, flags, Mode::empty()),
    };
    Ok(opened?.into())
}

fn inode_at(directory: &File, name: &OsStr) -> io::Result<Option<Inode>> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some((stat.st_dev, stat.st_ino))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether a name in a directory leads to what is open as `file`.
pub(crate) fn leads_to(directory: &File, name: &OsStr, file: &File) -> io::Result<bool> {
    Ok(inode_at(directory, name)? == Some(inode(&file.metadata()?)))
}

/// Opens a file in a directory; no link is followed, and no call waits for the other end of a FIFO.
pub(crate) fn open_at(directory: &File, name: &OsStr, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    Ok(openat(directory, name, flags, Mode::empty())?.into())
}

/// Creates a file in a directory, for its owner only.
pub(crate) fn create_at(directory: &File, name: &OsStr) -> io::Result<File> {
    // Nothing more is asked that could fail and leave the file.
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    Ok(openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// Removes `file`, if the name leads to it.
pub(crate) fn remove_at(directory: &File, name: &OsStr, file: &File) -> io::Result<()> {
    if !leads_to(directory, name, file)? {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(rustix::fs::unlinkat(directory, name, AtFlags::empty())?)
}

/// Removes the regular files in a directory: last the one that says whose they are, durably, so that an
/// attempt which is cut off can be repeated.
pub(crate) fn remove_files(directory: &File) -> io::Result<()> {
    // It may be held for its names only.
    let readable = open_at(directory, OsStr::new("."), OFlags::RDONLY | OFlags::DIRECTORY)?;
    let remove = |name: &OsStr| Ok(rustix::fs::unlinkat(directory, name, AtFlags::empty())?);
    let mut last = Vec::new();
    for_each_file(&readable, |name| match name.as_bytes().starts_with(IDENTITY.as_bytes()) {
        true => {
            last.push(name.to_owned());
            Ok(())
        }
        false => remove(name),
    })?;
    if !last.is_empty() {
        readable.sync_all()?;
    }
    // The claim has a longer name than the file that it becomes.
    last.sort_unstable();
    last.iter().try_for_each(|name| remove(name))
}

/// Renames in a directory; what is called `to` stays.
pub(crate) fn rename_new_at(directory: &File, from: &OsStr, to: &OsStr) -> io::Result<()> {
    let keep = RenameFlags::NOREPLACE;
    match rustix::fs::renameat_with(directory, from, directory, to, keep) {
        // A file system that cannot, such as NFS.
        Err(Errno::INVAL | Errno::NOSYS) => rename_in_two(directory, from, to),
        done => Ok(done?),
    }
}

/// [`rename_new_at`] in two steps, each of which fails where there is something called `to`. A crash
/// in between leaves a file with both names, or an empty directory `to`.
pub(crate) fn rename_in_two(directory: &File, from: &OsStr, to: &OsStr) -> io::Result<()> {
    let stat = rustix::fs::statat(directory, from, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        rustix::fs::mkdirat(directory, to, Mode::RWXU)?;
        // It replaces an empty directory only.
        let renamed = rustix::fs::renameat(directory, from, directory, to);
        if renamed.is_err() {
            let _ = rustix::fs::unlinkat(directory, to, AtFlags::REMOVEDIR);
        }
        return Ok(renamed?);
    }
    rustix::fs::linkat(directory, from, directory, to, AtFlags::empty())?;
    let unlinked = rustix::fs::unlinkat(directory, from, AtFlags::empty());
    if unlinked.is_err() {
        let _ = rustix::fs::unlinkat(directory, to, AtFlags::empty());
    }
    Ok(unlinked?)
}

/// Calls `work` with the name of each regular file in a directory, in no order. Anything else was
/// not made by us.
pub(crate) fn for_each_file(
    directory: &File,
    mut work: impl FnMut(&OsStr) -> io::Result<()>,
) -> io::Result<()> {
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        let kind = match entry.file_type() {
            FileType::Unknown => {
                match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(Errno::NOENT) => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            kind => kind,
        };
        if kind == FileType::RegularFile {
            work(name)?;
        }
    }
    Ok(())
}

/// Returns whether nothing at all is in a directory.
pub(crate) fn is_empty(directory: &File) -> io::Result<bool> {
    for entry in Dir::read_from(directory)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}
