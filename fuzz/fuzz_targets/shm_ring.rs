//! Feeds bytes to what reads those of a peer; see `ng_io::fuzzing::shm_ring`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ng_io::fuzzing::shm_ring(data));
