//! Imports a generated citation graph, which no file holds: edges and rows go from the generator
//! into the import. Prints the report as JSON; the progress goes to the standard error as lines of
//! STAGE DONE TOTAL.
//!
//! `citations OUT --nodes N --edges N [--classes N] [--width N] [--memory BYTES] [--seed N]
//! [--threads N] [--together]`
//!
//! Rows wait until the runs of the sort are gone; with `--together` they are written meanwhile.

use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::time::Instant;

use ng_import::{EdgeTypeSpec, IdSlice, ImportError, ImportOptions, Importer, TensorId};
use ng_simd::RowEncoder;
use ng_store::Owner;
use ng_testing::Citations;
use ng_types::{Dtype, EdgeTypeId};

/// Edges that are made and pushed at once: 16 MB.
const EDGES_AT_ONCE: usize = 2 << 20;
/// Rows of one block: 4 MB of 128 columns.
const ROWS_AT_ONCE: u64 = 16 << 10;
/// Blocks of rows between two lines of progress.
const BLOCKS_A_LINE: u64 = 64;

type Failure = Box<dyn std::error::Error>;

struct Arguments {
    out: PathBuf,
    options: ImportOptions,
    nodes: u64,
    edges: u64,
    classes: u64,
    width: u64,
    seed: u64,
    threads: usize,
    together: bool,
}

impl Arguments {
    fn read() -> Result<Self, Failure> {
        let options = ImportOptions { overwrite: true, ..ImportOptions::default() };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (classes, width, seed) = (172, 128, 1);
        let (out, nodes, edges, together) = (PathBuf::new(), 0, 0, false);
        let mut read = Self { out, options, nodes, edges, classes, width, seed, threads, together };
        let mut given = std::env::args().skip(1);
        while let Some(name) = given.next() {
            let mut number = || -> Result<u64, Failure> {
                let text = given.next().ok_or_else(|| format!("{name} needs a number"))?;
                Ok(text.parse()?)
            };
            match name.as_str() {
                "--nodes" => read.nodes = number()?,
                "--edges" => read.edges = number()?,
                "--classes" => read.classes = number()?,
                "--width" => read.width = number()?,
                "--seed" => read.seed = number()?,
                "--memory" => read.options.memory = Some(number()?),
                "--threads" => read.threads = number()? as usize,
                "--together" => read.together = true,
                _ if name.starts_with("--") => return Err(format!("no option {name}").into()),
                _ => read.out = name.into(),
            }
        }
        read.options.threads = Some(read.threads);
        if read.out.as_os_str().is_empty() || read.nodes == 0 {
            return Err("give OUT, --nodes and --edges".into());
        }
        Ok(read)
    }
}

fn show(stage: &str, done: u64, total: u64) {
    // Nobody may be listening.
    let _ = writeln!(std::io::stderr(), "{stage} {done} {total}");
}

/// Makes all edges and pushes them, block by block; the threads make each block together.
fn push_edges(
    import: &mut Importer,
    edge_type: EdgeTypeId,
    graph: &Citations,
    arguments: &Arguments,
) -> Result<(), ImportError> {
    let (mut sources, mut destinations) = (Vec::new(), Vec::new());
    let mut first = 0;
    while first < arguments.edges {
        let count = EDGES_AT_ONCE.min((arguments.edges - first) as usize);
        sources.resize(count, 0_u32);
        destinations.resize(count, 0_u32);
        let part = count.div_ceil(arguments.threads);
        let parts = sources.chunks_mut(part).zip(destinations.chunks_mut(part));
        std::thread::scope(|scope| {
            for (number, (sources, destinations)) in parts.enumerate() {
                let start = first + (number * part) as u64;
                scope.spawn(move || {
                    let ends = sources.iter_mut().zip(destinations);
                    for (edge, (source, destination)) in (start..).zip(ends) {
                        (*source, *destination) = graph.edge(edge);
                    }
                });
            }
        });
        let (sources, destinations) = (IdSlice::U32(&sources), IdSlice::U32(&destinations));
        import.push_edges(edge_type, sources, destinations, None, None, None)?;
        first += count as u64;
        show("edges", first, arguments.edges);
    }
    Ok(())
}

/// A block of consecutive nodes: bytes of their rows, labels and splits.
#[derive(Default)]
struct Block {
    x: Vec<u8>,
    y: Vec<u8>,
    split: Vec<u8>,
}

