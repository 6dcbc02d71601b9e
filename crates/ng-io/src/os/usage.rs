//! Returns the resources that this process uses now.

use std::fs;

/// The resources that this process uses now; 0 if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessUse {
    /// Bytes of memory that are resident.
    pub resident_bytes: u64,
    /// File descriptors that are open.
    pub open_fds: u64,
    /// Threads.
    pub threads: u64,
}

/// Returns the resources that this process uses now.
pub fn process_use() -> ProcessUse {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let number = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let text = line.and_then(|line| line.split_whitespace().next());
        text.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
    };
    // The folder itself is open while it is listed.
    let open = fs::read_dir("/proc/self/fd").map_or(0, |all| all.count().saturating_sub(1));
    ProcessUse {
        resident_bytes: number("VmRSS:") * 1024,
        open_fds: open as u64,
        threads: number("Threads:"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_and_counts_what_it_opens() {
        let before = process_use();
        assert!(before.resident_bytes > 1 << 20 && before.threads >= 1, "{before:?}");
        let files: Vec<_> =
            (0..50).filter_map(|_| fs::File::open("/proc/self/stat").ok()).collect();
        assert!(process_use().open_fds >= before.open_fds.saturating_sub(20) + files.len() as u64);
    }
}
