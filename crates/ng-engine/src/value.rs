//! The inputs of a run: their memory, and what fills those that are not rows.

use ng_infer::dfg::Elements;
use ng_infer::kernel::{Data, TableRows, View};
use ng_sample::CompactSample;
use ng_simd::{Rows, f32_bytes_mut};
use ng_store::Owner;
use ng_types::Dtype;

use crate::ask::Ask;
use crate::bind::{Given, RowsOf};
use crate::table::RowTable;

/// An input of a run.
pub(crate) struct Value {
    pub dims: Vec<usize>,
    pub elements: Elements,
    /// Elements of other types than the engine computes with, before they are widened.
    pub raw: Vec<u8>,
    /// Where its rows are in the table of the input, or among the elements.
    pub slots: Vec<u32>,
    /// Whether they are in the table, in place of elements.
    pub lies_in_table: bool,
    /// Whether they are among the elements, which have each row once.
    pub repeats: bool,
    /// Rows that the elements have.
    pub rows: usize,
}

impl Default for Value {
    fn default() -> Self {
        Self {
            dims: Vec::new(),
            elements: Elements::F32(Vec::new()),
            raw: Vec::new(),
            slots: Vec::new(),
            lies_in_table: false,
            repeats: false,
            rows: 0,
        }
    }
}

impl Value {
    /// Finds the rows in the table; whether all are there.
    pub fn take_slots(&mut self, table: Option<&RowTable>, of: &RowsOf, ids: &[u64]) -> bool {
        let table = table.filter(|table| in_place(table, of).is_some());
        self.lies_in_table = table.is_some_and(|table| table.slots_of(ids, &mut self.slots));
        self.lies_in_table
    }

    /// Memory for `rows` rows of an input.
    pub fn room(&mut self, of: &RowsOf, rows: usize) -> &mut [u8] {
        if of.decoder.wanted() != Dtype::F32 {
            self.raw.resize(rows * of.decoder.out_bytes(), 0);
            return &mut self.raw;
        }
        if !matches!(self.elements, Elements::F32(_)) {
            self.elements = Elements::F32(Vec::new());
        }
        let Elements::F32(floats) = &mut self.elements else { return &mut [] };
        floats.resize(rows * of.width(), 0.0);
        f32_bytes_mut(floats)
    }

    pub fn view<'a>(&'a self, given: &'a Given, table: Option<&'a RowTable>) -> View<'a> {
        let Given::Rows(of) = given else { return View::new(&self.dims, &self.elements) };
        let in_table = table.filter(|_| self.lies_in_table).and_then(|table| in_place(table, of));
        let table = match (&self.elements, in_table) {
            (_, Some(found)) => Some(found),
            (Elements::F32(all), None) if self.repeats => Some((Rows::F32(all), self.rows)),
            _ => None,
        };
        match table {
            Some((table, len)) => {
                let rows = TableRows { table, len, rows: &self.slots };
                View { dims: &self.dims, data: Data::Rows(rows) }
            }
            None => View::new(&self.dims, &self.elements),
        }
    }
}

/// The rows of a table where they lie, and how many they are, if all are in memory and of a type
/// that kernels read.
fn in_place<'a>(table: &'a RowTable, of: &'a RowsOf) -> Option<(Rows<'a>, usize)> {
    let (bytes, len) = table.whole()?;
    Some((of.decoder.in_place(bytes)?, len))
}

/// Rows of `width` bytes, each as often as `slots` name it.
pub(crate) fn repeat(rows: &mut Vec<u8>, width: usize, slots: &[u32]) {
    let row = |slot: &u32| rows.get(*slot as usize * width..).and_then(|rest| rest.get(..width));
    let all = slots.iter().filter_map(row).collect::<Vec<_>>().concat();
    *rows = all;
}

/// The ids whose rows an input has.
pub(crate) fn row_ids(of: &RowsOf, sample: &CompactSample, ids: &mut Vec<u64>) {
    ids.clear();
    match of.tensor.owner {
        Owner::Node(id) => ids.extend(sample.nodes[usize::from(id.0)].ids.iter()),
        Owner::Edge(id) => ids.extend(sample.edges[usize::from(id.0)].edge_ids.iter()),
    }
}

/// Whole numbers and flags as the engine computes with them.
pub(crate) fn widened(dtype: Dtype, bytes: &[u8]) -> Elements {
    let ints = |width: usize, read: fn(&[u8]) -> i64| {
        Elements::I64(bytes.chunks_exact(width).map(read).collect())
    };
    fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
        bytes.first_chunk().copied().unwrap_or([0; N])
    }
    match dtype {
        Dtype::I64 => ints(8, |b| i64::from_le_bytes(array(b))),
        Dtype::I32 => ints(4, |b| i64::from(i32::from_le_bytes(array(b)))),
        Dtype::I16 => ints(2, |b| i64::from(i16::from_le_bytes(array(b)))),
        Dtype::I8 => ints(1, |b| i64::from(i8::from_le_bytes(array(b)))),
        Dtype::Bool => Elements::Bool(bytes.iter().map(|byte| *byte != 0).collect()),
        // The others are not bound.
        _ => ints(1, |b| i64::from(b[0])),
    }
}

/// Fills an input that comes of the sample or of the request.
pub(crate) fn fill(given: &Given, sample: &CompactSample, ask: &Ask<'_>, value: &mut Value) {
    let of_edges = |id: &ng_types::EdgeTypeId| &sample.edges[usize::from(id.0)];
    let Value { dims, elements, .. } = value;
    dims.clear();
    if let Given::Weights(id) = given {
        let all = &of_edges(id).weights;
        dims.push(all.len());
        *elements = Elements::F32(all.clone());
        return;
    }
    if !matches!(elements, Elements::I64(_)) {
        *elements = Elements::I64(Vec::new());
    }
    let Elements::I64(out) = elements else { return };
    out.clear();
    match given {
        Given::EdgeIndex(id) => {
            let edges = of_edges(id);
            out.extend(edges.rows.iter().map(|row| i64::from(*row)));
            for (destination, count) in (0..).zip(&edges.counts) {
                out.resize(out.len() + *count as usize, destination);
            }
            dims.push(2);
        }
        Given::Pairs => {
            let (from, to) = ask.pairs.unwrap_or_default();
            out.extend_from_slice(from);
            out.extend_from_slice(to);
            dims.push(2);
        }
        Given::Times(id) => out.extend_from_slice(&of_edges(id).times),
        Given::EdgeIds(id) => out.extend(of_edges(id).edge_ids.iter().map(|id| id as i64)),
        Given::NodeIds(id) => {
            out.extend(sample.nodes[usize::from(id.0)].ids.iter().map(|id| id as i64));
        }
        Given::GraphOf(_) => out.extend_from_slice(ask.graphs.map_or(&[], |(_, of, _)| of)),
        Given::NumSeeds => {
            out.push(ask.seeds.iter().map(|(_, ids)| ids.len() as i64).sum());
            return;
        }
        Given::NumGraphs => {
            out.push(ask.graphs.map_or(0, |(.., count)| count as i64));
            return;
        }
        // The others have elements of other types.
        Given::Rows(_) | Given::Weights(_) | Given::InDegrees(..) => {}
    }
    dims.push(out.len() / dims.first().copied().unwrap_or(1));
}
