//! The part that is used of RocksDB's C interface (`rocksdb/c.h`), declared by hand so that a build
//! needs the library alone, and owners for what it hands out.
//!
//! The functions are those of RocksDB 7.8 and have been the same since; none of them takes a
//! structure by value or by layout, so a library of another version either has them or does not
//! link.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{NonNull, null_mut};

use workloads::StoreError;

/// A structure of RocksDB's, of which only the address is known.
#[repr(C)]
pub(super) struct Opaque {
    nothing: [u8; 0],
}

type Object = *mut Opaque;

#[link(name = "rocksdb")]
unsafe extern "C" {
    fn rocksdb_open(options: Object, name: *const c_char, error: *mut *mut c_char) -> Object;
    fn rocksdb_close(db: Object);
    fn rocksdb_put(
        db: Object,
        options: Object,
        key: *const c_char,
        key_bytes: usize,
        value: *const c_char,
        value_bytes: usize,
        error: *mut *mut c_char,
    );
    fn rocksdb_get_pinned(
        db: Object,
        options: Object,
        key: *const c_char,
        key_bytes: usize,
        error: *mut *mut c_char,
    ) -> Object;
    fn rocksdb_pinnableslice_value(slice: Object, bytes: *mut usize) -> *const c_char;
    fn rocksdb_pinnableslice_destroy(slice: Object);
    fn rocksdb_flush(db: Object, options: Object, error: *mut *mut c_char);
    fn rocksdb_flush_wal(db: Object, sync: c_uchar, error: *mut *mut c_char);
    fn rocksdb_free(memory: *mut c_void);

    fn rocksdb_options_create() -> Object;
    fn rocksdb_options_destroy(options: Object);
    fn rocksdb_options_set_create_if_missing(options: Object, yes: c_uchar);
    fn rocksdb_options_set_error_if_exists(options: Object, yes: c_uchar);
    fn rocksdb_options_increase_parallelism(options: Object, threads: c_int);
    fn rocksdb_options_set_block_based_table_factory(options: Object, table: Object);
    fn rocksdb_block_based_options_create() -> Object;
    fn rocksdb_block_based_options_destroy(table: Object);
    fn rocksdb_block_based_options_set_block_cache(table: Object, cache: Object);
    fn rocksdb_block_based_options_set_filter_policy(table: Object, policy: Object);
    fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: f64) -> Object;
    fn rocksdb_cache_create_lru(bytes: usize) -> Object;
    fn rocksdb_cache_destroy(cache: Object);

    fn rocksdb_writeoptions_create() -> Object;
    fn rocksdb_writeoptions_destroy(options: Object);
    fn rocksdb_writeoptions_set_sync(options: Object, yes: c_uchar);
    fn rocksdb_writeoptions_get_sync(options: Object) -> c_uchar;
    fn rocksdb_readoptions_create() -> Object;
    fn rocksdb_readoptions_destroy(options: Object);
    fn rocksdb_flushoptions_create() -> Object;
    fn rocksdb_flushoptions_destroy(options: Object);
}

/// An object that is destroyed with its owner.
struct Owned {
    object: NonNull<Opaque>,
    destroy: unsafe extern "C" fn(Object),
}

impl Owned {
    /// # Safety
    /// `create` gives an object that has no other owner and that `destroy` takes back.
    unsafe fn new(
        create: unsafe extern "C" fn() -> Object,
        destroy: unsafe extern "C" fn(Object),
    ) -> Self {
        // SAFETY: as of the caller.
        let object = NonNull::new(unsafe { create() }).expect("RocksDB aborts without memory");
        Self { object, destroy }
    }

    fn get(&self) -> Object {
        self.object.as_ptr()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: it is owned here, and this is its own function.
        unsafe { (self.destroy)(self.get()) };
    }
}

/// Options of a write.
pub(super) struct WriteOptions(Owned);

impl WriteOptions {
    /// Creates them, with or without a sync of the write-ahead log.
    pub(super) fn new(sync: bool) -> Self {
        // SAFETY: a pair of functions that belong together.
        let options =
            unsafe { Owned::new(rocksdb_writeoptions_create, rocksdb_writeoptions_destroy) };
        // SAFETY: the object is alive.
        unsafe { rocksdb_writeoptions_set_sync(options.get(), sync.into()) };
        Self(options)
    }

    /// Returns true if the write-ahead log is synced.
    pub(super) fn syncs(&self) -> bool {
        // SAFETY: the object is alive.
        unsafe { rocksdb_writeoptions_get_sync(self.0.get()) != 0 }
    }
}

/// An open database. RocksDB's functions on it may be called from several threads at once.
pub(super) struct Library {
    read: Owned,
    db: Owned,
}

