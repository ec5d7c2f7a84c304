//! A mapped database file with its side file.
//!
//! - Connections lock by words in the side file (`database::connection_lock`). Without the marker, stock SQLite may
//!   have the database open as well, so each lock is also taken on the database file, where stock SQLite has its own.
//! - A part of a transaction over several databases is prepared when SQLite commits, and counts once the super-journal
//!   is gone. A placeholder journal shows this to others until the part is decided.
//! - In SQLite's WAL mode the log is SQLite's own, and the file is read and written without the store
//!   (`database::wal`). The commit that enters it leaves a plain file, and the gate that keeps stock SQLite out.
//! - The first connection that opens the file recovers it. The last one to close makes it a plain file and removes the
//!   side file. Both hold the open-close lock.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pm::{Domain, Memory as _, Plain, PlainOptions, Tick, random_uuid};

use crate::database::connection_lock::{ConnectionLock, LockOutcome};
use crate::database::contract::{
    Failure, Level, OpenOptions, Opened, Opener, SuperJournalNotice as _,
};
use crate::database::names::{Lost, Names};
use crate::database::not_taken::{self, NotTaken};
use crate::database::open_close_lock::OpenCloseLock;
use crate::database::parameters::{
    Share, Wal, chosen_domain, chosen_mode, chosen_share, chosen_wal,
};
use crate::database::placeholder_journal::{PlaceholderJournal, decide_durably};
use crate::database::plain_retry::PlainRetry;
use crate::database::stock_lock::{STOCK, StockLock};
use crate::database::wal::{
    Database, Locks, Parts, WalConnection, index_path, recover_closed, stock_lives,
};
use crate::store::connection::{Media, Store};
use crate::store::layout::HEADER_BYTES;
use crate::store::mode::Mode;
use crate::store::page1::{self, has_sqlites_form, is_marked};
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
    pub(super) path: PathBuf,
    pub(super) side_path: PathBuf,
    pub(super) data: Plain,
    pub(super) side: Plain,
    pub(super) open_close: OpenCloseLock,
    /// The lock against other connections of this VFS.
    pub(super) own_lock: ConnectionLock,
    /// The lock against stock SQLite, while it can read the file.
    pub(super) stock_lock: StockLock,
    pub(super) share: Share,
    pub(super) plain_retry: PlainRetry,
    pub(super) names: Names,
    /// The tick of the last look at the file's length.
    pub(super) looked: Option<Tick>,
    pub(super) read_only: bool,
    /// Shows other processes that a commit is prepared.
    pub(super) placeholder: Arc<PlaceholderJournal>,
    /// Shared with the connection's log.
    pub(super) wal: Arc<WalConnection>,
    pub(super) wal_choice: Wal,
    /// This connection holds the open-close lock.
    pub(super) has_door: bool,
    /// The locks of the log, while SQLite has its index mapped.
    pub(super) index_locks: Option<Locks>,
    /// The database, while the log is open.
    pub(super) in_wal: Option<Database>,
    /// Pages that SQLite has fetched in WAL mode: now, and in all.
    pub(super) fetched_in_wal: u64,
    pub(super) fetched_total: u64,
    /// The super-journal's name, from SQLite's commit to the end of the transaction.
    pub(super) super_journal: Option<Vec<u8>>,
}

/// Opens databases as mapped files.
#[derive(Clone, Copy, Default, Debug)]
pub struct MappedOpener;

impl Opener for MappedOpener {
    fn open(&self, path: &Path, options: &OpenOptions) -> Opened {
        match Mapped::open(path, options) {
            Ok(Some(mapped)) => Opened::File(Box::new(mapped)),
            // A log that was asked for is never silently another one.
            Ok(None) if chosen_wal(options) == Ok(Wal::Diff) => {
                let why = not_taken::why_not_taken().unwrap_or_default().to_string_lossy();
                Opened::Failed(Failure::CannotOpen(format!("perdura_wal=diff: {why}")))
            }
            Ok(None) => Opened::Underlying,
            Err(failure) => Opened::Failed(failure),
        }
    }
}

