//! The machine on which figures were taken: without it they mean nothing.

use std::fs;

use perdura::{FlushInstruction, Medium};
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
