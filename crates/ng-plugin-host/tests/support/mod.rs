//! Plug-ins that tests compile, and graphs of one operation.

#![allow(dead_code, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ng_infer::dfg::{Constant, Dfg, Elements, Op};
use ng_infer::kernel::Context;
use ng_infer::run::{Devices, run};
use ng_plugin_host::{AllowList, Plugin, PluginError, Probe, digest};
use tempfile::TempDir;

/// The folder of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder that its owner alone can write.
pub fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Compiles C sources to a shared object.
pub fn compiled(source: &Path, to: &Path) {
    let include = root().join("crates/ng-plugin-abi/include");
    let mut compile = Command::new("cc");
    compile.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-fPIC", "-shared", "-pthread", "-I"]);
    let done = compile.arg(include).arg(source).arg("-o").arg(to).arg("-lm").output();
    let done = done.expect("a C compiler");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// The program that tries plug-ins.
pub fn probe(seconds: u64) -> Probe {
    let program = env!("CARGO_BIN_EXE_ng-plugin-probe");
    Probe::new(program, Vec::new()).with_limit(Duration::from_secs(seconds))
}

/// Loads a file, which is allowed.
pub fn loaded(path: &Path, seconds: u64) -> Result<std::sync::Arc<Plugin>, PluginError> {
    let allow = AllowList::new([digest(path)?])?;
    Plugin::load(path, &allow, &probe(seconds))
}

pub fn f32s(dims: &[usize], all: &[f32]) -> Constant {
    Constant::new(dims.to_vec(), Elements::F32(all.to_vec())).expect("as many as the shape says")
}

pub fn i64s(dims: &[usize], all: &[i64]) -> Constant {
    Constant::new(dims.to_vec(), Elements::I64(all.to_vec())).expect("as many as the shape says")
}

/// A graph of one operation.
pub fn graph_of(op: &Op, inputs: usize) -> Dfg {
    let mut dfg = Dfg::default();
    let names = ["a", "b", "c"].iter().take(inputs);
    let inputs: Vec<_> = names.map(|name| dfg.create_in(name, None).expect("new")).collect();
    let made = dfg.create_op(op.clone(), &inputs).expect("takes so many");
    dfg.create_out("out", made[0]).expect("new");
    dfg
}

/// What devices make of an operation.
pub fn run_op(
    devices: &Devices,
    op: &Op,
    inputs: &[Constant],
    threads: usize,
) -> Result<Constant, String> {
    let dfg = graph_of(op, inputs.len());
    let named: Vec<_> = ["a", "b", "c"].into_iter().zip(inputs.iter().cloned()).collect();
    let made = run(&dfg, devices, &named, &Context::new(threads));
    made.map(|mut made| made.remove(0)).map_err(|error| error.to_string())
}
