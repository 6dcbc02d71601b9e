//! Edges as lists of destinations: making them, and aggregating along them.

use ng_simd::{Aggregation, EdgeLists, GraphKernels, Rows};

use super::parallel::by_rows;
use crate::dfg::Reduction;
use crate::kernel::context::Context;
use crate::kernel::error::{KernelError, misfit};
use crate::kernel::view::{Data, View};

/// Lists of destinations, in the numbers that kernels read.
pub(super) struct Lists {
    pub offsets: Vec<u32>,
    /// For each place in the lists the edge that is there; `None` if edges come in the order of
    /// the lists.
    pub order: Option<Vec<u32>>,
}

/// The first place of an index that is not below `len`.
pub(super) fn outside(index: &[i64], len: usize) -> Option<usize> {
    // As an unsigned number, what is negative is too large.
    let largest = index.iter().fold(0, |largest, at| largest.max(*at as u64));
    if index.is_empty() || largest < len as u64 {
        return None;
    }
    index.iter().position(|at| *at as u64 >= len as u64)
}

/// That all of an index are below `len`.
pub(super) fn check(index: &[i64], len: usize) -> Result<(), KernelError> {
    match outside(index, len) {
        None => Ok(()),
        Some(place) => Err(KernelError::Index { index: index[place], place, len }),
    }
}

/// Whether kernels can count these things.
pub(super) fn fit(counts: &[usize]) -> bool {
    counts.iter().all(|count| u32::try_from(*count).is_ok())
}

impl Lists {
    /// The lists of edges with these destinations, which are below `size`: a counting sort, or a
    /// count alone where they ascend, as those of sampled batches do.
    pub fn new(destinations: &[i64], size: usize) -> Self {
        let mut offsets = vec![0_u32; size + 1];
        for destination in destinations {
            offsets[*destination as usize + 1] += 1;
        }
        for list in 0..size {
            offsets[list + 1] += offsets[list];
        }
        if destinations.is_sorted() {
            return Self { offsets, order: None };
        }
        let mut next = offsets.clone();
        let mut order = vec![0; destinations.len()];
        for (edge, destination) in destinations.iter().enumerate() {
            let next = &mut next[*destination as usize];
            order[*next as usize] = edge as u32;
            *next += 1;
        }
        Self { offsets, order: Some(order) }
    }

    /// What edges have, in the order of the lists.
    pub fn sorted<T: Copy, U>(&self, of_edges: &[T], of: impl Fn(T) -> U) -> Vec<U> {
        match &self.order {
            None => of_edges.iter().map(|each| of(*each)).collect(),
            Some(order) => order.iter().map(|edge| of(of_edges[*edge as usize])).collect(),
        }
    }

    /// The edges themselves, in the order of the lists.
    pub fn edges(&self, count: usize) -> Vec<u32> {
        self.order.clone().unwrap_or_else(|| (0..count as u32).collect())
    }
}

/// What is combined: rows of the lists' sources, and weights in the order of the lists.
pub(super) struct Messages<'a> {
    pub rows: Rows<'a>,
    /// How many rows there are.
    pub len: usize,
    pub width: usize,
    pub weights: Option<&'a [f32]>,
}

/// Combines messages along lists that were checked. `how` is not [`Reduction::Mul`].
pub(super) fn combine(
    kernels: GraphKernels,
    how: Reduction,
    (offsets, sources): (&[u32], &[u32]),
    messages: &Messages<'_>,
    out: &mut [f32],
    context: &Context,
) -> Result<(), KernelError> {
    let Messages { rows, len, width, weights } = *messages;
    if width == 0 || out.is_empty() {
        return Ok(());
    }
    let how = match how {
        Reduction::Sum => ng_simd::Reduction::Sum,
        Reduction::Mean => ng_simd::Reduction::Mean,
        Reduction::Max => ng_simd::Reduction::Max,
        Reduction::Min => ng_simd::Reduction::Min,
        Reduction::Mul => {
            return Err(misfit("reducing messages by their product is not supported"));
        }
    };
    let lists = EdgeLists::new(offsets, sources, len).map_err(misfit)?;
    let job = Aggregation { lists, rows, width, weights, how };
    let work = sources.len() * width + out.len();
    by_rows(context, work, width, out, |first, out| {
        let destinations = first..first + out.len() / width;
        kernels.aggregate(&job, destinations, out).map_err(misfit)
    })
}

/// That offsets begin with 0, never descend, and end with the number of edges.
fn check_offsets(offsets: &[i64], edges: usize) -> Result<(), KernelError> {
    let ends = (offsets.first(), offsets.last());
    if ends == (Some(&0), Some(&(edges as i64))) && offsets.is_sorted() {
        return Ok(());
    }
    Err(misfit(format!("the offsets are not ascending from 0 to {edges}, the number of edges")))
}

/// Whether it was done; the reference does what is too large for kernels, and products.
pub(super) fn aggregate(
    kernels: GraphKernels,
    how: Reduction,
    inputs: &[View<'_>],
    out: &mut [f32],
    context: &Context,
) -> Result<bool, KernelError> {
    let (rows, offsets, sources) = (&inputs[0], inputs[1].i64(), inputs[2].i64());
    let (len, width) = (rows.dims[0], rows.dims[1..].iter().product());
    let is_small = fit(&[len, offsets.len(), sources.len()]);
    if how == Reduction::Mul || !is_small {
        return Ok(false);
    }
    check_offsets(offsets, sources.len())?;
    if width == 0 {
        return Ok(true);
    }
    check(sources, len)?;
    let narrow = |all: &[i64]| all.iter().map(|number| *number as u32).collect::<Vec<_>>();
    let (offsets, mut sources) = (narrow(offsets), narrow(sources));
    let (rows, len) = match rows.data {
        Data::Rows(table) => {
            table.check()?;
            sources.iter_mut().for_each(|source| *source = table.rows[*source as usize]);
            (table.table, table.len)
        }
        _ => (Rows::F32(rows.f32()), len),
    };
    let weights = inputs.get(3).map(View::f32);
    let messages = Messages { rows, len, width, weights };
    combine(kernels, how, (&offsets, &sources), &messages, out, context)?;
    Ok(true)
}

/// Whether it was done.
pub(super) fn edge_lists(
    inputs: &[View<'_>],
    offsets: &mut [i64],
    sources: &mut [i64],
    places: &mut [i64],
) -> Result<bool, KernelError> {
    let (from, to) = (inputs[0].i64(), inputs[1].i64());
    let size = offsets.len() - 1;
    check(to, size)?;
    if !to.is_sorted() {
        return Ok(false);
    }
    let mut edge = 0;
    for (list, offset) in offsets.iter_mut().enumerate() {
        while edge < to.len() && (to[edge] as usize) < list {
            edge += 1;
        }
        *offset = edge as i64;
    }
    sources.copy_from_slice(from);
    places.iter_mut().zip(0..).for_each(|(place, edge)| *place = edge);
    Ok(true)
}
