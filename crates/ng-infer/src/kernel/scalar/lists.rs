//! Operations on edges that are lists of destinations.

use super::edges::combine_all;
use super::elements::of_f32;
use super::places::checked;
use crate::dfg::{Binary, Reduction};
use crate::kernel::error::KernelError;
use crate::kernel::view::{View, ViewMut};

/// A counting sort by destination, which keeps the order of equal ones.
pub(super) fn edge_lists(
    inputs: &[View<'_>],
    offsets: &mut [i64],
    sources: &mut [i64],
    places: &mut [i64],
) -> Result<(), KernelError> {
    let (from, to) = (inputs[0].i64(), inputs[1].i64());
    let size = offsets.len() - 1;
    offsets.fill(0);
    for (place, at) in to.iter().enumerate() {
        offsets[checked(*at, place, size)? + 1] += 1;
    }
    for list in 0..size {
        offsets[list + 1] += offsets[list];
    }
    let mut next = offsets[..size].to_vec();
    for (place, at) in to.iter().enumerate() {
        let next = &mut next[*at as usize];
        sources[*next as usize] = from[place];
        places[*next as usize] = place as i64;
        *next += 1;
    }
    Ok(())
}

/// That offsets begin with 0, never descend, and end with the number of edges.
fn check_offsets(offsets: &[i64], edges: usize) -> Result<(), KernelError> {
    let ends = (offsets.first(), offsets.last());
    let is_whole = ends == (Some(&0), Some(&(edges as i64)));
    if is_whole && offsets.is_sorted() {
        return Ok(());
    }
    Err(KernelError::Misfit(format!(
        "the offsets are not ascending from 0 to {edges}, the number of edges"
    )))
}

pub(super) fn aggregate(
    how: Reduction,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), KernelError> {
    let (rows, offsets, sources) = (&inputs[0], inputs[1].i64(), inputs[2].i64());
    check_offsets(offsets, sources.len())?;
    let (count, width) = (rows.dims[0], rows.dims[1..].iter().product());
    let from = rows.f32();
    let weights = inputs.get(3).map(View::f32);
    let destinations = offsets
        .windows(2)
        .enumerate()
        .flat_map(|(list, ends)| std::iter::repeat_n(list as i64, (ends[1] - ends[0]) as usize));
    let heads = weights.map_or(1, |weights| weights.len() / sources.len().max(1));
    let message = |place: usize| {
        let source = checked(sources[place], place, count)?;
        let weights = weights.map_or(&[1.0][..], |all| &all[place * heads..(place + 1) * heads]);
        Ok((&from[source * width..(source + 1) * width], weights))
    };
    combine_all(how, destinations, width, out.f32(), message)
}

pub(super) fn sddmm(
    binary: Binary,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), KernelError> {
    let width: usize = out.dims[1..].iter().product();
    let (one, other) = (&inputs[0], &inputs[1]);
    let pairs = inputs[2].i64().iter().zip(inputs[3].i64()).enumerate();
    let to = out.f32();
    for (place, (first, second)) in pairs {
        let first = checked(*first, place, one.dims[0])? * width;
        let second = checked(*second, place, other.dims[0])? * width;
        for i in 0..width {
            let (x, y) = (one.f32()[first + i], other.f32()[second + i]);
            to[place * width + i] = of_f32(binary, x, y);
        }
    }
    Ok(())
}
