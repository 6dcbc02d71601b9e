//! Rows of sources, chunk by chunk in the order of the files; the next one is read while one is
//! computed on.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::mpsc::sync_channel;

use ng_infer::dfg::{Constant, Elements, Value};
use ng_infer::kernel::Context;

use super::error::LayerwiseError;
use super::part::{Leaf, numbers, tensor};
use super::passes::Scan;
use super::run::Runner;
use super::work::{PIECE_ROWS, Work};

/// Threads that read one chunk: while the queue of one drains, that of the other is full.
const READING_THREADS: u64 = 2;

/// Rows of consecutive sources.
pub(super) struct Chunk {
    pub rows: Range<u64>,
    values: HashMap<Value, Constant>,
}

impl Chunk {
    /// The rows of a value.
    pub fn elements(&self, value: Value) -> &Elements {
        const NONE: &Elements = &Elements::F32(Vec::new());
        self.values.get(&value).map_or(NONE, Constant::elements)
    }

    /// The same, which are of f32.
    pub fn f32s(&self, value: Value) -> &[f32] {
        match self.elements(value) {
            Elements::F32(all) => all,
            _ => &[],
        }
    }
}

/// Lends all chunks of a scan in their order, until `add` says that it is enough; whether it did
/// not.
pub(super) fn each_chunk(
    runner: &Runner<'_>,
    work: &Work,
    scan: &Scan,
    num_sources: u64,
    chunk_rows: u64,
    threads: usize,
    add: &mut dyn FnMut(&Chunk) -> Result<bool, LayerwiseError>,
) -> Result<bool, LayerwiseError> {
    if scan.reads.is_empty() {
        return add(&Chunk { rows: 0..num_sources, values: HashMap::new() });
    }
    let starts = (0..num_sources).step_by(chunk_rows as usize);
    let ranges = starts.map(|first| first..num_sources.min(first + chunk_rows));
    if threads == 1 && num_sources <= chunk_rows {
        for rows in ranges {
            if !add(&read(runner, work, scan, rows)?)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    std::thread::scope(|scope| {
        let (send, receive) = sync_channel(0);
        let reading = std::thread::Builder::new().name("ng-layer-read".into());
        let started = reading.spawn_scoped(scope, move || {
            for rows in ranges {
                let chunk = read(runner, work, scan, rows);
                let is_last = chunk.is_err();
                if send.send(chunk).is_err() || is_last {
                    break;
                }
            }
        });
        started.map_err(|source| LayerwiseError::Folder {
            action: "start a thread that reads for",
            folder: work.folder().to_owned(),
            source,
        })?;
        for chunk in receive {
            if !add(&chunk?)? {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

/// Reads a chunk, and computes what is gathered of it.
fn read(
    runner: &Runner<'_>,
    work: &Work,
    scan: &Scan,
    rows: Range<u64>,
) -> Result<Chunk, LayerwiseError> {
    let model = runner.model;
    let count = (rows.end - rows.start) as usize;
    let mut values = HashMap::new();
    for value in &scan.reads {
        let stored = &model.stored[value];
        let part = (count as u64).div_ceil(READING_THREADS).next_multiple_of(PIECE_ROWS);
        let parts: Vec<Range<u64>> = (rows.start..rows.end)
            .step_by(part as usize)
            .map(|first| first..rows.end.min(first + part))
            .collect();
        let read = |rows: Range<u64>| stored.read(&model.snapshot, work, rows);
        let all = std::thread::scope(|scope| {
            let others: Vec<_> =
                parts[1..].iter().map(|rows| scope.spawn(|| read(rows.clone()))).collect();
            let mut all = vec![read(parts[0].clone())?];
            for other in others {
                all.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            Ok::<_, LayerwiseError>(all)
        })?;
        let dims: Vec<usize> = model.lengths(*value, count).iter().map(|n| *n as usize).collect();
        values.insert(*value, tensor(dims[0], &dims[1..], super::run::joined(all)));
    }
    if !scan.views.is_empty() {
        let mut give = |leaf: Leaf| match leaf {
            Leaf::Own(value) => Ok(values[&value].clone()),
            Leaf::Lengths(value) => Ok(numbers(model.lengths(value, count))),
            _ => Ok(numbers(Vec::new())),
        };
        let found = scan.view.run(runner.devices, &Context::default(), &mut give)?;
        values.extend(scan.views.iter().copied().zip(found));
    }
    Ok(Chunk { rows, values })
}
