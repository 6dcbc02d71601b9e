//! Tries one plug-in, for programs that are not Python. Its one argument is a number of seconds.

fn main() {
    let seconds = std::env::args().next_back().and_then(|last| last.parse().ok());
    ng_plugin_host::run_probe(seconds.unwrap_or(20))
}
