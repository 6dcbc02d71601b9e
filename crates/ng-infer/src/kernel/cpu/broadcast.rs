//! Shapes that broadcast, as lines: runs of elements along which each tensor either goes on or
//! stands still.

/// How the elements of some tensors come to those of a result.
pub(super) struct Lines<const N: usize> {
    /// The axes of the result but the last; axes that all tensors pass alike are one.
    outer: Vec<usize>,
    /// For each of them the step of each tensor.
    steps: Vec<[usize; N]>,
    /// Elements of a line.
    pub len: usize,
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

    /// For each tensor the place and the number of its elements for `count` elements of the result
    /// from `start`, which are of one line. A tensor that stands still has one element.
    pub fn parts(&self, start: usize, count: usize) -> [std::ops::Range<usize>; N] {
        let (mut line, along) = (start / self.len, start % self.len);
        let mut places = [0; N];
        for (len, steps) in self.outer.iter().zip(&self.steps).rev() {
            let at = line % len;
            line /= len;
            places.iter_mut().zip(steps).for_each(|(place, step)| *place += at * step);
        }
        let mut tensor = 0;
        places.map(|place| {
            let goes_on = self.goes_on[tensor];
            tensor += 1;
            if goes_on { place + along..place + along + count } else { place..place + 1 }
        })
    }
}

/// Whether an axis and the one inside it, of length `len`, are one run for all tensors.
fn is_one_run<const N: usize>(len: usize, inner: &[usize; N], outer: &[usize; N]) -> bool {
    inner.iter().zip(outer).all(|(inner, outer)| *outer == inner * len)
}
