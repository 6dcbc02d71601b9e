//! What the child tells its parent, line by line, through a pipe.
//!
//! `at TEXT` says what comes next, `fault TEXT` why the plug-in is refused, `kernel OP DEVICE`
//! which kernels there are, and `passed N` that all of them passed N cases.

use std::fmt::Write;
use std::os::fd::RawFd;

use super::Passed;

/// The exit code of a child whose pipe was closed.
pub(super) const CODE_DESCRIPTORS: i32 = 113;

/// The exit code after a fault.
pub(super) const CODE_FAULT: i32 = 112;

/// What came through the pipe.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub stage: Option<String>,
    pub fault: Option<String>,
    pub passed: Option<Passed>,
}

impl Report {
    pub fn parse(bytes: &[u8]) -> Self {
        let mut report = Self::default();
        let mut kernels = Vec::new();
        for line in String::from_utf8_lossy(bytes).lines() {
            let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
            match key {
                "at" => report.stage = Some(rest.to_owned()),
                "fault" => report.fault = Some(rest.to_owned()),
                "kernel" => {
                    let (op, device) = rest.split_once(' ').unwrap_or((rest, ""));
                    kernels.push((op.to_owned(), device.to_owned()));
                }
                "passed" => {
                    let kernels = kernels.clone();
                    report.passed = rest.parse().ok().map(|cases| Passed { cases, kernels });
                }
                _ => {}
            }
        }
        report
    }
}

/// The child's end of the pipe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pipe(pub RawFd);

impl Pipe {
    /// Writes a line; ends the process if the pipe is gone, because nobody can be told otherwise.
    pub fn line(self, key: &str, rest: &str) {
        let mut line = String::new();
        // Writing to a text does not fail.
        let _ = writeln!(line, "{key} {}", rest.replace('\n', " "));
        if !self.write(line.as_bytes()) {
            // SAFETY: ends the process at once, which is what is wanted.
            unsafe { libc::_exit(CODE_DESCRIPTORS) }
        }
    }

    /// Whether all bytes were written. Safe in a handler of signals.
    pub fn write(self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            // SAFETY: the pointer and the length are those of a slice.
            let done = unsafe { libc::write(self.0, bytes.as_ptr().cast(), bytes.len()) };
            match usize::try_from(done) {
                Ok(done) => bytes = &bytes[done..],
                Err(_) => return false,
            }
        }
        true
    }

    /// Tells why the plug-in is refused, and ends the process.
    pub fn fault(self, text: &str) -> ! {
        self.line("fault", text);
        // SAFETY: ends the process at once: no exit handler of the plug-in runs.
        unsafe { libc::_exit(CODE_FAULT) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_far_as_it_goes() {
        let report = Report::parse(b"at one\nat two\nkernel GEMM my chip\npassed 3\n");
        let kernels = vec![("GEMM".to_owned(), "my chip".to_owned())];
        assert_eq!(report.passed, Some(Passed { cases: 3, kernels }));
        assert_eq!(report.stage.as_deref(), Some("two"));
        assert_eq!(Report::parse(b"\xff\xfe\0passed x\npassed -1"), Report::default());
    }
}
