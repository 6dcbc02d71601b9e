//! What messages come to: accumulators of a block of destinations.

use ng_infer::dfg::Reduction;

use super::passes::{How, Reduced};

/// Accumulators: `places` rows of `width` elements for each destination.
#[derive(Debug)]
pub(super) struct Accumulators {
    how: How,
    places: usize,
    width: usize,
    sums: Vec<f32>,
    /// How many messages each place got; for what depends on it alone.
    counts: Vec<u32>,
    /// Whether destinations add rows of their own.
    has_added: bool,
}

/// The accumulators of some destinations, which one thread fills.
pub(super) struct Part<'a> {
    how: How,
    width: usize,
    sums: &'a mut [f32],
    counts: &'a mut [u32],
}

fn start(how: How) -> f32 {
    match how {
        How::Reduce(Reduction::Sum | Reduction::Mean) | How::LastLoop => 0.0,
        How::Reduce(Reduction::Max) => f32::NEG_INFINITY,
        How::Reduce(Reduction::Min) => f32::INFINITY,
        How::Reduce(Reduction::Mul) => 1.0,
    }
}

/// The larger or smaller of two; NaN stays.
fn chosen(so_far: f32, x: f32, is_max: bool) -> f32 {
    if so_far.is_nan() || x.is_nan() {
        return f32::NAN;
    }
    if is_max { so_far.max(x) } else { so_far.min(x) }
}

impl Accumulators {
    /// Bytes for each destination.
    pub fn bytes_per_row(places: usize, width: usize) -> u64 {
        (places * (width * 4 + 4)) as u64
    }

    pub fn new(of: &Reduced, rows: usize) -> Self {
        let (how, places, width) = (of.how, of.places, of.width());
        let sums = vec![start(how); rows * places * width];
        let counts = vec![0; rows * places];
        Self { how, places, width, sums, counts, has_added: of.added.is_some() }
    }

    /// Parts of `lens` destinations each.
    pub fn split<'a>(&'a mut self, lens: &[usize]) -> Vec<Part<'a>> {
        let (how, width) = (self.how, self.width);
        let (mut sums, mut counts) = (self.sums.as_mut_slice(), self.counts.as_mut_slice());
        let mut parts = Vec::with_capacity(lens.len());
        for len in lens {
            let (own_sums, other_sums) = sums.split_at_mut(len * self.places * width);
            let (own_counts, other_counts) = counts.split_at_mut(len * self.places);
            parts.push(Part { how, width, sums: own_sums, counts: own_counts });
            (sums, counts) = (other_sums, other_counts);
        }
        parts
    }

    /// Turns what was accumulated into what the reduction gives.
    pub fn finish(&mut self) {
        let rows = self.sums.chunks_exact_mut(self.width.max(1)).zip(&self.counts);
        for (row, count) in rows {
            match (self.how, count) {
                (How::Reduce(Reduction::Mul) | How::LastLoop, _) => {}
                (_, 0) if self.has_added => {}
                (_, 0) => row.fill(0.0),
                (How::Reduce(Reduction::Mean), count) => {
                    row.iter_mut().for_each(|x| *x /= *count as f32)
                }
                _ => {}
            }
        }
    }

    /// Gives rows to the places that got no message.
    pub fn fill(&mut self, rows: &[f32]) {
        let width = self.width.max(1);
        let all = self.sums.chunks_exact_mut(width).zip(rows.chunks_exact(width));
        for ((row, other), count) in all.zip(&self.counts) {
            if *count == 0 {
                row.copy_from_slice(other);
            }
        }
    }

    /// All elements, once it is finished.
    pub fn elements(&self) -> &[f32] {
        &self.sums
    }
}

impl Part<'_> {
    /// How many places there are.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Adds a row at a place.
    #[inline]
    pub fn add(&mut self, place: usize, row: &[f32]) {
        self.counts[place] += 1;
        let to = &mut self.sums[place * self.width..(place + 1) * self.width];
        let pairs = to.iter_mut().zip(row);
        match self.how {
            How::Reduce(Reduction::Sum | Reduction::Mean) => {
                pairs.for_each(|(to, x)| *to += x);
            }
            How::Reduce(Reduction::Mul) => pairs.for_each(|(to, x)| *to *= x),
            How::Reduce(Reduction::Max) => pairs.for_each(|(to, x)| *to = chosen(*to, *x, true)),
            How::Reduce(Reduction::Min) => pairs.for_each(|(to, x)| *to = chosen(*to, *x, false)),
            How::LastLoop => pairs.for_each(|(to, x)| *to = *x),
        }
    }

    /// Adds a destination's own row to its sum or mean; `messages` counts the edges into it.
    pub fn add_own(&mut self, place: usize, row: &[f32], messages: usize) {
        let to = &mut self.sums[place * self.width..(place + 1) * self.width];
        // The mean is divided by the number of messages in the end.
        let times =
            if self.how == How::Reduce(Reduction::Mean) { messages.max(1) as f32 } else { 1.0 };
        to.iter_mut().zip(row).for_each(|(to, x)| *to += x * times);
    }

    /// The accumulators at a place.
    pub fn row(&self, place: usize) -> &[f32] {
        &self.sums[place * self.width..(place + 1) * self.width]
    }

    /// Adds a row whose heads, of equal width, are multiplied by `factors`.
    #[inline]
    pub fn add_scaled(&mut self, place: usize, row: &[f32], factors: &[f32]) {
        let width = (self.width / factors.len().max(1)).max(1);
        if !matches!(self.how, How::Reduce(Reduction::Sum | Reduction::Mean)) {
            let scaled = |(row, factor): (&[f32], &f32)| row.iter().map(|x| x * factor).collect();
            let scaled: Vec<Vec<f32>> = row.chunks(width).zip(factors).map(scaled).collect();
            return self.add(place, &scaled.concat());
        }
        self.counts[place] += 1;
        let to = &mut self.sums[place * self.width..(place + 1) * self.width];
        for ((to, row), factor) in to.chunks_mut(width).zip(row.chunks(width)).zip(factors) {
            to.iter_mut().zip(row).for_each(|(to, x)| *to += x * factor);
        }
    }
}
