//! A mapped database file with its side file.
//!
//! - Connections lock by words in the side file (`database::connection_lock`). Without the marker, stock SQLite may
//!   have the database open as well, so each lock is also taken on the database file, where stock SQLite has its own.
//! - A part of a transaction over several databases is prepared when SQLite commits, and counts once the super-journal
//!   is gone. A placeholder journal shows this to others until the part is decided.
//! - The first connection that opens the file recovers it. The last one to close makes it a plain file and removes the
//!   side file. Both hold the open-close lock.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pm::{Domain, Memory as _, Plain, PlainOptions, random_uuid};

use crate::database::connection_lock::{ConnectionLock, LockOutcome};
use crate::database::contract::{
    Failure, Level, MainFile, OpenOptions, Opened, Opener, SuperJournalNotice,
};
use crate::database::open_close_lock::OpenCloseLock;
use crate::database::parameters::{
    Share, chosen_domain, chosen_mode, chosen_share, is_no, no_mode,
};
use crate::database::placeholder_journal::{PlaceholderJournal, decide, decide_durably};
use crate::database::plain_retry::PlainRetry;
use crate::database::stock_lock::{STOCK, StockLock};
use crate::store::connection::{Media, Store};
use crate::store::mode::Mode;
use crate::store::page1::is_marked;
use crate::store::region::Region;
use crate::store::side::check_not_foreign;
use crate::store::verdict::{Decide, Verdict};

/// The suffix of a side file's name.
pub const SIDE_SUFFIX: &str = "-perdura";
/// Reserved addresses of a database.
const DATABASE_ADDRESSES: u64 = 64 << 30;
/// Reserved addresses of a side file.
const SIDE_ADDRESSES: u64 = 16 << 30;
/// Bytes of a log slot. A larger transaction needs more fences.
const SLOT_BYTES: u64 = 256 << 10;

/// A main database file and its side file.
#[derive(Debug)]
pub struct Mapped {
    pub(super) store: Store<Plain>,
    path: PathBuf,
    side_path: PathBuf,
    pub(super) data: Plain,
    pub(super) side: Plain,
    open_close: OpenCloseLock,
    /// The lock against other connections of this VFS.
    pub(super) own_lock: ConnectionLock,
    /// The lock against stock SQLite, while it can read the file.
    pub(super) stock_lock: StockLock,
    pub(super) share: Share,
    pub(super) plain_retry: PlainRetry,
    read_only: bool,
    /// Shows other processes that a commit is prepared.
    pub(super) placeholder: Arc<PlaceholderJournal>,
    /// The super-journal's name, from SQLite's commit to the end of the transaction.
    super_journal: Option<Vec<u8>>,
}

/// Opens databases as mapped files.
#[derive(Clone, Copy, Default, Debug)]
pub struct MappedOpener;

impl Opener for MappedOpener {
    fn open(&self, path: &Path, options: &OpenOptions) -> Opened {
        match Mapped::open(path, options) {
            Ok(Some(mapped)) => Opened::File(Box::new(mapped)),
            Ok(None) => Opened::Underlying,
            Err(failure) => Opened::Failed(failure),
        }
    }
}

