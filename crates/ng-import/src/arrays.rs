//! Edges from arrays in memory: any integer type, any number of chunks, converted and checked on
//! all threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ng_types::EdgeTypeId;

use crate::edges::RawEdges;
use crate::error::Fault;
use crate::importer::EdgeType;
use crate::strings::NameKind;
use crate::text::{Bounds, out_of_bounds};
use crate::threads::run_on;
use crate::{ImportError, Importer};

/// Rows that are converted at once; their columns stay in the cache of a core.
const CHUNK_ROWS: u64 = 32 << 10;
/// Rows of a sample.
const SAMPLE_ROWS: usize = 64 << 10;

/// Integers of any common type.
#[derive(Clone, Copy, Debug)]
pub enum IdSlice<'a> {
    /// Signed 32 bits.
    I32(&'a [i32]),
    /// Signed 64 bits.
    I64(&'a [i64]),
    /// Unsigned 32 bits.
    U32(&'a [u32]),
    /// Unsigned 64 bits.
    U64(&'a [u64]),
}

impl IdSlice<'_> {
    /// The number of ids.
    pub fn len(&self) -> usize {
        match self {
            Self::I32(ids) => ids.len(),
            Self::I64(ids) => ids.len(),
            Self::U32(ids) => ids.len(),
            Self::U64(ids) => ids.len(),
        }
    }

    /// Whether the slice is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id at `index` as it is.
    pub(crate) fn at(&self, index: usize) -> i128 {
        match self {
            Self::I32(ids) => ids[index].into(),
            Self::I64(ids) => ids[index].into(),
            Self::U32(ids) => ids[index].into(),
            Self::U64(ids) => ids[index].into(),
        }
    }

    /// Appends `start..end` to `to`; negative ids become huge, and fail the check of bounds.
    fn widen(&self, start: usize, end: usize, to: &mut Vec<u64>) {
        match self {
            Self::I32(ids) => to.extend(ids[start..end].iter().map(|id| i64::from(*id) as u64)),
            Self::I64(ids) => to.extend(ids[start..end].iter().map(|id| *id as u64)),
            Self::U32(ids) => to.extend(ids[start..end].iter().map(|id| u64::from(*id))),
            Self::U64(ids) => to.extend_from_slice(&ids[start..end]),
        }
    }
}

/// The columns of a chunk of edges; all of the same length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns<'a> {
    pub sources: IdSlice<'a>,
    pub destinations: IdSlice<'a>,
    pub edge_ids: Option<IdSlice<'a>>,
    pub times: Option<&'a [i64]>,
    pub weights: Option<&'a [f32]>,
}

impl Importer {
    /// Adds edges: `sources[i] -> destinations[i]`. Can be called any number of times; rows are
    /// numbered over all calls. `edge_ids` needs an edge type with edge ids, and replaces the rows.
    ///
    /// # Errors
    /// [`ImportError::Spec`] for columns that do not match the edge type, [`ImportError::Row`] for
    /// an id that is negative, not below the declared number of nodes, or not below 2^40.
    pub fn push_edges(
        &mut self,
        edge_type: EdgeTypeId,
        sources: IdSlice<'_>,
        destinations: IdSlice<'_>,
        edge_ids: Option<IdSlice<'_>>,
        times: Option<&[i64]>,
        weights: Option<&[f32]>,
    ) -> Result<(), ImportError> {
        let index = self.edge_index(edge_type)?;
        let columns = Columns { sources, destinations, edge_ids, times, weights };
        self.check_columns(index, &columns)?;
        self.activate(index)?;
        self.edge_types[index].given_ids = Some(edge_ids.is_some());
        let result = self.push_columns(index, &columns);
        self.note(result)?;
        self.edge_types[index].rows += sources.len() as u64;
        Ok(())
    }

    fn check_columns(&self, index: usize, columns: &Columns<'_>) -> Result<(), ImportError> {
        let edge_type = &self.edge_types[index];
        let spec = &edge_type.spec;
        for node_type in [edge_type.source, edge_type.destination] {
            let node_type = &self.node_types[node_type];
            if node_type.strings && node_type.kind != NameKind::Number {
                return Err(ImportError::spec(format!(
                    "node type {:?} has string ids, but the given ids are numbers; give strings",
                    node_type.name
                )));
            }
        }
        let rows = columns.sources.len();
        let given = [
            ("edge ids", spec.edge_ids, columns.edge_ids.map(|ids| ids.len()), false),
            ("times", spec.time, columns.times.map(<[i64]>::len), true),
            ("weights", spec.weight, columns.weights.map(<[f32]>::len), true),
            ("destinations", true, Some(columns.destinations.len()), true),
        ];
        for (name, declared, len, needed) in given {
            let wrong = match len {
                Some(_) if !declared => format!("{name} are given but not declared"),
                None if declared && needed => format!("{name} are declared but not given"),
                Some(len) if len != rows => {
                    format!("got {len} {name}, expected {rows}: one per source")
                }
                _ => continue,
            };
            return Err(ImportError::spec(format!("edge type {:?}: {wrong}", spec.relation)));
        }
        if edge_type.given_ids.is_some_and(|before| before != columns.edge_ids.is_some()) {
            return Err(ImportError::spec("give edge ids with every chunk of edges or with none"));
        }
        Ok(())
    }

    fn push_columns(&self, index: usize, columns: &Columns<'_>) -> Result<(), ImportError> {
        let edge_type = &self.edge_types[index];
        let rows = columns.sources.len();
        let check = Check::new(edge_type, self.bounds(edge_type));
        if edge_type.rows == 0 && rows > 2 * SAMPLE_ROWS {
            let mut sample = RawEdges::default();
            let step = rows / SAMPLE_ROWS;
            for row in (0..rows).step_by(step) {
                columns.append(row, row + 1, &mut sample);
            }
            if let (Some(sink), Ok(())) = (&edge_type.sink, check.edges(&sample)) {
                sink.hint(&sample);
            }
        }
        let next = AtomicU64::new(0);
        self.push_chunks(index, &check, rows as u64, &next, |start, end, edges, _| {
            columns.append(start as usize, end as usize, edges);
            Ok(())
        })
    }

    /// Pushes rows in chunks from several threads: `fill` adds those of a range to the edges, with
    /// a buffer of its own. The first bad row is the error. Whoever sets `next` to `rows` ends it.
    pub(crate) fn push_chunks(
        &self,
        index: usize,
        check: &Check,
        rows: u64,
        next: &AtomicU64,
        fill: impl Fn(u64, u64, &mut RawEdges, &mut Vec<u8>) -> Result<(), ImportError> + Sync,
    ) -> Result<(), ImportError> {
        let first_row = self.edge_types[index].rows;
        let failure: Mutex<Option<BadRow>> = Mutex::new(None);
        let chunks = usize::try_from(rows.div_ceil(CHUNK_ROWS)).unwrap_or(usize::MAX);
        run_on(self.plan.threads.min(chunks), |_| {
            let (mut edges, mut bytes) = (RawEdges::default(), Vec::new());
            loop {
                let start = next.fetch_add(CHUNK_ROWS, Ordering::Relaxed);
                let end = rows.min(start.saturating_add(CHUNK_ROWS));
                if start >= end {
                    return Ok(());
                }
                edges.clear();
                edges.first_row = first_row + start;
                fill(start, end, &mut edges, &mut bytes)?;
                if let Err(bad) = check.edges(&edges) {
                    next.store(rows, Ordering::Relaxed);
                    let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                    if failure.as_ref().is_none_or(|(before, _)| bad.0 < *before) {
                        *failure = Some(bad);
                    }
                    return Ok(());
                }
                self.take_edges(index, &edges)?;
            }
        })?;
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        failure.map_or(Ok(()), |(_, error)| Err(error))
    }
}

impl Columns<'_> {
    fn append(&self, start: usize, end: usize, to: &mut RawEdges) {
        self.sources.widen(start, end, &mut to.sources);
        self.destinations.widen(start, end, &mut to.destinations);
        if let Some(ids) = &self.edge_ids {
            ids.widen(start, end, &mut to.edge_ids);
        }
        if let Some(times) = self.times {
            to.times.extend_from_slice(&times[start..end]);
        }
        if let Some(weights) = self.weights {
            to.weights.extend_from_slice(&weights[start..end]);
        }
    }
}

