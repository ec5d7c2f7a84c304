//! The machine on which figures were taken: without it they mean nothing.

use std::fs;
use std::path::{Path, PathBuf};

use perdura::{Domain, FlushInstruction, Medium};
use pm::Escaped;
use serde::Serialize;

/// The JSON of `host`.
#[derive(Debug, Clone, Serialize)]
pub struct Host {
    /// Model name of the processor.
    pub cpu: String,
    /// Cores on which this process may run.
    pub cores: usize,
    /// The instruction with which cache lines are written back, or `none`.
    pub flush: String,
    /// The medium of the pools.
    pub medium: String,
    /// Release of the kernel.
    pub kernel: String,
}

impl Host {
    /// Asks this machine.
    pub fn new(medium: &Medium) -> Self {
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
    pub fn line(&self) -> String {
        let Self { cpu, cores, flush, medium, kernel } = self;
        let line = format!("{cpu}, {cores} cores, {flush}, {medium}, kernel {kernel}");
        format!("{}\n", Escaped(line))
    }
}

/// Cores on which this process may run.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Memory that this process may have with all others, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// The memory in all, which does not change.
    pub total: u64,
    /// The memory that can be had now.
    pub available: u64,
}

impl Memory {
    /// Returns what the kernel says: of the machine, or of the groups that this process is in (`man
    /// 7 cgroups`, version 2) where that is less, as in a container.
    pub fn of_this_process() -> Option<Self> {
        Self::of(|path| fs::read_to_string(path).ok())
    }

    fn of(read: impl Fn(&Path) -> Option<String>) -> Option<Self> {
        let machine = read(Path::new("/proc/meminfo"))?;
        let kib = |name| named(&machine, name)?.strip_suffix("kB")?.trim().parse::<u64>().ok();
        let bytes = |name| Some(kib(name)?.saturating_mul(1024));
        let mut memory = Self { total: bytes("MemTotal:")?, available: bytes("MemAvailable:")? };
        let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
        let group = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        for group in Path::new("/sys/fs/cgroup").join(group).ancestors().take_while(|path| {
            // Above it are no groups.
            path.starts_with("/sys/fs/cgroup")
        }) {
            let number = |name| read(&group.join(name))?.trim().parse::<u64>().ok();
            let Some(limit) = number("memory.max") else { continue };
            let stat = read(&group.join("memory.stat")).unwrap_or_default();
            // Cached pages of files are given up for others; those of a tmpfs are not among them.
            let cached = ["active_file ", "inactive_file "]
                .map(|name| named(&stat, name).and_then(|value| value.parse::<u64>().ok()));
            let cached: u64 = cached.into_iter().flatten().sum();
            let used = number("memory.current").unwrap_or(0).saturating_sub(cached);
            memory.total = memory.total.min(limit);
            memory.available = memory.available.min(limit.saturating_sub(used));
        }
        Some(memory)
    }
}

/// Returns the text that follows a name at the beginning of a line.
fn named<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// The medium, and on which device it is: two disks with file systems of one kind are two media.
/// Memory is the same wherever it is mounted.
pub fn medium_with_device(medium: &Medium, path: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let device = match (medium.natural, fs::canonicalize(path)) {
        (Domain::Process, _) | (_, Err(_)) => None,
        (_, Ok(path)) => device(&mounts, &path),
    };
    device.map_or_else(|| medium.name.clone(), |device| format!("{}, {device}", medium.name))
}

/// Returns what is mounted where `path` lies, by the kernel's list of mounts (`man 5
/// proc_pid_mountinfo`): of those mounted above it the nearest, and of several there the last.
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
    fn a_group_may_have_less_memory_than_the_machine() {
        let machine = "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:   800 kB\n";
        let memory = |files: &[(&str, &str)]| {
            let all = [&[("/proc/meminfo", machine)], files].concat();
            Memory::of(|path| {
                let found = all.iter().find(|(name, _)| Path::new(name) == path);
                found.map(|(_, text)| (*text).to_owned())
            })
        };
        let of = |total: u64, available: u64| Some(Memory { total, available });
        assert_eq!(memory(&[]), of(1000 << 10, 800 << 10));
        let unlimited = [("/proc/self/cgroup", "0::/\n"), ("/sys/fs/cgroup/memory.max", "max\n")];
        assert_eq!(memory(&unlimited), of(1000 << 10, 800 << 10));
        let limited = [
            ("/proc/self/cgroup", "1:name=x:/\n0::/a/b\n"),
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/memory.max", "400000\n"),
            ("/sys/fs/cgroup/a/memory.current", "300000\n"),
            ("/sys/fs/cgroup/a/memory.stat", "anon 1\nactive_file 40000\ninactive_file 50000\n"),
        ];
        assert_eq!(memory(&limited), of(400_000, 190_000));
        assert_eq!(Memory::of(|_| None), None);
    }

    #[test]
    fn memory_has_no_device() {
        let medium = Medium::of_no_file("tmpfs");
        assert_eq!(medium_with_device(&medium, Path::new("/")), "tmpfs");
    }
}