impl Mapped {
    /// Opens a database; creates it if the options allow that. `None` if the underlying VFS has to open it: it is
    /// in SQLite's WAL mode, not writable, in a folder that cannot be synced, or on an ordinary disk and no domain was
    /// given.
    ///
    /// # Errors
    /// It was not closed and its side file is missing, damaged or another database's; or the kernel refuses.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Option<Self>, Failure> {
        if options.mode.as_deref() == Some("stock") {
            return Ok(None);
        }
        let (domain, mode, share) =
            (chosen_domain(options)?, chosen_mode(options)?, chosen_share(options)?);
        let mut side_path = path.as_os_str().to_owned();
        side_path.push(SIDE_SUFFIX);
        let side_path = PathBuf::from(side_path);
        loop {
            let plain_options = PlainOptions {
                create: options.create,
                domain,
                reserved_bytes: DATABASE_ADDRESSES,
                foreign_locks: Some(STOCK),
                ..PlainOptions::default()
            };
            // The underlying VFS reports the error as stock SQLite does.
            let Ok(data) = Plain::open(path, &plain_options) else { return Ok(None) };
            let header = header_of(&data)?;
            let marked = is_marked(&header);
            let wal = header.len() > 19 && header[18] == 2 && header[19] == 2;
            let on_disk = domain.is_none() && data.domain() == Domain::Disk;
            // Stock SQLite goes on without syncing a folder that it cannot open. Here the side file's name has to be
            // durable before the marker is set.
            if !marked && (wal || on_disk || !data.can_sync_name(&side_path)) {
                return Ok(None);
            }
            let plain_options = PlainOptions {
                create: !marked,
                mode: Some(data.mode()?),
                domain,
                reserved_bytes: SIDE_ADDRESSES,
                foreign_locks: None,
            };
            let side = match Plain::open(&side_path, &plain_options) {
                Ok(side) => side,
                // In a read-only directory stock SQLite can still read.
                Err(_) if !marked => return Ok(None),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    // The last close may have cleared the marker, and another connection set it again.
                    if header_of(&data)? != header || !data.is_at(path) {
                        continue;
                    }
                    return Err(crate::store::error::StoreError::SideMissing.into());
                }
                Err(error) => return Err(Failure::CannotOpen(format!("its side file: {error}"))),
            };
            let (open_close, stock_lock) =
                (OpenCloseLock::new(&side), StockLock::new(data.clone()));
            open_close.lock()?;
            // The last close may have removed the side file meanwhile.
            if !side.is_at(&side_path) || !data.is_at(path) {
                continue;
            }
            let alone = open_close.is_alone()?;
            let mut store = Self::store(&data, &side, &side_path, alone)?;
            store.set_mode(mode);
            store.set_erases(options.secure_delete);
            let (own_lock, taken) = ConnectionLock::claim(&side, alone)?;
            let placeholder = Arc::new(PlaceholderJournal::new(&data, path));
            let (path, read_only, super_journal) = (path.to_owned(), options.read_only, None);
            let mut mapped = Self {
                store,
                path,
                side_path,
                data,
                side,
                open_close,
                own_lock,
                stock_lock,
                share,
                plain_retry: PlainRetry::default(),
                read_only,
                placeholder,
                super_journal,
            };
            mapped.set_share(share);
            if alone {
                mapped.remove_any_placeholder();
                mapped.readmit_stock();
            }
            mapped.open_close.set_open()?;
            mapped.recover_if(taken)?;
            mapped.open_close.unlock()?;
            return Ok(Some(mapped));
        }
    }

    fn store(
        data: &Plain,
        side: &Plain,
        side_path: &Path,
        alone: bool,
    ) -> Result<Store<Plain>, Failure> {
        data.see()?;
        side.see()?;
        let media = Media {
            data: Region::whole(data.clone()),
            side: Region::whole(side.clone()),
            separate_fences: data.domain() == Domain::Disk,
        };
        let size = data.file_bytes()?;
        if !alone {
            return Ok(Store::attach(media, size)?);
        }
        if !is_marked(&header_of(data)?) {
            check_not_foreign(&media.side)?;
        }
        // The process that grew the files may have died before their lengths were durable.
        data.sync()?;
        side.sync()?;
        let random = random_uuid();
        let tag = u64::from_le_bytes(random[..8].try_into().expect("eight of sixteen bytes"));
        let store = Store::open_and_decide(media, size, tag | 1, SLOT_BYTES, &decide_durably)?;
        side.sync()?;
        // A database with the marker is refused without its side file, so the file's name becomes durable first.
        side.sync_name(side_path)?;
        Ok(store)
    }

    /// Refreshes the connection's view of the file. Returns false if a commit was interrupted.
    pub(super) fn refresh_view(&mut self) -> Result<bool, Failure> {
        let data = &self.data;
        let whole = self.store.refresh(|| {
            data.see()?;
            Ok::<_, Failure>(data.len())
        })?;
        self.map_side_growth()?;
        Ok(whole)
    }

    /// Recovers an interrupted commit. The caller has exclusive access.
    fn recover(&mut self) -> Result<(), Failure> {
        self.side.see()?;
        // The process that grew the files may have died before their lengths were durable.
        self.data.sync()?;
        self.side.sync()?;
        self.store.recover_and_decide(&decide_durably)?;
        self.remove_any_placeholder();
        Ok(())
    }

    /// Prepares the staged writes.
    fn prepare(&mut self, name: &[u8]) -> Result<(), Failure> {
        if self.held() < Level::Exclusive {
            return Err(Failure::Io("a commit without the exclusive lock".into()));
        }
        if self.store.is_prepared() {
            self.store.roll_back_prepared()?;
        }
        if !self.store.has_changes() {
            return Ok(());
        }
        self.placeholder.publish(name)?;
        self.sync_before_commit()?;
        Ok(self.store.prepare_for(name)?)
    }

    /// Ends a transaction over several databases, if there is one: a prepared part counts if the
    /// super-journal is gone. Returns the verdict.
    fn resolve(&mut self, decide: Decide<'_>) -> Result<Option<Verdict>, Failure> {
        self.store.healthy()?;
        self.super_journal = None;
        let verdict = self.store.prepared_for().map(decide).transpose()?;
        match verdict {
            Some(Verdict::Apply) => self.store.commit_prepared()?,
            Some(Verdict::Discard) => self.store.roll_back_prepared()?,
            None => {}
        }
        self.remove_own_placeholder();
        Ok(verdict)
    }

    /// Returns whether there is a transaction over several databases to resolve.
    fn is_with_others(&self) -> bool {
        self.super_journal.is_some() || self.store.is_prepared() || self.placeholder.is_named()
    }

    /// Recovers if the lock outcome demands it; returns whether it did. The connection holds no lock then.
    fn recover_if(&mut self, taken: LockOutcome) -> Result<bool, Failure> {
        if taken == LockOutcome::Locked {
            return Ok(false);
        }
        let recovered =
            self.refresh_view().and_then(|whole| if whole { Ok(()) } else { self.recover() });
        match recovered {
            Ok(()) => {
                self.readmit_stock();
                self.own_lock.end_recovery();
            }
            Err(_) => self.own_lock.abandon(),
        }
        recovered.map(|()| true)
    }

    /// Takes the shared lock among connections of this VFS.
    fn lock_shared(&mut self) -> Result<(), Failure> {
        loop {
            let taken = self.own_lock.lock(Level::Shared)?;
            if !self.recover_if(taken)? {
                return Ok(());
            }
        }
    }

    /// Refreshes the view after the connection has taken its first lock.
    fn refresh_after_lock(&mut self) -> Result<(), Failure> {
        if !self.refresh_view()? {
            // A live connection abandoned a commit that failed halfway.
            let _ = self.own_lock.lock(Level::Exclusive)?;
            self.recover()?;
            self.readmit_stock();
            self.own_lock.unlock(Level::Shared);
            if self.stock_lock.level() > Level::Shared {
                self.stock_lock.unlock(Level::Shared)?;
            }
        }
        if !self.store.is_marked() {
            self.stock_lock.lock(Level::Shared)?;
            // Stock SQLite may have changed the file until then.
            self.refresh_view()?;
        }
        if !self.store.is_marked() {
            return Ok(());
        }
        // The connection that left the marker may be gone, may not share with stock, or could not sync its cut.
        self.plain_retry.due |= self.share == Share::Stock;
        self.plain_retry.cut_unsynced = true;
        Ok(self.store.catch_up()?)
    }

    /// The lock that the connection holds: the lower of the two, if stock SQLite may use the file.
    fn held(&self) -> Level {
        match self.stock_lock.level() {
            Level::None => self.own_lock.level(),
            stock => stock.min(self.own_lock.level()),
        }
    }

    /// Returns whether a transaction has begun to write.
    fn has_begun_writing(&self) -> bool {
        // In exclusive mode the lock outlasts the transaction.
        self.store.has_changes() || [Level::Reserved, Level::Pending].contains(&self.level())
    }

    fn writable(&self) -> Result<(), Failure> {
        if self.read_only { Err(Failure::ReadOnly) } else { Ok(()) }
    }

    /// Makes the file a plain one. The caller has exclusive access.
    fn make_plain(&mut self) -> Result<(), Failure> {
        if !self.refresh_view()? {
            self.recover()?;
        }
        // Its owner may have died before it prepared anything.
        self.remove_any_placeholder();
        if self.store.is_marked() {
            self.side.see()?;
            self.store.catch_up()?;
            self.store.restore_layout()?;
            self.data.cut(self.store.size())?;
            self.data.sync()?;
            self.store.make_plain()?;
        } else if self.store.size() == 0 && self.data.len() > 0 {
            self.empty()?;
        }
        Ok(self.side.remove(&self.side_path)?)
    }

    /// Commits the staged writes.
    fn commit_here(&mut self) -> Result<(), Failure> {
        if self.held() < Level::Exclusive {
            return Err(Failure::Io("a commit without the exclusive lock".into()));
        }
        self.sync_before_commit()?;
        Ok(self.store.commit()?)
    }

    fn sync_before_commit(&mut self) -> Result<(), Failure> {
        // Another connection's commit may have grown the side file.
        if !self.store.knows_last()? {
            self.side.see()?;
        }
        if !self.store.is_marked() {
            // Without the marker, no one can tell later that a process died while a file grew.
            self.data.sync()?;
            self.side.sync()?;
        }
        Ok(())
    }
}

