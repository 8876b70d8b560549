//! Cores: how many this process may use, and tying a thread to one.

use std::num::NonZero;
use std::thread::available_parallelism;

/// The cores this process may use, its affinity and its container's quota respected.
pub fn usable_cores() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}

/// The numbers of the cores the calling thread may run on.
#[cfg(target_os = "linux")]
pub fn allowed_cores() -> Vec<usize> {
    // SAFETY: the set is plain memory that the call fills.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) != 0 {
            return Vec::new();
        }
        (0..libc::CPU_SETSIZE as usize).filter(|core| libc::CPU_ISSET(*core, &set)).collect()
    }
}

/// Ties the calling thread to a core; whether that worked.
#[cfg(target_os = "linux")]
pub fn pin_to(core: usize) -> bool {
    // SAFETY: as above.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) == 0
    }
}

/// Elsewhere threads cannot be tied to cores.
#[cfg(not(target_os = "linux"))]
pub fn allowed_cores() -> Vec<usize> {
    Vec::new()
}

/// Elsewhere threads cannot be tied to cores.
#[cfg(not(target_os = "linux"))]
pub fn pin_to(_core: usize) -> bool {
    false
}
