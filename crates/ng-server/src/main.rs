//! `neargraph-server`: the server as one program without Python.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(ng_server::run_command(std::env::args_os()))
}