/// The first bytes of the file.
fn header_of(data: &Plain) -> Result<Vec<u8>, Failure> {
    let region = Region::whole(data.clone());
    Ok(crate::store::page1::header(&region, data.file_bytes()?)?)
}

impl MainFile for Mapped {
    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<usize, Failure> {
        if self.own_lock.level() == Level::None {
            self.refresh_unlocked()?;
        }
        self.store.count_copy();
        Ok(self.store.read(at, out)?)
    }

    fn fetch(&mut self, at: u64, len: u64) -> Result<Option<*const u8>, Failure> {
        if self.own_lock.level() == Level::None {
            return Ok(None);
        }
        Ok(self.store.fetch(at, len, |place| self.data.address(place))?)
    }

    fn unfetch(&mut self, _: u64, _: *const u8) {
        self.store.unfetch();
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.writable()?;
        Ok(self.store.write(at, bytes)?)
    }

    fn truncate(&mut self, to: u64) -> Result<(), Failure> {
        self.writable()?;
        self.store.truncate(to);
        Ok(())
    }

    fn size(&mut self) -> Result<u64, Failure> {
        if self.own_lock.level() == Level::None {
            self.refresh_unlocked()?;
        }
        Ok(self.store.size())
    }

    fn commit(&mut self, super_journal: Option<&[u8]>) -> Result<(), Failure> {
        if let Some(name) = super_journal {
            self.super_journal = Some(name.to_vec());
            return self.prepare(name);
        }
        if !self.is_with_others() {
            // A placeholder whose removal failed at the end of its transaction; the last close tries again.
            self.remove_own_placeholder();
            return self.commit_here();
        }
        let touched = self.store.is_touched();
        // SQLite has not said that the super-journal's removal is durable.
        let applied = self.resolve(&decide_durably)? == Some(Verdict::Apply);
        // It was rolled back to the committed state.
        self.store.discard();
        // If SQLite finds no super-journal it does not roll back.
        if applied && touched {
            return Err(Failure::Io("a transaction over several databases has not ended".into()));
        }
        Ok(())
    }

