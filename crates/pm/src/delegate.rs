//! The methods of a memory that are those of its mapping.

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

pub(crate) use as_mapping;
