//! Pins threads to their cores.

/// Pins the calling thread to the `worker`-th (modulo their number) of the cores on which it may
/// run. Does nothing where the system does not allow it: a measurement is then only noisier.
pub fn pin_to_core(worker: usize) {
    #[cfg(target_os = "linux")]
    pin(worker);
    #[cfg(not(target_os = "linux"))]
    let _ = worker;
}

#[cfg(target_os = "linux")]
fn pin(worker: usize) {
    let bytes = size_of::<libc::cpu_set_t>();
    // SAFETY: a set of processors is plain bits, and all zeroes is the empty set.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is `bytes` long and writable; 0 is the calling thread.
    if unsafe { libc::sched_getaffinity(0, bytes, &raw mut allowed) } != 0 {
        return;
    }
    let cores: Vec<usize> = (0..libc::CPU_SETSIZE as usize)
        // SAFETY: the number is below the size of the set.
        .filter(|&core| unsafe { libc::CPU_ISSET(core, &allowed) })
        .collect();
    if cores.is_empty() {
        return;
    }
    // SAFETY: as above: the empty set, one member below its size, the calling thread.
    unsafe {
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cores[worker % cores.len()], &mut one);
        libc::sched_setaffinity(0, bytes, &raw const one);
    }
}
