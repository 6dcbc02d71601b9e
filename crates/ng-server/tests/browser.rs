//! The page of the side port in a browser, beside requests that are answered: `browser.py` checks
//! what a reader meets. Says so and ends where there is no browser or no Python.
#![allow(clippy::expect_used)]

mod help;

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use help::{client, folder, register, run, started};

/// What the script ends with where no browser is installed.
const NO_BROWSER: i32 = 77;

#[test]
fn the_page_can_be_read_used_by_keyboard_and_not_be_attacked_by_names() {
    let folder = folder(500);
    let serving = started(folder.path(), |config| config);
    let asking = client(&serving, 0);
    register(&asking);
    let over = AtomicBool::new(false);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser.py");
    let url = format!("http://{}/", serving.side_address());
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            for node in (0..500).cycle() {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                asking.run(run(&[node])).expect("answer");
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let output = Command::new("python3").arg(script).arg(url).output();
        over.store(true, Ordering::Relaxed);
        output
    });
    let Ok(output) = output else {
        println!("skipped: there is no python3");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.code() {
        Some(0) => {}
        Some(NO_BROWSER) => println!("{text}"),
        _ => panic!("{text}{}", String::from_utf8_lossy(&output.stderr)),
    }
}
