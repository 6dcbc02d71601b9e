//! Known bugs that can be planted to prove that the tests would find them.
//!
//! A canary costs nothing in a release build: [`planted`] is a constant there. Builds with debug
//! assertions, as of the tests, hold them all, and `NEARGRAPH_CANARY` chooses one by name;
//! `tools/canaries.py` runs the list and expects every one to be caught.

/// Whether the bug called `name` is planted in this process.
#[inline]
pub fn planted(name: &str) -> bool {
    if !cfg!(debug_assertions) {
        return false;
    }
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("NEARGRAPH_CANARY").ok()).as_deref() == Some(name)
}