impl Block {
    /// Makes the rows of `nodes` in the place of those that are there.
    fn fill(&mut self, graph: &Citations, nodes: std::ops::Range<u64>, to: &RowEncoder) {
        let width = to.stored_bytes() / 2;
        let (mut wide, mut row_bytes) = (Vec::new(), vec![0; 4 * width]);
        let (block, mut row) = (self, vec![0.0; width]);
        for bytes in [&mut block.x, &mut block.y, &mut block.split] {
            bytes.clear();
        }
        for node in nodes {
            block.y.extend((graph.row(node, &mut row) as i32).to_le_bytes());
            block.split.push(graph.split(node));
            for (bytes, value) in row_bytes.chunks_exact_mut(4).zip(&row) {
                bytes.copy_from_slice(&value.to_le_bytes());
            }
            wide.extend_from_slice(&row_bytes);
            if wide.len() >= 64 << 10 {
                encode(to, &mut wide, &mut block.x);
            }
        }
        encode(to, &mut wide, &mut block.x);
    }
}

fn encode(to: &RowEncoder, wide: &mut Vec<u8>, out: &mut Vec<u8>) {
    let encoded = to.encode_rows(wide, out);
    encoded.unwrap_or_else(|misfit| panic!("a generated row does not fit: {misfit}"));
    wide.clear();
}

/// Pushes the rows of all tensors in order; each thread makes every so manieth block.
fn push_rows(
    import: &mut Importer,
    tensors: [TensorId; 3],
    graph: &Citations,
    arguments: &Arguments,
) -> Result<(), Failure> {
    let blocks = arguments.nodes.div_ceil(ROWS_AT_ONCE);
    let encoder = RowEncoder::new(Dtype::F16, arguments.width as usize, None)?;
    std::thread::scope(|scope| {
        let made: Vec<(Receiver<Block>, Sender<Block>)> = (0..arguments.threads as u64)
            .map(|thread| {
                let (sender, receiver) = sync_channel(1);
                let (back, used) = channel::<Block>();
                let encoder = encoder.clone();
                scope.spawn(move || {
                    for number in (thread..blocks).step_by(arguments.threads) {
                        let first = number * ROWS_AT_ONCE;
                        let nodes = first..arguments.nodes.min(first + ROWS_AT_ONCE);
                        let mut block = used.try_recv().unwrap_or_default();
                        block.fill(graph, nodes, &encoder);
                        // Nobody receives any more once a push has failed.
                        if sender.send(block).is_err() {
                            return;
                        }
                    }
                });
                (receiver, back)
            })
            .collect();
        for number in 0..blocks {
            let (receiver, back) = &made[number as usize % arguments.threads];
            let block = receiver.recv()?;
            for (tensor, bytes) in tensors.into_iter().zip([&block.x, &block.y, &block.split]) {
                import.push_rows(tensor, bytes)?;
            }
            // Its thread may have made its last block.
            let _ = back.send(block);
            if number % BLOCKS_A_LINE == 0 || number + 1 == blocks {
                let done = arguments.nodes.min((number + 1) * ROWS_AT_ONCE);
                show("rows", done, arguments.nodes);
            }
        }
        Ok(())
    })
}

fn main() -> Result<(), Failure> {
    let arguments = Arguments::read()?;
    let Arguments { nodes, classes, width, seed, .. } = arguments;
    let graph = Citations::new(nodes, classes, width as usize, seed);
    let started = Instant::now();
    let mut import = Importer::new(&arguments.out, arguments.options.clone())?;
    let node = import.node_type("node", Some(nodes), false)?;
    let spec = EdgeTypeSpec { unique: true, ..EdgeTypeSpec::between("node", "to", "node") };
    let edge_type = import.edge_type(spec)?;
    push_edges(&mut import, edge_type, &graph, &arguments)?;
    let edge_seconds = started.elapsed().as_secs_f64();
    import.build_topology()?;
    let mut progress = |p: ng_import::Progress| {
        show("sort", p.done, p.total);
        true
    };
    if !arguments.together {
        import.wait_for_topology(&mut progress)?;
    }
    let sort_seconds = started.elapsed().as_secs_f64() - edge_seconds;
    let owner = Owner::Node(node);
    let tensors = [
        import.begin_tensor(owner, "x", Dtype::F16, &[width], None)?,
        import.begin_tensor(owner, "y", Dtype::I32, &[], None)?,
        import.begin_tensor(owner, "split_0", Dtype::U8, &[], None)?,
    ];
    push_rows(&mut import, tensors, &graph, &arguments)?;
    let rows_seconds = started.elapsed().as_secs_f64() - edge_seconds - sort_seconds;
    let report = import.finish(&mut progress)?;
    let mut json = serde_json::to_value(&report)?;
    json["edge_seconds"] = edge_seconds.into();
    json["sort_seconds"] = sort_seconds.into();
    json["rows_seconds"] = rows_seconds.into();
    println!("{json}");
    Ok(())
}