/// Checks ids against what their types allow.
pub(crate) struct Check {
    bounds: Bounds,
    array: String,
    first_row: u64,
}

impl Check {
    pub(crate) fn new(edge_type: &EdgeType, bounds: Bounds) -> Self {
        let array = format!("edges of {:?}", edge_type.spec.relation);
        Self { bounds, array, first_row: edge_type.rows }
    }

    /// The same check with another name for the rows, which count from 0 there.
    pub(crate) fn of_file(self, path: &std::path::Path) -> Self {
        Self { array: path.display().to_string(), ..self }
    }

    /// The first row that is wrong, and how.
    pub(crate) fn edges(&self, edges: &RawEdges) -> Result<(), BadRow> {
        let Bounds { source, destination } = self.bounds;
        let columns = [
            ("source", &edges.sources, source),
            ("destination", &edges.destinations, destination),
            ("edge id", &edges.edge_ids, ng_types::NODE_ID_BOUND),
        ];
        let mut first: Option<(usize, Fault)> = None;
        for (name, ids, bound) in columns {
            if ids.iter().copied().max().is_none_or(|max| max < bound) {
                continue;
            }
            let Some(at) = ids.iter().position(|id| *id >= bound) else {
                continue;
            };
            if first.as_ref().is_none_or(|(before, _)| at < *before) {
                let id = ids[at];
                let negative = format!("{name} {} is negative", id as i64).into();
                let large = out_of_bounds(name, id, bound);
                first = Some((at, if (id as i64) < 0 { negative } else { large }));
            }
        }
        let bad_weight = edges.weights.iter().position(|weight| !weight.is_finite());
        if let Some(at) = bad_weight.filter(|at| first.as_ref().is_none_or(|(row, _)| at < row)) {
            first = Some((at, format!("weight {} is not finite", edges.weights[at]).into()));
        }
        let Some((at, what)) = first else {
            return Ok(());
        };
        let row = edges.first_row + at as u64 - self.first_row.min(edges.first_row);
        Err((row, ImportError::Row { array: self.array.clone(), row, what }))
    }
}

/// An error and the row that it is about.
type BadRow = (u64, ImportError);
