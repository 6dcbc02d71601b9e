//! Calls of any service, for tests that have no client of their own for it.

use std::time::Duration;

use ng_rpc::connect::{Channel, channel};
use ng_server::Serving;
use tokio::runtime::{Builder, Runtime};

/// A runtime and a channel to an address of a server.
pub fn calls(serving: &Serving, address: usize) -> (Runtime, Channel) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let entered = runtime.enter();
    let channel = channel(&serving.addresses()[address]).expect("a channel");
    drop(entered);
    (runtime, channel)
}

/// Waits until something holds; it has to within 30 seconds.
pub fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..30_000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("it has not come to hold within 30 seconds");
}
