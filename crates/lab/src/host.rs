//! The machine on which something was measured.

use serde::{Deserialize, Serialize};

/// The facts of a machine that one needs to read its figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Name of the machine, as it calls itself.
    pub name: String,
    /// Model name of the processor.
    pub cpu: String,
    /// Cores on which the laboratory may run.
    pub cores: usize,
    /// The instruction that writes cache lines back.
    pub flush: String,
    /// The medium of the pools: the file system, and the device if there is one.
    pub medium: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Memory of the machine.
    pub memory_bytes: u64,
}

impl Host {
    /// A key that distinguishes machines: equal for equal facts, on every run. Another kernel and
    /// another device make another machine: figures of the two are not to be mixed.
    #[must_use]
    pub fn key(&self) -> String {
        let Self { name, cpu, cores, flush, medium, kernel, memory_bytes } = self;
        let facts = format!("{name}|{cpu}|{cores}|{flush}|{medium}|{kernel}|{memory_bytes}");
        // FNV-1a: short, and the same for ever.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in facts.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        format!("{}-{:08x}", self.name, hash as u32)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A machine that is nowhere.
    pub(crate) fn host() -> Host {
        Host {
            name: "here".into(),
            cpu: "c".into(),
            cores: 2,
            flush: "clwb".into(),
            medium: "tmpfs".into(),
            kernel: "6.1".into(),
            memory_bytes: 1 << 30,
        }
    }

    #[test]
    fn another_machine_kernel_or_device_has_another_key() {
        let host = host();
        assert_eq!(host.key(), host.clone().key());
        assert_ne!(host.key(), Host { kernel: "6.2".into(), ..host.clone() }.key());
        assert_ne!(host.key(), Host { medium: "ext4, sda1".into(), ..host.clone() }.key());
        assert_ne!(host.key(), Host { cores: 4, ..host.clone() }.key());
    }
}
