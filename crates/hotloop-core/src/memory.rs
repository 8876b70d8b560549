//! Checks of available memory before large allocations: one that fails halfway would abort the process, and one that
//! succeeds may take down the machine.

use crate::error::{Error, Result};

/// Smaller requests are not checked.
const SMALL: u128 = 64 << 20;

/// Rejects `what` if it needs more memory than is available; `remedy` says what to change.
pub fn require(what: &str, bytes: u128, remedy: &str) -> Result<()> {
    if bytes <= SMALL {
        return Ok(());
    }
    // A process cannot address more, whatever the system reports.
    let left = u128::from(available().unwrap_or(u64::MAX >> 1)).min(isize::MAX as u128);
    if bytes <= left {
        return Ok(());
    }
    Err(Error::Memory(format!("{what} needs {} of memory, {} are available: {remedy}", size(bytes), size(left))))
}

/// A number of bytes for people: `1.5 GB`.
fn size(bytes: u128) -> String {
    let units = ["bytes", "kB", "MB", "GB", "TB", "PB", "EB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    if value < 10.0 { format!("{value:.1} {}", units[unit]) } else { format!("{value:.0} {}", units[unit]) }
}

/// Bytes that this process can still take without swapping, its container's limit respected; `None` where the system
/// does not report it.
pub fn available() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let number = |text: String| text.trim().parse::<u64>().ok();
    let machine = read("/proc/meminfo").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.strip_suffix("kB"))?;
        Some(line.trim().parse::<u64>().ok()? * 1024)
    });
    let container = read("/sys/fs/cgroup/memory.max").and_then(number).map(|limit| {
        let used = read("/sys/fs/cgroup/memory.current").and_then(number).unwrap_or(0);
        // Pages of files that can be dropped count as used.
        let files = read("/sys/fs/cgroup/memory.stat").and_then(|text| {
            text.lines().find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse::<u64>().ok())
        });
        limit.saturating_sub(used.saturating_sub(files.unwrap_or(0)))
    });
    machine.into_iter().chain(container).min()
}
