//! Imports an edge list, text or `.npy`, and prints the report as JSON.
//!
//! `import_text SRC OUT [--memory BYTES] [--threads N] [--directed] [--edge-ids]`

use std::path::PathBuf;
use std::time::Instant;

use ng_import::{EdgeTypeSpec, ImportOptions, Importer, TextOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut files = Vec::new();
    let mut options = ImportOptions { memory: Some(256_000_000), ..ImportOptions::default() };
    options.overwrite = true;
    let mut spec = EdgeTypeSpec::between("node", "edge", "node");
    spec.undirected = true;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse::<u64>().ok());
        match argument.as_str() {
            "--memory" => options.memory = number(),
            "--threads" => options.threads = number().map(|count| count as usize),
            "--directed" => spec.undirected = false,
            "--edge-ids" => spec.edge_ids = true,
            _ => files.push(PathBuf::from(argument)),
        }
    }
    let [source, out] = files.as_slice() else {
        return Err("give SRC and OUT".into());
    };
    let started = Instant::now();
    let mut import = Importer::new(out, options)?;
    import.node_type("node", None, false)?;
    let edges = import.edge_type(spec)?;
    if source.extension().is_some_and(|extension| extension == "npy") {
        import.read_npy(edges, source, None, &mut |_| true)?;
    } else {
        import.read_text(edges, source, &TextOptions::default(), &mut |_| true)?;
    }
    let read_seconds = started.elapsed().as_secs_f64();
    let report = import.finish(&mut |_| true)?;
    let mut json = serde_json::to_value(&report)?;
    json["read_seconds"] = read_seconds.into();
    println!("{json}");
    Ok(())
}
