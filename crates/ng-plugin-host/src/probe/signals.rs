//! Faults of memory in the child, told with the name of the tensor beside which they happened.
//!
//! The invariant: the handler only reads atomics and calls `write` and `_exit`.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};

use super::report::{CODE_FAULT, Pipe};

/// Ranges that are watched; older ones are forgotten.
const RANGES: usize = 512;

/// The stack of the handler: that of a plug-in may have run over.
const STACK_BYTES: usize = 64 << 10;

/// A watched range of addresses.
struct Watched {
    start: AtomicUsize,
    end: AtomicUsize,
    line: AtomicPtr<u8>,
    len: AtomicUsize,
}

static WATCHED: [Watched; RANGES] = [const {
    Watched {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        line: AtomicPtr::new(std::ptr::null_mut()),
        len: AtomicUsize::new(0),
    }
}; RANGES];

static NEXT: AtomicUsize = AtomicUsize::new(0);

static PIPE: AtomicI32 = AtomicI32::new(-1);

/// What is being done: the end of the line.
static STAGE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static STAGE_LEN: AtomicUsize = AtomicUsize::new(0);

/// Tells accesses to `range` from now on: `where_` it lies.
pub(super) fn watch(range: Range<usize>, where_: &str) {
    let line = format!("fault it reads or writes {where_}");
    let line: &'static mut [u8] = Vec::leak(line.into_bytes());
    let watched = &WATCHED[NEXT.fetch_add(1, Ordering::Relaxed) % RANGES];
    watched.len.store(line.len(), Ordering::Relaxed);
    watched.line.store(line.as_mut_ptr(), Ordering::Relaxed);
    watched.start.store(range.start, Ordering::Relaxed);
    watched.end.store(range.end, Ordering::Relaxed);
}

/// Notes what is being done.
pub(super) fn stage(text: &str) {
    let line: &'static mut [u8] = Vec::leak(format!(": {text}\n").into_bytes());
    STAGE_LEN.store(0, Ordering::Relaxed);
    STAGE.store(line.as_mut_ptr(), Ordering::Relaxed);
    STAGE_LEN.store(line.len(), Ordering::Relaxed);
}

/// Installs the handler.
pub(super) fn install(pipe: Pipe) {
    PIPE.store(pipe.0, Ordering::Relaxed);
    let stack: &'static mut [u8] = Vec::leak(vec![0; STACK_BYTES]);
    // SAFETY: the structs are zeroed and filled as the calls need; the stack is never freed; the
    // handler is safe in a handler of signals.
    unsafe {
        let mut alternative: libc::stack_t = MaybeUninit::zeroed().assume_init();
        alternative.ss_sp = stack.as_mut_ptr().cast();
        alternative.ss_size = stack.len();
        libc::sigaltstack(&raw const alternative, std::ptr::null_mut());
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = on_fault;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

extern "C" fn on_fault(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system hands over a whole struct, and the signals have an address.
    let address = unsafe { (*info).si_addr() } as usize;
    let pipe = Pipe(PIPE.load(Ordering::Relaxed));
    for watched in &WATCHED {
        let (start, end) =
            (watched.start.load(Ordering::Relaxed), watched.end.load(Ordering::Relaxed));
        if start <= address && address < end {
            let text = |data: &AtomicPtr<u8>, len: &AtomicUsize| {
                let (data, len) = (data.load(Ordering::Relaxed), len.load(Ordering::Relaxed));
                // SAFETY: both are of a leaked text, and the length is set last.
                pipe.write(unsafe { std::slice::from_raw_parts(data, len) });
            };
            text(&watched.line, &watched.len);
            text(&STAGE, &STAGE_LEN);
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(CODE_FAULT) }
        }
    }
    // The handler is reset: the access happens again, and the signal ends the process.
}
