//! Compiles the interface in `proto/` without `protoc`.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message;

const FILES: [&str; 7] = [
    "neargraph/v1/accelerators.proto",
    "neargraph/v1/graph_store.proto",
    "neargraph/v1/inference.proto",
    "neargraph/v1/registry.proto",
    "neargraph/v1/sampling.proto",
    "neargraph/v1/server.proto",
    "inference/open_inference.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_imports(true).include_source_info(true).open_files(FILES)?;
    let found = compiler.file_descriptor_set();
    let out = PathBuf::from(env::var("OUT_DIR")?).join("descriptors.bin");
    fs::write(out, found.encode_to_vec())?;
    tonic_prost_build::configure()
        // Tensors are not copied on the way.
        .bytes(".neargraph.v1.Tensor.data")
        .bytes(".inference")
        // Faces show messages as dictionaries; tensors go another way.
        .type_attribute(".neargraph.v1", "#[derive(serde::Serialize, serde::Deserialize)]")
        .message_attribute(".neargraph.v1", "#[serde(default)]")
        .field_attribute(".neargraph.v1.Tensor.data", "#[serde(skip)]")
        .compile_fds(found)?;
    Ok(())
}
