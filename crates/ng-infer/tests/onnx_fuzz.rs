//! A short run of the fuzzer of the ONNX reader; `examples/fuzz_onnx.rs` makes long ones.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::onnx_support::fuzz;

#[test]
fn mutated_models_are_read_or_refused_without_a_panic() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seed = now.map_or(1, |since| since.as_nanos() as u64);
    println!("seed {seed}");
    let outcome = fuzz::run(seed, 20_000).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(outcome.accepted > 100, "mutations are too wild: {outcome:?}");
    assert!(outcome.kinds > 40, "mutations are too tame: {outcome:?}");
}
