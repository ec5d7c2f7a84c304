//! The methods of a memory that are those of the memory that it wraps.

/// Implements, within `impl Memory`, all methods that only read, by those of a memory, `self => self.inner` or the
/// like.
macro_rules! reads_of {
    ($memory:ident => $inner:expr) => {
        #[inline]
        fn len(&$memory) -> u64 {
            $inner.len()
        }

        #[inline]
        fn healthy(&$memory) -> Result<(), pm::Bad> {
            $inner.healthy()
        }

        #[inline]
        fn read<T: pm::Pod>(&$memory, at: pm::Off<T>) -> Result<T, pm::Bad> {
            $inner.read(at)
        }

        #[inline]
        fn read_into(&$memory, at: pm::Off<u8>, out: &mut [u8]) -> Result<(), pm::Bad> {
            $inner.read_into(at, out)
        }

        #[inline]
        fn view(&$memory, at: pm::Range) -> Result<Self::View<'_>, pm::Bad> {
            $inner.view(at)
        }

        #[inline]
        fn gather(&$memory, parts: &[pm::Range], out: &mut [u8]) -> Result<(), pm::Bad> {
            $inner.gather(parts, out)
        }

        #[inline]
        fn load(
            &$memory,
            at: pm::Off<u64>,
            order: std::sync::atomic::Ordering,
        ) -> Result<u64, pm::Bad> {
            $inner.load(at, order)
        }

        #[inline]
        fn prefetch(&$memory, at: pm::Range) {
            $inner.prefetch(at);
        }

        fn has_store_line(&$memory) -> bool {
            $inner.has_store_line()
        }
    };
}

/// Implements, within `impl Memory`, all methods that store, by those of a memory, `self => self.inner` or the
/// like.
macro_rules! stores_of {
    ($memory:ident => $inner:expr) => {
        #[inline]
        #[track_caller]
        fn store(&$memory, at: pm::Off<u64>, value: u64) {
            $inner.store(at, value);
        }

        #[inline]
        #[track_caller]
        fn cas(&$memory, at: pm::Off<u64>, old: u64, new: u64) -> Result<u64, u64> {
            $inner.cas(at, old, new)
        }

        #[inline]
        #[track_caller]
        fn copy(&$memory, at: pm::Off<u8>, src: &[u8]) {
            $inner.copy(at, src);
        }

        #[inline]
        #[track_caller]
        fn store_line(&$memory, line: pm::Line, bytes: &[u8; pm::LINE_BYTES as usize]) {
            $inner.store_line(line, bytes);
        }
    };
}

/// Implements, within `impl Memory`, all methods but `flush`, by those of a memory, `self => self.inner` or the
/// like.
macro_rules! all_but_flush_of {
    ($memory:ident => $inner:expr) => {
        $crate::delegate::reads_of!($memory => $inner);
        $crate::delegate::stores_of!($memory => $inner);

        fn grow(&$memory, to: u64) -> Result<(), pm::GrowError> {
            $inner.grow(to)
        }

        fn headroom(&$memory) -> u64 {
            $inner.headroom()
        }

        #[inline]
        #[track_caller]
        fn fence(&$memory) {
            $inner.fence();
        }
    };
}

pub(crate) use {all_but_flush_of, reads_of, stores_of};