impl Mapped {
    /// Opens a database; creates it if the options allow that. `None` if the underlying VFS has to open it: stock
    /// SQLite uses it in WAL mode, it is not writable, in a folder that cannot be synced, or on an ordinary disk and no
    /// domain was given.
    ///
    /// # Errors
    /// It was not closed and its side file is missing, damaged or another database's; or the kernel refuses.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Option<Self>, Failure> {
        not_taken::forget();
        if options.mode.as_deref() == Some("stock") {
            return NotTaken::Asked.leave();
        }
        let (domain, mode, share) =
            (chosen_domain(options)?, chosen_mode(options)?, chosen_share(options)?);
        let wal_choice = chosen_wal(options)?;
        if (wal_choice, share) == (Wal::Diff, Share::Stock) {
            let why = "perdura_wal=diff: stock SQLite cannot share a differential log";
            return Err(Failure::CannotOpen(why.into()));
        }
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
            let Ok(data) = Plain::open(path, &plain_options) else {
                return NotTaken::NotWritable.leave();
            };
            if wal_choice == Wal::Diff && data.domain() != Domain::Adr {
                return Err(no_records_in(data.domain()));
            }
            let header = header_of(&data)?;
            let marked = is_marked(&header);
            let stocks_wal = page1::is_in_wal_mode(&header)
                && (wal_choice == Wal::Off
                    || share == Share::Stock
                    || stock_lives(&index_path(path)));
            let on_disk = domain.is_none() && data.domain() == Domain::Disk;
            // Stock SQLite goes on without syncing a folder that it cannot open. Here the side file's name has to be
            // durable before the marker is set.
            if !marked {
                if stocks_wal {
                    return NotTaken::StocksWal.leave();
                } else if on_disk {
                    return NotTaken::Disk.leave();
                } else if is_encrypted(&data, &header, options.may_encrypt)? {
                    return NotTaken::Encrypted.leave();
                } else if !data.can_sync_name(&side_path) {
                    return NotTaken::UnreadableFolder.leave();
                }
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
                Err(_) if !marked => return NotTaken::NoSideFile.leave(),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    // The last close may have cleared the marker, and another connection set it again.
                    if header_of(&data)? != header || !data.is_at(path) {
                        continue;
                    }
                    return Err(crate::store::error::StoreError::SideMissing.into());
                }
                Err(error) => return Err(Failure::CannotOpen(format!("its side file: {error}"))),
            };
            // Of another user's process that dies: the database's owner goes on.
            side.give(data.access()?)?;
            let (open_close, stock_lock) =
                (OpenCloseLock::new(&side), StockLock::new(data.clone()));
            open_close.lock()?;
            // The last close may have removed the side file meanwhile.
            if !side.is_at(&side_path) || !data.is_at(path) {
                continue;
            }
            let alone = open_close.is_alone()?;
            let mut store = match Self::store(&data, &side, &side_path, alone) {
                // On a full medium stock SQLite can still read.
                Err(Failure::Full(_)) if alone && !is_marked(&header_of(&data)?) => {
                    side.remove(&side_path)?;
                    return NotTaken::Full.leave();
                }
                store => store?,
            };
            store.set_mode(mode.unwrap_or(Mode::for_domain(data.domain())));
            store.set_erases(options.secure_delete);
            if let Some(folder) = path.parent() {
                store.set_scratch_folder(folder);
            }
            let (own_lock, taken) = ConnectionLock::claim(&side, alone)?;
            let slot = own_lock.slot();
            let wants_records = wal_choice == Wal::Diff;
            let parts = Parts { data: &data, side: &side, path, domain, slot, wants_records };
            let wal = WalConnection::new(&parts);
            let placeholder = Arc::new(PlaceholderJournal::new(&data, &side, path));
            let names = Names::of(path);
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
                names,
                looked: None,
                read_only,
                placeholder,
                wal: Arc::new(wal),
                wal_choice,
                has_door: true,
                index_locks: None,
                in_wal: None,
                fetched_in_wal: 0,
                fetched_total: 0,
                super_journal,
            };
            mapped.set_share(share);
            if alone {
                mapped.remove_any_placeholder();
                mapped.readmit_stock();
            }
            if !mapped.join_wal_mode()? {
                if alone {
                    mapped.side.remove(&mapped.side_path)?;
                }
                return NotTaken::StocksWal.leave();
            }
            mapped.open_close.set_open()?;
            mapped.recover_if(taken)?;
            mapped.open_close.unlock()?;
            mapped.has_door = false;
            return Ok(Some(mapped));
        }
    }

    pub(super) fn store(
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
            needs_flush: matches!(data.domain(), Domain::Adr | Domain::Disk),
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

    /// The first bytes of the file.
    pub(super) fn header(&self) -> Result<Vec<u8>, Failure> {
        header_of(&self.data)
    }

    /// Refreshes the connection's view of the file. Returns false if a commit was interrupted.
    pub(super) fn refresh_view(&mut self) -> Result<bool, Failure> {
        let (data, now) = (&self.data, Tick::now());
        let length = || {
            data.see()?;
            Ok::<_, Failure>(data.len())
        };
        let whole = if self.looked == Some(now) {
            self.store.refresh_words(length)?
        } else {
            self.store.refresh(length)?
        };
        self.looked = Some(now);
        self.placeholder.note_marker(self.store.marked_after());
        self.map_side_growth()?;
        Ok(whole)
    }

    /// Recovers an interrupted commit. The caller has exclusive access.
    pub(super) fn recover(&mut self) -> Result<(), Failure> {
        self.data.see()?;
        self.side.see()?;
        self.looked = None;
        // The process that grew the files may have died before their lengths were durable.
        self.data.sync()?;
        self.side.sync()?;
        self.store.recover_and_decide(&decide_durably)?;
        self.remove_any_placeholder();
        Ok(())
    }

    /// Prepares the staged writes.
    pub(super) fn prepare(&mut self, name: &[u8]) -> Result<(), Failure> {
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
    pub(super) fn resolve(&mut self, decide: Decide<'_>) -> Result<Option<Verdict>, Failure> {
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
    pub(super) fn is_with_others(&self) -> bool {
        self.super_journal.is_some() || self.store.is_prepared() || self.placeholder.is_named()
    }

    /// Recovers if the lock outcome demands it; returns whether it did. The connection holds no lock then.
    pub(super) fn recover_if(&mut self, taken: LockOutcome) -> Result<bool, Failure> {
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
    pub(super) fn lock_shared(&mut self) -> Result<(), Failure> {
        loop {
            let taken = self.own_lock.lock(Level::Shared)?;
            if !self.recover_if(taken)? {
                return Ok(());
            }
        }
    }

    /// Refreshes the view after the connection has taken its first lock.
    pub(super) fn refresh_after_lock(&mut self) -> Result<(), Failure> {
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
        self.plain_retry.due |= self.has_to_be_plain()?;
        self.plain_retry.cut_unsynced = true;
        Ok(self.store.catch_up()?)
    }

    /// The lock that the connection holds: the lower of the two, if stock SQLite may use the file.
    pub(super) fn held(&self) -> Level {
        match self.stock_lock.level() {
            Level::None => self.own_lock.level(),
            stock => stock.min(self.own_lock.level()),
        }
    }

    pub(super) fn writable(&self) -> Result<(), Failure> {
        if self.read_only { Err(Failure::ReadOnly) } else { Ok(()) }
    }

    /// Ends the use of the database, and makes it plain if no other connection has it open. The caller holds the
    /// open-close lock.
    pub(super) fn close_behind_door(&mut self) -> Result<(), Failure> {
        self.open_close.set_closed()?;
        if self.open_close.is_alone()? {
            // A differential log that cannot be replayed stays, next to a plain file: the next open tries again.
            let recovered = recover_closed(&self.data, &self.path, self.wal.domain());
            return self.make_plain().and(recovered);
        }
        Ok(())
    }

    /// Makes the file a plain one. The caller has exclusive access.
    pub(super) fn make_plain(&mut self) -> Result<(), Failure> {
        if !self.refresh_view()? {
            self.recover()?;
        }
        // Its owner may have died before it prepared anything.
        self.remove_any_placeholder();
        if self.store.is_marked() {
            self.side.see()?;
            self.store.catch_up()?;
            self.store.restore_layout()?;
            self.store.announce_cut()?;
            self.data.cut(self.store.size())?;
            self.data.touch();
            self.data.sync()?;
            self.store.make_plain()?;
        } else if self.store.size() == 0 && self.data.len() > 0 {
            self.empty()?;
        }
        Ok(self.side.remove(&self.side_path)?)
    }

    /// Commits the staged writes.
    pub(super) fn commit_here(&mut self) -> Result<(), Failure> {
        if self.held() < Level::Exclusive {
            return Err(Failure::Io("a commit without the exclusive lock".into()));
        }
        self.sync_before_commit()?;
        self.store.commit()?;
        self.placeholder.note_marker(self.store.marked_after());
        Ok(())
    }

    /// The files that have lost their names.
    pub(super) fn lost_names(&self) -> Lost {
        self.names.look((&self.data, &self.path), (&self.side, &self.side_path))
    }

    pub(super) fn sync_before_commit(&mut self) -> Result<(), Failure> {
        self.store.check_form()?;
        if self.lost_names() != Lost::default() {
            return Err(Failure::ReadOnly);
        }
        // Another connection's commit may have grown the side file.
        if !self.store.knows_last()? {
            self.side.see()?;
        }
        if !self.store.is_marked() {
            // Stores in the mapping do not.
            self.data.touch();
            // Without the marker, no one can tell later that a process died while a file grew.
            self.data.sync()?;
            self.side.sync()?;
        }
        Ok(())
    }
}

/// The failure of a connection that asks for a differential log in a domain where it has no use.
fn no_records_in(domain: Domain) -> Failure {
    let why = match domain {
        Domain::Disk => "the medium has no cache lines to flush",
        _ => "a store is durable without a flush",
    };
    Failure::CannotOpen(format!(
        "perdura_wal=diff is for the domain adr; in {domain} {why}: use perdura_wal=on"
    ))
}

/// Returns whether an unmarked database is encrypted, or may become so: it is not in SQLite's form, or new and of a
/// SQLite that encrypts.
fn is_encrypted(data: &Plain, header: &[u8], may_encrypt: bool) -> Result<bool, Failure> {
    let region = Region::whole(data.clone());
    Ok(match page1::plain_size(&region, data.file_bytes()?)? {
        0 => may_encrypt,
        size => size >= HEADER_BYTES && !has_sqlites_form(header),
    })
}

/// The first bytes of the file.
fn header_of(data: &Plain) -> Result<Vec<u8>, Failure> {
    let region = Region::whole(data.clone());
    Ok(page1::header(&region, data.file_bytes()?)?)
}
