//! Which back end it shall be: a pure function of what was asked for and what works here.

use std::fmt;
use std::str::FromStr;

use super::OpenOptions;
use super::findings::Findings;
use crate::directory::Caching;

/// A back end, or leaving the choice to a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BackendChoice {
    /// Whatever suits the place; see [`crate::open_dir`].
    #[default]
    Auto,
    /// Every file is read into RAM when it is opened. A store opens its files as with `Auto` and
    /// holds what it reads of them.
    Memory,
    /// Files are mapped. A truncated file or a failing drive raises SIGBUS.
    Mmap,
    /// Buffered reads by a pool of threads.
    Pread,
    /// O_DIRECT reads by a pool of threads.
    ODirect,
    /// O_DIRECT reads through io_uring.
    Uring,
}

impl BackendChoice {
    /// Every choice, for tables and tests.
    pub const ALL: [Self; 6] =
        [Self::Auto, Self::Memory, Self::Mmap, Self::Pread, Self::ODirect, Self::Uring];

    /// The name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Memory => "memory",
            Self::Mmap => "mmap",
            Self::Pread => "pread",
            Self::ODirect => "odirect",
            Self::Uring => "uring",
        }
    }
}

impl fmt::Display for BackendChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for BackendChoice {
    type Err = String;

    /// Parses the name that [`BackendChoice::name`] gives.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|choice| choice.name() == text).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("unknown back end {text:?}; known: {known}")
        })
    }
}

/// The back end to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Memory,
    Mmap,
    Pool(Caching),
    Uring(Caching),
}

/// What to build, and a sentence that says why; or why the named back end cannot work.
pub(super) fn choose(
    choice: BackendChoice,
    found: &Findings,
    options: &OpenOptions,
) -> Result<(Plan, String), String> {
    let fs = &found.file_system;
    let threads = options.pool_threads();
    match choice {
        BackendChoice::Auto => Ok(choose_auto(found, threads)),
        BackendChoice::Memory => {
            Ok((Plan::Memory, "memory: requested; all files are held in RAM".into()))
        }
        BackendChoice::Mmap => Ok((Plan::Mmap, format!("mmap: requested ({fs})"))),
        BackendChoice::Pread => {
            let note = format!("pread: requested; {threads} threads, buffered reads ({fs})");
            Ok((Plan::Pool(Caching::Buffered), note))
        }
        BackendChoice::ODirect => match &found.direct {
            Ok(()) => {
                let note = format!("odirect: requested; {threads} threads, O_DIRECT ({fs})");
                Ok((Plan::Pool(Caching::Direct), note))
            }
            Err(why) => Err(format!("O_DIRECT does not work on {fs} ({why})")),
        },
        BackendChoice::Uring => match (&found.uring, &found.direct) {
            (Err(why), _) => Err(format!("io_uring does not work here ({why})")),
            (Ok(_), Ok(())) => {
                let note = format!("uring: requested; O_DIRECT ({fs}), {}", found.registered());
                Ok((Plan::Uring(Caching::Direct), note))
            }
            (Ok(_), Err(why)) => {
                let registered = found.registered();
                let note = format!(
                    "uring: requested; buffered reads, because O_DIRECT does not work on {fs} \
                     ({why}), {registered}"
                );
                Ok((Plan::Uring(Caching::Buffered), note))
            }
        },
    }
}

fn choose_auto(found: &Findings, threads: usize) -> (Plan, String) {
    let fs = &found.file_system;
    if fs.is_memory {
        return (Plan::Mmap, format!("mmap: {fs} is in memory, so mapping is faster than reading"));
    }
    match (&found.uring, &found.direct) {
        (Ok(_), Ok(())) => {
            let note = format!("uring: io_uring and O_DIRECT work ({fs}), {}", found.registered());
            (Plan::Uring(Caching::Direct), note)
        }
        (Err(why), Ok(())) => {
            let note = format!(
                "odirect: io_uring does not work here ({why}), so {threads} threads read with \
                 O_DIRECT ({fs})"
            );
            (Plan::Pool(Caching::Direct), note)
        }
        (_, Err(why)) => {
            let note = format!(
                "pread: O_DIRECT does not work on {fs} ({why}), so {threads} threads read through \
                 the OS page cache"
            );
            (Plan::Pool(Caching::Buffered), note)
        }
    }
}
