//! What this process and the disks have done since a time: for programs that measure others.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{major, minor};

/// Processor time that this process has used, all threads together.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
}

/// Reads that the disk below a file has done since boot, of all processes; `None` where the system
/// does not count them.
pub fn device_reads(path: &Path) -> Option<u64> {
    let device = fs::metadata(path).ok()?.dev();
    let stat = format!("/sys/dev/block/{}:{}/stat", major(device), minor(device));
    fs::read_to_string(stat).ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time() {
        let before = cpu_time();
        let mut sum = 0_u64;
        while cpu_time() < before + Duration::from_millis(2) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(sum > 0 && cpu_time() > before);
    }
}
