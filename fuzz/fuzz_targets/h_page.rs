//! Feeds bytes to one decoder; see `ng_store::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ng_store::fuzzing::h_page(data));
