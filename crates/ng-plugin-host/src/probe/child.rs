//! The process that tries one plug-in.

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::process::{Resource, Rlimit, setrlimit};

use super::floats::rounding;
use super::report::Pipe;
use super::{signals, trial};
use crate::file::read_all;
use crate::library::Library;
use crate::register::{Registration, registration};

/// Descriptors from here on are this module's.
const OWN_DESCRIPTORS: RawFd = 100;

/// The most descriptors that the child may have.
const DESCRIPTORS_MAX: u64 = 256;

/// The most memory that the child may have, by addresses.
const MEMORY_BYTES_MAX: u64 = 8 << 30;

/// A thread that has ended may be seen for so many milliseconds.
const THREAD_GRACE_MS: u64 = 200;

/// Tries the plug-in whose bytes are the standard input, reports to the standard output, and ends
/// the process. `seconds` of processor time are enough for it. Nothing else may run in the process.
pub fn run_probe(seconds: u64) -> ! {
    let (image, pipe) = descriptors();
    pipe.line("at", "preparing");
    if let Err(problem) = limits(seconds) {
        pipe.fault(&format!("cannot set the resource limits of the trial: {problem}"));
    }
    signals::install(pipe);
    let before = State::now();
    let stage = |text: &str| {
        pipe.line("at", text);
        signals::stage(text);
    };
    stage("while it is loaded");
    let library = Library::of_descriptor(image).unwrap_or_else(|problem| pipe.fault(&problem));
    before.check(pipe, "while it is loaded");
    stage("while it registers");
    let Registration { definitions, .. } =
        registration(library).unwrap_or_else(|problem| pipe.fault(&problem));
    before.check(pipe, "while it registers");
    for definition in &definitions {
        pipe.line("kernel", &format!("{} {}", definition.op, definition.device));
    }
    let mut cases = 0;
    for definition in &definitions {
        let passed = trial::run(definition, &stage, &|| before.check(pipe, "while it runs"));
        cases += passed.unwrap_or_else(|problem| pipe.fault(&problem));
    }
    pipe.line("passed", &cases.to_string());
    // SAFETY: ends the process at once: exit handlers of the plug-in have no say any more.
    unsafe { libc::_exit(0) }
}

/// The bytes of the plug-in, and the pipe. Both get high numbers, and the numbers of the standard
/// descriptors lead nowhere, so that what a plug-in prints or reads does no harm.
fn descriptors() -> (OwnedFd, Pipe) {
    // SAFETY: plain calls on numbers; the new descriptors belong to nobody else.
    unsafe {
        let image = libc::fcntl(0, libc::F_DUPFD_CLOEXEC, OWN_DESCRIPTORS);
        let pipe = libc::fcntl(1, libc::F_DUPFD_CLOEXEC, OWN_DESCRIPTORS);
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        if image < 0 || pipe < 0 || null < 0 {
            libc::_exit(super::report::CODE_DESCRIPTORS);
        }
        for standard in 0..3 {
            libc::dup2(null, standard);
        }
        (OwnedFd::from_raw_fd(image), Pipe(pipe))
    }
}

fn limits(seconds: u64) -> rustix::io::Result<()> {
    let set = |resource, most| {
        let most = Some(most);
        setrlimit(resource, Rlimit { current: most, maximum: most })
    };
    set(Resource::Core, 0)?;
    set(Resource::Fsize, 0)?;
    set(Resource::Cpu, seconds.saturating_add(1))?;
    set(Resource::As, MEMORY_BYTES_MAX)?;
    set(Resource::Nofile, DESCRIPTORS_MAX)?;
    rustix::thread::set_no_new_privs(true)?;
    let kill = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(kill)
}

/// What a plug-in must leave as it is.
struct State {
    /// Device and inode of each open descriptor.
    descriptors: Vec<Option<(u64, u64)>>,
    threads: usize,
    rounding: [u32; 4],
}

impl State {
    fn now() -> Self {
        // SAFETY: numbers that are not descriptors are an error, not harm.
        let open = |fd| rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(fd) }).ok();
        let descriptors = (0..DESCRIPTORS_MAX as RawFd).map(open);
        let identity = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
        let descriptors = descriptors.map(|stat| stat.map(identity)).collect();
        Self { descriptors, threads: threads(), rounding: rounding() }
    }

    /// Refuses the plug-in if something changed.
    fn check(&self, pipe: Pipe, when: &str) {
        let mut now = Self::now();
        let mut waited = 0;
        while now.threads > self.threads && waited < THREAD_GRACE_MS {
            std::thread::sleep(std::time::Duration::from_millis(5));
            waited += 5;
            now.threads = threads();
        }
        let is_kept = |(before, now): (&Option<_>, &Option<_>)| before.is_none() || before == now;
        if !self.descriptors.iter().zip(&now.descriptors).all(is_kept) {
            pipe.fault(&format!("it closed file descriptors of the process: {when}"));
        }
        if now.threads > self.threads {
            let left = now.threads - self.threads;
            pipe.fault(&format!("it leaves {left} threads running: {when}"));
        }
        if now.rounding != self.rounding {
            pipe.fault(&format!(
                "it changes the rounding mode of the processor (built with fast math?): \
                 {when}"
            ));
        }
    }
}

/// The threads of this process: field 20 of its state, which follows the name in brackets.
fn threads() -> usize {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open("/proc/self/stat", flags, Mode::empty());
    let bytes = file.ok().and_then(|file| read_all(file, 4096).ok()).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let behind = text.rsplit_once(')').map_or("", |(_, behind)| behind);
    behind.split_whitespace().nth(17).and_then(|field| field.parse().ok()).unwrap_or(1)
}
