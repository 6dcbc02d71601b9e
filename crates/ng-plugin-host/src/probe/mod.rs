//! The trial of a plug-in in a process of its own, before this process loads it.
//!
//! The child (`child.rs`) loads the very bytes that this process would load, registers, and runs
//! each kernel on small tensors between guard pages beside the reference device. This side starts
//! it, reads what it reports, and ends it when its time is over. The invariant: whatever the child
//! does or suffers, the answer here is a text, in bounded time and memory.

mod child;
mod floats;
mod guard;
mod report;
mod signals;
mod trial;

use std::ffi::OsString;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::PluginError;
use crate::file::Image;
use crate::register::Definition;
use report::{CODE_DESCRIPTORS, Report};

pub use child::run_probe;

/// More bytes than this are not a report.
const REPORT_BYTES_MAX: usize = 1 << 20;

/// The command of the child process that tries plug-ins, and its time limit.
#[derive(Clone, Debug)]
pub struct Probe {
    program: OsString,
    args: Vec<OsString>,
    limit: Duration,
}

impl Probe {
    /// A program that calls [`run_probe`] and nothing else; a plug-in has 20 seconds.
    pub fn new(program: impl Into<OsString>, args: Vec<OsString>) -> Self {
        Self { program: program.into(), args, limit: Duration::from_secs(20) }
    }

    /// With another time limit.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Tries a plug-in: how many cases its kernels passed.
    pub(crate) fn run(&self, image: &Image) -> Result<Passed, PluginError> {
        let no_probe = |source| PluginError::NoProbe { path: image.path.clone(), source };
        let memory = image.memory.try_clone().map_err(no_probe)?;
        let mut command = Command::new(&self.program);
        // A group of its own, so that processes that the plug-in starts end with it.
        command.args(&self.args).arg(self.limit.as_secs().to_string()).process_group(0);
        command.stdin(Stdio::from(memory)).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(no_probe)?;
        let deadline = Instant::now() + self.limit;
        let report = child.stdout.take().map(|pipe| read_until(pipe, deadline));
        let status = end(&mut child, deadline);
        let report = Report::parse(&report.unwrap_or_default());
        let failed = |problem| PluginError::Failed { path: image.path.clone(), problem };
        self.judge(report, status).map_err(failed)
    }

    fn judge(&self, report: Report, status: Option<ExitStatus>) -> Result<Passed, String> {
        let stage = report.stage.as_deref().unwrap_or("starting");
        if let Some(fault) = report.fault {
            return Err(fault);
        }
        let Some(status) = status else {
            let seconds = self.limit.as_secs_f64();
            return Err(format!("it did not end within {seconds} s: {stage}"));
        };
        match (status.code(), status.signal(), report.passed) {
            (Some(0), _, Some(passed)) => Ok(passed),
            (Some(CODE_DESCRIPTORS), ..) => {
                Err(format!("it closed file descriptors of the process: {stage}"))
            }
            (Some(code), ..) => Err(format!("it ended the process with exit code {code}: {stage}")),
            (None, signal, _) => {
                let signal = signal.unwrap_or_default();
                Err(format!("it was ended by signal {signal} ({}): {stage}", signal_name(signal)))
            }
        }
    }
}

/// What a plug-in passed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    pub cases: usize,
    /// Operation and device of each kernel.
    pub kernels: Vec<(String, String)>,
}

impl Passed {
    /// Whether these are the kernels that passed.
    pub fn covers(&self, definitions: &[Definition]) -> bool {
        let known = |d: &Definition| (d.op.clone(), d.device.clone());
        self.kernels.iter().cloned().eq(definitions.iter().map(known))
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        _ => "unnamed",
    }
}

/// Reads to the end, to the limit of bytes, or until the time is over.
fn read_until(mut pipe: ChildStdout, deadline: Instant) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    while bytes.len() < REPORT_BYTES_MAX {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(left) = Timespec::try_from(left) else { break };
        let mut ready = [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)];
        match poll(&mut ready, Some(&left)) {
            Err(rustix::io::Errno::INTR) => continue,
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        match pipe.read(&mut chunk) {
            Ok(len @ 1..) => bytes.extend_from_slice(&chunk[..len]),
            _ => break,
        }
    }
    bytes
}

/// How the child ended by itself; `None` if it had to be killed. Its whole group ends.
fn end(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    let mut status = None;
    loop {
        match child.try_wait() {
            Ok(Some(found)) => status = Some(found),
            Ok(None) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            }
            _ => {}
        }
        break;
    }
    let group = rustix::process::Pid::from_child(child);
    // Whoever is left of the group; often nobody is.
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    if status.is_none() {
        let _ = child.wait();
    }
    status
}