    fn super_journal_notice(&self) -> Option<Arc<dyn SuperJournalNotice>> {
        Some(Arc::clone(&self.placeholder) as Arc<dyn SuperJournalNotice>)
    }

    fn sync(&mut self) -> Result<(), Failure> {
        let waits = !self.store.is_prepared() || self.store.is_touched();
        match self.super_journal.clone() {
            _ if !waits || !self.store.has_changes() => Ok(()),
            Some(name) => self.prepare(&name),
            None => self.commit_here(),
        }
    }

    fn end_transaction(&mut self) -> Result<(), Failure> {
        if let Some(name) = self.store.prepared_for()
            && decide(name)? == Verdict::Discard
        {
            return Err(Failure::Io("the super-journal of the transaction is still there".into()));
        }
        if self.is_with_others() {
            self.resolve(&decide)?;
        }
        if self.store.has_size_only() && self.held() == Level::Exclusive {
            self.store.commit()?;
        }
        Ok(())
    }

    fn lock(&mut self, to: Level) -> Result<(), Failure> {
        self.store.healthy()?;
        let before = self.held();
        if to <= before {
            return Ok(());
        }
        if before == Level::None {
            self.lock_shared()?;
            if let Err(failure) = self.refresh_after_lock() {
                self.own_lock.unlock(Level::None);
                self.stock_lock.unlock(Level::None)?;
                return Err(failure);
            }
        }
        // An undecided part must not be overwritten. The next connection that begins to read decides it.
        if before > Level::None && self.store.is_half_way()? {
            return Err(Failure::Busy);
        }
        if to > Level::Shared {
            // Only a connection that begins to read has to recover.
            let _ = self.own_lock.lock(to)?;
            if self.stock_lock.level() > Level::None
                && let Err(failure) = self.stock_lock.lock(to)
            {
                if to == Level::Reserved {
                    self.own_lock.unlock(before.max(Level::Shared));
                }
                return Err(failure);
            }
        }
        Ok(())
    }

