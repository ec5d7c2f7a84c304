//! The machine on which figures were taken: without it they mean nothing.

use std::fs;
use std::path::{Path, PathBuf};

use perdura::{Domain, FlushInstruction, Medium};
use serde::Serialize;

/// What `host` is in JSON.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Host {
    /// Model name of the processor.
    pub(crate) cpu: String,
    /// Cores on which this process may run.
    pub(crate) cores: usize,
    /// The instruction with which cache lines are written back, or `none`.
    pub(crate) flush: String,
    /// What the pools lie on.
    pub(crate) medium: String,
    /// Release of the kernel.
    pub(crate) kernel: String,
}

impl Host {
    /// Asks this machine.
    pub(crate) fn new(medium: &Medium) -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let info = read("/proc/cpuinfo");
        let model = info
            .lines()
            .find(|line| line.starts_with("model name"))
            .and_then(|line| line.split_once(':'))
            .map_or(std::env::consts::ARCH, |(_, name)| name.trim());
        let kernel = read("/proc/sys/kernel/osrelease");
        let kernel = kernel.trim();
        Self {
            cpu: model.to_owned(),
            cores: cores(),
            flush: FlushInstruction::detect().map_or("none".into(), |flush| flush.to_string()),
            medium: medium.name.clone(),
            kernel: if kernel.is_empty() { std::env::consts::OS } else { kernel }.to_owned(),
        }
    }

    /// One line for people.
    pub(crate) fn line(&self) -> String {
        let Self { cpu, cores, flush, medium, kernel } = self;
        format!("{cpu}, {cores} cores, {flush}, {medium}, kernel {kernel}\n")
    }
}

/// Cores on which this process may run.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The medium, and on which device it is: two disks with file systems of one kind are two media.
/// Memory is the same wherever it is mounted.
pub(crate) fn medium_with_device(medium: &Medium, path: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let device = match (medium.natural, fs::canonicalize(path)) {
        (Domain::Process, _) | (_, Err(_)) => None,
        (_, Ok(path)) => device(&mounts, &path),
    };
    device.map_or_else(|| medium.name.clone(), |device| format!("{}, {device}", medium.name))
}

/// What is mounted where `path` lies, by the kernel's list of mounts
/// (`man 5 proc_pid_mountinfo`): of those mounted above it the nearest, and of several there the
/// last.
fn device(mounts: &str, path: &Path) -> Option<String> {
    let mount = |line: &str| {
        let (place, source) = line.split_once(" - ")?;
        let above = PathBuf::from(unescaped(place.split(' ').nth(4)?));
        let source = unescaped(source.split(' ').nth(1)?);
        path.starts_with(&above).then(|| (above.components().count(), source))
    };
    mounts.lines().filter_map(mount).max_by_key(|(depth, _)| *depth).map(|(_, source)| source)
}

/// A name in the kernel's list of mounts, where spaces and the like are octal numbers.
fn unescaped(name: &str) -> String {
    let plain = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    plain.iter().fold(name.to_owned(), |name, (escaped, plain)| name.replace(escaped, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
25 24 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw
40 27 259:1 / /mnt/fast rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw
41 27 8:1 / /mnt/with\\040space rw,relatime - ext4 /dev/sda1 rw
42 40 8:2 / /mnt/fast rw,relatime - ext4 /dev/sdb1 rw
";

    #[test]
    fn a_path_lies_on_what_is_mounted_nearest_above_it() {
        let of = |path: &str| device(MOUNTS, Path::new(path));
        assert_eq!(of("/home/me").as_deref(), Some("/dev/vda"));
        assert_eq!(of("/mnt/fast/a/b").as_deref(), Some("/dev/sdb1"), "mounted over the other");
        assert_eq!(of("/mnt/faster").as_deref(), Some("/dev/vda"));
        assert_eq!(of("/mnt/with space/a").as_deref(), Some("/dev/sda1"));
        assert_eq!(device("", Path::new("/home")), None);
    }

    #[test]
    fn memory_has_no_device() {
        let medium = Medium::of_no_file("tmpfs");
        assert_eq!(medium_with_device(&medium, Path::new("/")), "tmpfs");
    }
}
