//! The methods of a memory that are those of what it wraps: of another memory, or of a mapping.

/// Implements, within `impl Memory`, all methods but `flush`, by those of `self.inner`.
macro_rules! as_inner {
    () => {
        #[inline]
        fn len(&self) -> u64 {
            self.inner.len()
        }

        fn grow(&self, to: u64) -> Result<(), $crate::GrowError> {
            self.inner.grow(to)
        }

        fn headroom(&self) -> u64 {
            self.inner.headroom()
        }

        #[inline]
        fn healthy(&self) -> Result<(), $crate::Bad> {
            self.inner.healthy()
        }

        #[inline]
        fn read<T: $crate::Pod>(&self, at: $crate::Off<T>) -> Result<T, $crate::Bad> {
            self.inner.read(at)
        }

        #[inline]
        fn read_into(&self, at: $crate::Off<u8>, out: &mut [u8]) -> Result<(), $crate::Bad> {
            self.inner.read_into(at, out)
        }

        #[inline]
        fn view(&self, at: $crate::Range) -> Result<M::View<'_>, $crate::Bad> {
            self.inner.view(at)
        }

        #[inline]
        fn gather(&self, parts: &[$crate::Range], out: &mut [u8]) -> Result<(), $crate::Bad> {
            self.inner.gather(parts, out)
        }

        #[inline]
        fn load(
            &self,
            at: $crate::Off<u64>,
            order: std::sync::atomic::Ordering,
        ) -> Result<u64, $crate::Bad> {
            self.inner.load(at, order)
        }

        #[inline]
        #[track_caller]
        fn store(&self, at: $crate::Off<u64>, value: u64) {
            self.inner.store(at, value);
        }

        #[inline]
        #[track_caller]
        fn cas(&self, at: $crate::Off<u64>, old: u64, new: u64) -> Result<u64, u64> {
            self.inner.cas(at, old, new)
        }

        #[inline]
        #[track_caller]
        fn copy(&self, at: $crate::Off<u8>, src: &[u8]) {
            self.inner.copy(at, src);
        }

        #[inline]
        #[track_caller]
        fn fence(&self) {
            self.inner.fence();
        }

        #[inline]
        fn prefetch(&self, at: $crate::Range) {
            self.inner.prefetch(at);
        }

        fn has_store_line(&self) -> bool {
            self.inner.has_store_line()
        }

        #[inline]
        #[track_caller]
        fn store_line(&self, line: $crate::Line, bytes: &[u8; $crate::LINE_BYTES as usize]) {
            self.inner.store_line(line, bytes);
        }
    };
}

/// Implements, within `impl Memory`, the accesses of a memory that is a mapping, `self => self.0` or the
/// like: all but its size, `healthy`, `flush`, `fence` and `store_line`.
macro_rules! as_mapping {
    ($memory:ident => $mapping:expr) => {
        #[inline]
        fn read<T: $crate::Pod>(&$memory, at: $crate::Off<T>) -> Result<T, $crate::Bad> {
            $mapping.read(at)
        }

        #[inline]
        fn read_into(&$memory, at: $crate::Off<u8>, out: &mut [u8]) -> Result<(), $crate::Bad> {
            $mapping.read_into(at, out)
        }

        #[inline]
        fn view(
            &$memory,
            at: $crate::Range,
        ) -> Result<$crate::mapping::NativeView<'_>, $crate::Bad> {
            $mapping.view(at)
        }

        #[inline]
        fn gather(&$memory, parts: &[$crate::Range], out: &mut [u8]) -> Result<(), $crate::Bad> {
            $mapping.gather(parts, out)
        }

        #[inline]
        fn load(
            &$memory,
            at: $crate::Off<u64>,
            order: std::sync::atomic::Ordering,
        ) -> Result<u64, $crate::Bad> {
            $mapping.load(at, order)
        }

        #[inline]
        fn store(&$memory, at: $crate::Off<u64>, value: u64) {
            $mapping.store(at, value);
        }

        #[inline]
        fn cas(&$memory, at: $crate::Off<u64>, old: u64, new: u64) -> Result<u64, u64> {
            $mapping.cas(at, old, new)
        }

        #[inline]
        fn copy(&$memory, at: $crate::Off<u8>, src: &[u8]) {
            $mapping.copy(at, src);
        }

        #[inline]
        fn prefetch(&$memory, at: $crate::Range) {
            $mapping.prefetch(at);
        }
    };
}

pub(crate) use {as_inner, as_mapping};
