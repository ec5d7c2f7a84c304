//! A file that has its name only when all of it is there, durably.
//!
//! Invariants:
//! - Under its name the file is whole and durable, or there is none.
//! - What was there before stays: nothing is ever replaced.
//! - A failure leaves nothing, nor does a signal whose handler calls
//!   [`remove_unfinished`](crate::remove_unfinished). A kill or a power cut may leave a file of its
//!   [unfinished name](Files::unfinished_name), which means nothing, and which the next attempt removes.
//!
//! 1. A file of that name is created. A mark that says that it is not finished is written to it and synced.
//!    The bytes go there too, but for the first ones, in whose place the mark stands.
//! 2. [`NewFile::finish`] puts them there, where other programs make files under another name
//!    ([`Files::make_whole`]), syncs the file, renames it where the name is still free,
//!    and syncs the directory.

use std::io::{self, Write};

use super::{File, Files};
use crate::escaped::Escaped;
use crate::unfinished::{MARK_BYTES, Unfinished};

/// A file that is being written; see the module's comment. Dropping it gives it up.
#[derive(Debug)]
pub struct NewFile<F: Files> {
    files: F,
    name: String,
    /// The name that the file has meanwhile.
    own: String,
    /// `None` once the file has its name.
    file: Option<F::File>,
    /// Makes the file go with the process.
    unfinished: Option<Unfinished>,
    /// The first bytes, in whose place the mark stands.
    begin: Vec<u8>,
    at: u64,
}

impl<F: Files> NewFile<F> {
    /// Begins a file that will be called `name`, whose contents begin with `begins`.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] for the name, or for a file that an earlier attempt has
    /// left; what the kernel says.
    #[track_caller]
    pub fn create(files: &F, name: &str, begins: &[u8]) -> io::Result<Self> {
        let taken = |what: String| io::Error::new(io::ErrorKind::AlreadyExists, what);
        if files.is_taken(name)? {
            return Err(taken("exists already; choose another name, or remove it".into()));
        }
        let own = files.unfinished_name(name);
        let (file, unfinished) = files.create_unfinished(&own, begins).map_err(|error| {
            // Others say what is in the way.
            match (error.kind(), error.get_ref()) {
                (io::ErrorKind::AlreadyExists, None) => taken(format!("`{own}` is in the way")),
                _ => error,
            }
        })?;
        let (files, name) = (files.clone(), name.to_owned());
        let begin = Vec::new();
        let new = Self { files, name, own, file: Some(file), unfinished, begin, at: 0 };
        new.put_mark()?;
        Ok(new)
    }

    /// Marks the file as not finished, durably before anything else is written: what a power cut leaves is known
    /// by the mark alone.
    fn put_mark(&self) -> io::Result<()> {
        self.file().write_at(0, &self.files.mark(&self.own)?)?;
        self.file().sync()
    }

    fn file(&self) -> &F::File {
        let Some(file) = &self.file else { unreachable!("not finished") };
        file
    }

    /// Gives the file its name, durably. Returns its bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if something has got the name meanwhile; a write or a sync
    /// failed. There is no file then.
    pub fn finish(mut self) -> io::Result<u64> {
        self.own = self.files.make_whole(&self.name, self.unfinished.as_ref())?;
        let file = self.file();
        file.write_at(0, &self.begin)?;
        if self.begin.len() < MARK_BYTES {
            file.set_len(self.begin.len() as u64)?;
        }
        file.sync()?;
        match self.unfinished.take() {
            Some(unfinished) => unfinished.finish(|_| self.name_it()),
            None => self.name_it(),
        }
    }

    fn name_it(&mut self) -> io::Result<u64> {
        if !self.files.leads_to(&self.own, self.file())? {
            let why = format!("`{}` was removed or replaced meanwhile", Escaped(&self.own));
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        self.files.rename_new(&self.own, &self.name)?;
        let Some(file) = self.file.take() else { unreachable!("looked at above") };
        self.files.sync_directory().inspect_err(|_| {
            // Whether the name would survive a power cut is unknown.
            remove(&self.files, &self.name, &file);
        })?;
        Ok(self.at)
    }
}

/// Removes a file of our own, unless something else has got its name. It takes space and means
/// nothing; an error has no place to go.
fn remove<F: Files>(files: &F, name: &str, file: &F::File) {
    if files.leads_to(name, file).is_ok_and(|ours| ours) {
        let _ = files.remove(name);
    }
}

impl<F: Files> Write for NewFile<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let kept = bytes.len().min(MARK_BYTES - self.begin.len());
        self.begin.extend_from_slice(&bytes[..kept]);
        let rest = &bytes[kept..];
        if !rest.is_empty() {
            self.file().write_at(self.at + kept as u64, rest)?;
        }
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<F: Files> Drop for NewFile<F> {
    fn drop(&mut self) {
        // While the file is open, since it is locked as long.
        drop(self.unfinished.take());
        if let Some(file) = self.file.take() {
            remove(&self.files, &self.own, &file);
        }
    }
}
