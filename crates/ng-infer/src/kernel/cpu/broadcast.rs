//! Shapes that broadcast, as lines: runs of elements along which each tensor either goes on or
//! stands still.

use std::ops::Range;

/// How the elements of some tensors come to those of a result.
pub(super) struct Lines<const N: usize> {
    /// The axes of the result but the last; axes that all tensors pass alike are one.
    outer: Vec<usize>,
    /// For each of them the step of each tensor.
    steps: Vec<[usize; N]>,
    /// Elements of a line.
    len: usize,
    /// Whether each tensor goes on along a line.
    goes_on: [bool; N],
}

impl<const N: usize> Lines<N> {
    /// Of tensors of shapes that broadcast to `out`.
    pub fn new(out: &[usize], tensors: [&[usize]; N]) -> Self {
        let mut next = [1; N];
        // Axes from the last to the first: length and steps.
        let mut axes: Vec<(usize, [usize; N])> = Vec::new();
        for axis in (0..out.len()).rev() {
            let mut steps = [0; N];
            for (tensor, dims) in tensors.iter().enumerate() {
                let own = (axis + dims.len()).checked_sub(out.len()).map_or(1, |own| dims[own]);
                if own != 1 {
                    steps[tensor] = next[tensor];
                    next[tensor] *= own;
                }
            }
            if out[axis] == 1 {
                continue;
            }
            match axes.last_mut() {
                Some((len, inner)) if is_one_run(*len, inner, &steps) => *len *= out[axis],
                _ => axes.push((out[axis], steps)),
            }
        }
        let (len, inner) = if axes.is_empty() { (1, [1; N]) } else { axes.remove(0) };
        axes.reverse();
        let (outer, steps) = axes.into_iter().unzip();
        Self { outer, steps, len, goes_on: inner.map(|step| step != 0) }
    }

    /// Calls `each` for `count` elements of the result from `start`, line by line: with the number
    /// of elements, and for each tensor the places of its own. A tensor that stands still has one.
    pub fn each(&self, start: usize, count: usize, mut each: impl FnMut(usize, [Range<usize>; N])) {
        if count == 0 {
            return;
        }
        let (mut line, mut along) = (start / self.len, start % self.len);
        let mut index = vec![0; self.outer.len()];
        let mut places = [0; N];
        for (axis, len) in self.outer.iter().enumerate().rev() {
            index[axis] = line % len;
            line /= len;
            let steps = places.iter_mut().zip(self.steps[axis]);
            steps.for_each(|(place, step)| *place += index[axis] * step);
        }
        let mut rest = count;
        loop {
            let part = rest.min(self.len - along);
            let range = |tensor: usize| {
                let place = places[tensor];
                if self.goes_on[tensor] {
                    place + along..place + along + part
                } else {
                    place..place + 1
                }
            };
            each(part, std::array::from_fn(range));
            (rest, along) = (rest - part, 0);
            if rest == 0 {
                return;
            }
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                let steps = places.iter_mut().zip(self.steps[axis]);
                if index[axis] < self.outer[axis] {
                    steps.for_each(|(place, step)| *place += step);
                    break;
                }
                index[axis] = 0;
                steps.for_each(|(place, step)| *place -= step * (self.outer[axis] - 1));
            }
        }
    }

    /// For each tensor the place of its element that comes to an element of the result.
    pub fn places(&self, element: usize) -> [usize; N] {
        let mut places = [0; N];
        self.each(element, 1, |_, parts| places = parts.map(|part| part.start));
        places
    }
}

/// Whether an axis and the one inside it, of length `len`, are one run for all tensors.
fn is_one_run<const N: usize>(len: usize, inner: &[usize; N], outer: &[usize; N]) -> bool {
    inner.iter().zip(outer).all(|(inner, outer)| *outer == inner * len)
}