    fn unlock(&mut self, to: Level) -> Result<(), Failure> {
        if to <= Level::Shared {
            let made = self.placeholder.is_made() && self.own_lock.level() >= Level::Reserved;
            if (self.is_with_others() || made) && self.resolve(&decide_durably).is_err() {
                // The next connection that locks the file decides.
                self.store.forget_prepared();
            }
            self.store.discard();
        }
        let alone =
            self.own_lock.level() == Level::Exclusive || to == Level::None && self.retries_plain();
        if alone {
            self.readmit_stock();
        }
        // Released in the reverse order of locking, so that no other connection is refused in between.
        let lowered =
            if self.stock_lock.level() > Level::None { self.stock_lock.unlock(to) } else { Ok(()) };
        self.own_lock.unlock(to);
        // A committed transaction must be reported as committed; the last unlock comes after this one.
        if to == Level::None { lowered } else { Ok(()) }
    }

    fn level(&self) -> Level {
        let pending = self.own_lock.level() == Level::Pending || self.stock_lock.is_pending();
        if pending { Level::Pending } else { self.held() }
    }

    fn is_reserved(&mut self) -> Result<bool, Failure> {
        Ok(self.own_lock.is_reserved()?
            || !self.store.is_marked() && self.stock_lock.is_reserved()?)
    }

    fn has_moved(&self) -> bool {
        !self.data.is_at(&self.path)
    }

    fn pragma(&mut self, name: &str, value: Option<&str>) -> Option<Result<String, String>> {
        let answer = match (name, value) {
            ("perdura_mode", None) => Ok(self.store.mode().name().into()),
            ("perdura_mode", Some(word)) => match Mode::of(word) {
                Some(_) if self.has_begun_writing() => {
                    Err("the mode cannot change within a transaction that writes".into())
                }
                Some(mode) => {
                    self.store.set_mode(mode);
                    Ok(mode.name().into())
                }
                None => Err(no_mode(word)),
            },
            ("perdura_domain", None) => Ok(self.data.domain().name().into()),
            ("perdura_domain", Some(_)) => {
                Err("the domain is chosen when the database is opened: ?perdura_domain=".into())
            }
            ("perdura_share", None) => Ok(self.share.name().into()),
            ("perdura_share", Some(_)) if self.has_begun_writing() => {
                Err("perdura_share cannot change within a transaction that writes".into())
            }
            ("perdura_share", Some(word)) => Share::of(word).map(|share| {
                self.set_share(share);
                share.name().into()
            }),
            ("perdura_stats", _) => Ok(self.store.stats().json()),
            // SQLite obeys it, and so does the store.
            ("secure_delete", Some(word)) => {
                self.store.set_erases(!is_no(word));
                return None;
            }
            // In exclusive mode SQLite does not ask whether the VFS has shared memory.
            ("journal_mode", Some(word)) if word.eq_ignore_ascii_case("wal") => Ok("delete".into()),
            _ => return None,
        };
        Some(answer)
    }

    fn close(mut self: Box<Self>) -> Result<(), Failure> {
        // A forked child has nothing to close: the locks are its parent's.
        self.store.healthy()?;
        if self.is_with_others() && self.resolve(&decide_durably).is_err() {
            self.store.forget_prepared();
        }
        self.store.discard();
        self.stock_lock.unlock(Level::None)?;
        self.own_lock.unlock(Level::None);
        self.open_close.lock()?;
        self.open_close.set_closed()?;
        if self.open_close.is_alone()? {
            self.make_plain()?;
        }
        // Closing the file releases the open-close lock.
        Ok(())
    }
}