// SAFETY: a database and options that are not changed may be used by any thread at any time.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// Options of opening a database.
pub(super) struct Opening {
    /// True if it must not exist yet; else it must.
    pub(super) create: bool,
    /// Blocks that are cached.
    pub(super) cache_bytes: u64,
    /// Threads that flush and compact.
    pub(super) threads: c_int,
    /// Bits a key of the Bloom filters.
    pub(super) filter_bits_per_key: f64,
}

impl Library {
    /// Opens or creates a database in a directory.
    pub(super) fn open(directory: &Path, opening: &Opening) -> Result<Self, StoreError> {
        let name = CString::new(directory.as_os_str().as_bytes()).map_err(StoreError::engine)?;
        let cache = usize::try_from(opening.cache_bytes).map_err(StoreError::engine)?;
        // SAFETY: all objects are alive while they are used; options keep what they need of each
        // other by reference counts of RocksDB's, and a filter policy belongs to its table options.
        let db = unsafe {
            let options = Owned::new(rocksdb_options_create, rocksdb_options_destroy);
            rocksdb_options_set_create_if_missing(options.get(), opening.create.into());
            rocksdb_options_set_error_if_exists(options.get(), opening.create.into());
            rocksdb_options_increase_parallelism(options.get(), opening.threads);
            let table =
                Owned::new(rocksdb_block_based_options_create, rocksdb_block_based_options_destroy);
            let policy = rocksdb_filterpolicy_create_bloom_full(opening.filter_bits_per_key);
            rocksdb_block_based_options_set_filter_policy(table.get(), policy);
            let cache = rocksdb_cache_create_lru(cache);
            rocksdb_block_based_options_set_block_cache(table.get(), cache);
            rocksdb_cache_destroy(cache);
            rocksdb_options_set_block_based_table_factory(options.get(), table.get());
            map_error(|error| rocksdb_open(options.get(), name.as_ptr(), error))?
        };
        let object = NonNull::new(db).ok_or_else(|| StoreError::engine("RocksDB gave nothing"))?;
        let db = Owned { object, destroy: rocksdb_close };
        // SAFETY: a pair of functions that belong together.
        let read = unsafe { Owned::new(rocksdb_readoptions_create, rocksdb_readoptions_destroy) };
        Ok(Self { read, db })
    }

    /// Writes a value in a transaction of its own.
    #[inline]
    pub(super) fn put(
        &self,
        options: &WriteOptions,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), StoreError> {
        let (db, options) = (self.db.get(), options.0.get());
        let (key, key_bytes) = (key.as_ptr().cast(), key.len());
        let (value, bytes) = (value.as_ptr().cast(), value.len());
        // SAFETY: the objects are alive, and RocksDB copies key and value before it returns.
        map_error(|error| unsafe { rocksdb_put(db, options, key, key_bytes, value, bytes, error) })
    }

    /// Hands the value of a key to `with`; `None` if there is none.
    #[inline]
    pub(super) fn get<R>(
        &self,
        key: &[u8],
        with: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        let (db, options) = (self.db.get(), self.read.get());
        // SAFETY: the objects are alive, and RocksDB reads the key before it returns.
        let slice = map_error(|error| unsafe {
            rocksdb_get_pinned(db, options, key.as_ptr().cast(), key.len(), error)
        })?;
        let Some(object) = NonNull::new(slice) else { return Ok(None) };
        let slice = Owned { object, destroy: rocksdb_pinnableslice_destroy };
        let mut bytes = 0;
        // SAFETY: the slice is alive until the end of this function, and so are its bytes; they are
        // null only where there are none.
        let value = unsafe {
            let value = rocksdb_pinnableslice_value(slice.get(), &raw mut bytes);
            if bytes == 0 { &[][..] } else { std::slice::from_raw_parts(value.cast(), bytes) }
        };
        Ok(Some(with(value)))
    }

    /// Makes all writes that have returned durable.
    pub(super) fn sync_log(&self) -> Result<(), StoreError> {
        // SAFETY: the database is alive.
        map_error(|error| unsafe { rocksdb_flush_wal(self.db.get(), 1, error) })
    }

    /// Writes the MemTable out and waits for it.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        // SAFETY: a pair of functions that belong together.
        let options =
            unsafe { Owned::new(rocksdb_flushoptions_create, rocksdb_flushoptions_destroy) };
        // SAFETY: both objects are alive.
        map_error(|error| unsafe { rocksdb_flush(self.db.get(), options.get(), error) })
    }
}

/// Returns the result of a call, or the error that it reported.
#[inline]
fn map_error<R>(call: impl FnOnce(*mut *mut c_char) -> R) -> Result<R, StoreError> {
    let mut error: *mut c_char = null_mut();
    let given = call(&raw mut error);
    if error.is_null() {
        return Ok(given);
    }
    // SAFETY: RocksDB gives a string that ends with a zero and is to be freed by its own function.
    let text = unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        rocksdb_free(error.cast());
        text
    };
    Err(StoreError::engine(text))
}
