//! A database file that is mapped, with its side file beside it.
//!
//! - Connections agree by locks in words of the side file (`database::connection_lock`). As long as the marker is not set,
//!   stock SQLite may have the database open, too: then each lock is also taken on the database file, where
//!   stock SQLite has its own.
//! - A part of a transaction over several databases is prepared when SQLite commits, and counts once the
//!   super-journal is gone. A stub says so to the others, from before that until it is decided.
//! - Who opens the file when nobody has it open recovers; who closes it last makes it a plain file and
//!   removes the side file. Both happen behind a open_close, one at a time.

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
use crate::store::verdict::{Decide, Verdict};

/// The end of the name of a side file.
pub const SIDE_SUFFIX: &str = "-perdura";
/// Addresses that are reserved for a database.
const DATABASE_ADDRESSES: u64 = 64 << 30;
/// The same for a side file.
const SIDE_ADDRESSES: u64 = 16 << 30;
/// Bytes of a slot of the log: a larger transaction has more fences.
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
    /// The locks of connections of ours.
    pub(super) own_lock: ConnectionLock,
    /// The locks of stock SQLite, as long as it can read the file.
    pub(super) stock_lock: StockLock,
    pub(super) share: Share,
    pub(super) plain_retry: PlainRetry,
    read_only: bool,
    /// The file by which others see that a commit is prepared.
    pub(super) placeholder: Arc<PlaceholderJournal>,
    /// The super-journal of the transaction, once SQLite has committed it, and until it has ended.
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
    /// Opens a database, and makes it if it may be made. `None` if the VFS below is to open it: it lies on
    /// an ordinary disk and no domain was asked for, it has a write-ahead log of SQLite's, or its file cannot
    /// be opened for writing.
    ///
    /// # Errors
    /// It was not closed and its side file is missing, damaged or that of another database; or the kernel
    /// refuses.
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
            // The VFS below says what is wrong as stock SQLite says it.
            let Ok(data) = Plain::open(path, &plain_options) else { return Ok(None) };
            let header = header_of(&data)?;
            let marked = is_marked(&header);
            let wal = header.len() > 19 && header[18] == 2 && header[19] == 2;
            let on_disk = domain.is_none() && data.domain() == Domain::Disk;
            if !marked && (wal || on_disk) {
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
                // In a directory in which nothing can be made, stock SQLite reads at least.
                Err(_) if !marked => return Ok(None),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    // Who closed it last may have cleared the marker, and another one may have set it again.
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
            // Who closed it last may have removed the side file meanwhile.
            if !side.is_at(&side_path) || !data.is_at(path) {
                continue;
            }
            let alone = open_close.is_alone()?;
            let mut store = Self::store(&data, &side, alone)?;
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

    fn store(data: &Plain, side: &Plain, alone: bool) -> Result<Store<Plain>, Failure> {
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
        // Whoever made them longer may have died before that was durable.
        data.sync()?;
        side.sync()?;
        let random = random_uuid();
        let tag = u64::from_le_bytes(random[..8].try_into().expect("eight of sixteen bytes"));
        let store = Store::open_and_decide(media, size, tag | 1, SLOT_BYTES, &decide_durably)?;
        side.sync()?;
        Ok(store)
    }

    /// Looks at the file as it is now. Returns false if somebody died at a commit.
    pub(super) fn refresh_view(&mut self) -> Result<bool, Failure> {
        let data = &self.data;
        let whole = self.store.refresh(|| {
            data.see()?;
            Ok::<_, Failure>(data.len())
        })?;
        self.map_side_growth()?;
        Ok(whole)
    }

    /// Recovers what somebody has left who died at a commit. The caller has the file to himself.
    fn recover(&mut self) -> Result<(), Failure> {
        self.side.see()?;
        // Whoever made them longer may have died before that was durable.
        self.data.sync()?;
        self.side.sync()?;
        self.store.recover_and_decide(&decide_durably)?;
        self.remove_any_placeholder();
        Ok(())
    }

    /// Prepares what was written.
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

    /// Ends a transaction that is one with those of other databases, if there is one: what is prepared counts if the
    /// super-journal is gone. Returns which it was.
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

    /// Returns whether there is something to resolve.
    fn is_with_others(&self) -> bool {
        self.super_journal.is_some() || self.store.is_prepared() || self.placeholder.is_named()
    }

    /// Recovers if the lock that was asked for says so; returns whether it did. Then the connection has no
    /// lock.
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

    /// Begins to read beside other connections of ours.
    fn lock_shared(&mut self) -> Result<(), Failure> {
        loop {
            let taken = self.own_lock.lock(Level::Shared)?;
            if !self.recover_if(taken)? {
                return Ok(());
            }
        }
    }

    /// Looks at what others have committed since it was locked last.
    fn refresh_after_lock(&mut self) -> Result<(), Failure> {
        if !self.refresh_view()? {
            // A commit that failed in the middle was given up by one who lives.
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
            // Stock SQLite may have changed it until then.
            self.refresh_view()?;
        }
        if !self.store.is_marked() {
            return Ok(());
        }
        // Whoever has left the marker may be gone, or shares the database with ours alone, or could not sync what it has cut.
        self.plain_retry.due |= self.share == Share::Stock;
        self.plain_retry.cut_unsynced = true;
        Ok(self.store.catch_up()?)
    }

    /// The lock that the connection has: the lower one of two, if stock SQLite may be there.
    fn held(&self) -> Level {
        match self.stock_lock.level() {
            Level::None => self.own_lock.level(),
            stock => stock.min(self.own_lock.level()),
        }
    }

    /// Returns whether a transaction has begun to write.
    fn has_begun_writing(&self) -> bool {
        // In exclusive mode the lock stays behind a transaction.
        self.store.has_changes() || [Level::Reserved, Level::Pending].contains(&self.level())
    }

    fn writable(&self) -> Result<(), Failure> {
        if self.read_only { Err(Failure::ReadOnly) } else { Ok(()) }
    }

    /// Makes the file a plain one: the caller has it to himself.
    fn make_plain(&mut self) -> Result<(), Failure> {
        if !self.refresh_view()? {
            self.recover()?;
        }
        // Of one who died before anything was prepared.
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

    /// Commits what was written.
    fn commit_here(&mut self) -> Result<(), Failure> {
        if self.held() < Level::Exclusive {
            return Err(Failure::Io("a commit without the exclusive lock".into()));
        }
        self.sync_before_commit()?;
        Ok(self.store.commit()?)
    }

    fn sync_before_commit(&mut self) -> Result<(), Failure> {
        // The last commit may have been another's, and so large that the side file has grown.
        if !self.store.knows_last()? {
            self.side.see()?;
        }
        if !self.store.is_marked() {
            // Until the marker is there, nobody finds out that somebody died while a file grew.
            self.data.sync()?;
            self.side.sync()?;
        }
        Ok(())
    }

    /// Cuts off what the first commit to a new database has left, which was cut off itself.
    pub(super) fn empty(&mut self) -> Result<(), Failure> {
        // Whoever of stock SQLite is there may be writing.
        let emptied = if self.stock_lock.lock(Level::Exclusive).is_ok() {
            self.cut_if_empty()
        } else {
            Ok(())
        };
        self.stock_lock.unlock(Level::None)?;
        emptied
    }

    fn cut_if_empty(&mut self) -> Result<(), Failure> {
        if self.refresh_view()? && self.store.size() == 0 {
            self.data.cut(0)?;
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
            // One that could not be removed when its transaction ended: the last close tries again.
            self.remove_own_placeholder();
            return self.commit_here();
        }
        let touched = self.store.is_touched();
        // SQLite has not told that the super-journal's end is durable.
        let applied = self.resolve(&decide_durably)? == Some(Verdict::Apply);
        // It was rolled back to what is committed.
        self.store.discard();
        // Where SQLite finds no super-journal it rolls nothing back.
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
        // It would write over a part that nobody could decide: whoever begins to read does.
        if before > Level::None && self.store.is_half_way()? {
            return Err(Failure::Busy);
        }
        if to > Level::Shared {
            // Only who begins to read is told to recover.
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
            let has_placeholder =
                self.placeholder.is_made() && self.own_lock.level() >= Level::Reserved;
            if (self.is_with_others() || has_placeholder) && self.resolve(&decide_durably).is_err()
            {
                // Whoever locks the file next finds it, and decides.
                self.store.forget_prepared();
            }
            self.store.discard();
        }
        let alone =
            self.own_lock.level() == Level::Exclusive || to == Level::None && self.retries_plain();
        if alone {
            self.readmit_stock();
        }
        // First that which another one of ours takes last: it is busy at none of the two.
        let lowered =
            if self.stock_lock.level() > Level::None { self.stock_lock.unlock(to) } else { Ok(()) };
        self.own_lock.unlock(to);
        // What is committed is to be told as that; the last unlock comes behind it.
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
                Err("who shares it cannot change within a transaction that writes".into())
            }
            ("perdura_share", Some(word)) => Share::of(word).map(|share| {
                self.set_share(share);
                share.name().into()
            }),
            ("perdura_stats", _) => Ok(self.store.stats().json()),
            // SQLite does what it says, and we do, too.
            ("secure_delete", Some(word)) => {
                self.store.set_erases(!is_no(word));
                return None;
            }
            // In exclusive mode SQLite would not ask whether there is shared memory for it.
            ("journal_mode", Some(word)) if word.eq_ignore_ascii_case("wal") => Ok("delete".into()),
            _ => return None,
        };
        Some(answer)
    }

    fn close(mut self: Box<Self>) -> Result<(), Failure> {
        // A forked child has nothing to close: what it has is the parent's.
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
        // The door opens when the file is closed.
        Ok(())
    }
}
