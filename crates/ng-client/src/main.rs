//! `neargraph-bench-server`: the load generator as one program without Python.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(ng_client::load::run_command(std::env::args_os()))
}
