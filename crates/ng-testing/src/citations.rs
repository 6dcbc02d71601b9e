//! A citation graph of any size, made edge by edge and row by row: nothing is held in memory but
//! one centroid for each class.
//!
//! It is a degree-corrected planted partition. Weights are Pareto of density exponent 2.2, capped
//! at 2 sqrt(N). The destination of an edge is drawn by weight. So is its source: from the class of
//! the destination in 60 % of the draws, else from all nodes. In- and out-degrees are power laws
//! therefore, and neighbours tell the class. Ids are a keyed permutation of the ranks by weight, so
//! that locality is the worst there is. A row is the centroid of its class plus noise.
//!
//! The invariant: edge `i` and row `i` follow from the seed and `i` alone, so the graph is the same
//! in whatever pieces it is asked for.

use crate::Random;

/// Of their weight, what share of sources lie in the class of the destination: 0.6 of 2^11.
const INSIDE: u64 = 1229;
/// Standard deviation of a column of the centroids, and of the noise around them.
const CENTROID: f32 = 0.35;
const NOISE: f32 = 2.0;
/// Of so many nodes, how many are for training, validation and test; as in papers100M.
const SPLIT_OF: u64 = 111_059_956;
const SPLITS: [u64; 3] = [1_207_179, 125_265, 214_338];

/// What different draws of one seed are told apart by.
const EDGES: u64 = 1;
const NAMES: u64 = 2;
const CENTROIDS: u64 = 3;
const ROWS: u64 = 4;
const SPLIT: u64 = 5;

/// A citation graph with planted classes.
///
/// ```
/// use ng_testing::Citations;
/// let graph = Citations::new(1_000, 10, 8, 7);
/// let (source, destination) = graph.edge(0);
/// assert!(source != destination && u64::from(source.max(destination)) < graph.nodes());
/// let mut row = [0.0; 8];
/// graph.row(3, &mut row);
/// assert!(graph.label(3) < 10);
/// ```
#[derive(Clone, Debug)]
pub struct Citations {
    nodes: u64,
    classes: u64,
    width: usize,
    seed: u64,
    edges: u64,
    weights: Weights,
    names: Names,
    centroids: Vec<f32>,
}

impl Citations {
    /// A graph of `nodes` nodes, fewer than 2^32, in `classes` classes, with rows of `width`
    /// elements, which is a multiple of 4. All of them are at least 1, and there are at least 2
    /// nodes for each class.
    pub fn new(nodes: u64, classes: u64, width: usize, seed: u64) -> Self {
        assert!(classes > 0 && nodes >= 2 * classes && nodes < 1 << 32, "{nodes} in {classes}");
        assert!(width > 0 && width.is_multiple_of(4), "rows of {width}");
        let mut random = Random::new(stream(seed, CENTROIDS));
        let centroids = (0..classes as usize * width).map(|_| CENTROID * normal(&mut random));
        Self {
            nodes,
            classes,
            width,
            seed,
            edges: stream(seed, EDGES),
            weights: Weights::new(nodes),
            names: Names::new(nodes, stream(seed, NAMES)),
            centroids: centroids.collect(),
        }
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Edge `number` as (source, destination), never a loop. Two numbers may give the same edge.
    pub fn edge(&self, number: u64) -> (u32, u32) {
        let (one, destination) = self.draw(3 * number);
        let inside = one & 0x7FF < INSIDE;
        let mut source = self.source(3 * number + 1, destination, inside);
        let mut again = 0;
        while source == destination {
            // Another draw of the same kind; the stride keeps it off the draws of other edges.
            again += 1;
            source = self.source(3 * number + 2 + (again << 48), destination, inside);
        }
        (self.names.of(source) as u32, self.names.of(destination) as u32)
    }

    /// The class of a node.
    pub fn label(&self, node: u64) -> u64 {
        self.names.rank(node) % self.classes
    }

    /// Which split a node is in: 1 train, 2 validation, 3 test, 0 none of them.
    pub fn split(&self, node: u64) -> u8 {
        let drawn = mix(stream(self.seed, SPLIT) ^ mix(node));
        let at = ((u128::from(drawn) * u128::from(SPLIT_OF)) >> 64) as u64;
        let mut end = 0;
        for (code, count) in (1..).zip(SPLITS) {
            end += count;
            if at < end {
                return code;
            }
        }
        0
    }

    /// The features of a node; returns its class.
    pub fn row(&self, node: u64, out: &mut [f32]) -> u64 {
        let label = self.label(node);
        let first = label as usize * self.width;
        let centroid = &self.centroids[first..first + self.width];
        let key = mix(stream(self.seed, ROWS) ^ mix(node));
        // Uniform noise of the wanted deviation: a step of 16 bits is sqrt(12) / 2^16 of it.
        const STEP: f32 = NOISE * 3.464_101_6 / 65_536.0;
        let quads = out.chunks_exact_mut(4).zip(centroid.chunks_exact(4));
        for (number, (out, centroid)) in (1_u64..).zip(quads) {
            let bits = folded(key.wrapping_add(number.wrapping_mul(GOLDEN)));
            for (place, (to, middle)) in (0..).zip(out.iter_mut().zip(centroid)) {
                let step = (bits >> (16 * place)) as u16;
                *to = middle + STEP * (f32::from(step) - 32_767.5);
            }
        }
        label
    }

    /// (all bits of a draw, the rank that it gives).
    #[inline]
    fn draw(&self, number: u64) -> (u64, u64) {
        let bits = mix(self.edges.wrapping_add(number.wrapping_mul(GOLDEN)));
        (bits, self.weights.rank((bits >> 11) as f64 / (1_u64 << 53) as f64))
    }

    /// The rank of a source; with `inside` it has the class of the destination. Ranks of a class
    /// are `classes` apart, so the rank that is moved to has about the same weight.
    #[inline]
    fn source(&self, number: u64, destination: u64, inside: bool) -> u64 {
        let (_, rank) = self.draw(number);
        // 32 bits divide faster, and masks cost less than a branch that nobody can foresee.
        let classes = self.classes as u32;
        let (own, wanted) = (rank as u32 % classes, destination as u32 % classes);
        let moved = rank - u64::from(own) + u64::from(wanted);
        let back = if moved < self.nodes { 0 } else { self.classes };
        let mask = u64::from(inside).wrapping_neg();
        (moved - back) & mask | rank & !mask
    }
}

/// Ranks by weight: rank r of N has the weight q^(-5/6) where q = (r + 1/2) / N, up to a cap. 5/6
/// is 1 / (2.2 - 1), so that densities fall with the exponent 2.2.
#[derive(Clone, Copy, Debug)]
struct Weights {
    nodes: u64,
    cap: f64,
    /// The weight of all ranks that the cap holds.
    capped: f64,
    /// The sixth root of the share of these ranks.
    root: f64,
    total: f64,
}

impl Weights {
    fn new(nodes: u64) -> Self {
        let cap = 2.0 * (nodes as f64).sqrt();
        let root = cap.powf(-0.2);
        let capped = cap * root.powi(6);
        Self { nodes, cap, capped, root, total: capped + 6.0 * (1.0 - root) }
    }

    /// The rank at a share of the total weight: the inverse of its sum, in closed form.
    #[inline]
    fn rank(&self, share: f64) -> u64 {
        let at = share * self.total;
        let q = if at < self.capped {
            at / self.cap
        } else {
            let root = (at - self.capped) / 6.0 + self.root;
            let cube = root * root * root;
            cube * cube
        };
        ((q * self.nodes as f64) as u64).min(self.nodes - 1)
    }
}

/// A keyed permutation of the numbers below a bound: rounds of an invertible mixer on the next
/// power of two, walked until the number is below the bound.
#[derive(Clone, Copy, Debug)]
struct Names {
    bound: u64,
    mask: u64,
    shift: u32,
    rounds: [Round; 3],
}

#[derive(Clone, Copy, Debug)]
struct Round {
    factor: u64,
    inverse: u64,
    addend: u64,
}

impl Names {
    fn new(bound: u64, key: u64) -> Self {
        let bits = bound.next_power_of_two().trailing_zeros().max(2);
        let mut random = Random::new(key);
        let rounds = [(); 3].map(|()| {
            let factor = random.next_u64() | 1;
            // Newton's iteration doubles the bits that are right, from the 3 of any odd number.
            let step = |x: u64| x.wrapping_mul(2_u64.wrapping_sub(factor.wrapping_mul(x)));
            let inverse = (0..5).fold(factor, |inverse, _| step(inverse));
            Round { factor, inverse, addend: random.next_u64() }
        });
        Self { bound, mask: (1 << bits) - 1, shift: bits.div_ceil(2), rounds }
    }

    /// The id of a rank.
    #[inline]
    fn of(&self, rank: u64) -> u64 {
        let mut x = rank;
        loop {
            for round in &self.rounds {
                x = x.wrapping_mul(round.factor).wrapping_add(round.addend) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.bound {
                return x;
            }
        }
    }

    /// The rank of an id.
    #[inline]
    fn rank(&self, id: u64) -> u64 {
        let mut x = id;
        loop {
            for round in self.rounds.iter().rev() {
                // The shift is at least half of the bits, so this is its own inverse.
                x ^= x >> self.shift;
                x = x.wrapping_sub(round.addend).wrapping_mul(round.inverse) & self.mask;
            }
            if x < self.bound {
                return x;
            }
        }
    }
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

fn stream(seed: u64, purpose: u64) -> u64 {
    mix(mix(seed) ^ purpose)
}

/// The finisher of SplitMix64.
#[inline]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// 64 bits by one wide multiplication, as wyrand has them: enough for noise.
#[inline]
fn folded(x: u64) -> u64 {
    let product = u128::from(x) * u128::from(x ^ 0xE703_7ED1_A0B4_28DB);
    (product >> 64) as u64 ^ product as u64
}

/// About N(0, 1): the sum of twelve uniform numbers, less 6. No library function is in it, whose
/// last bit may differ between machines.
fn normal(random: &mut Random) -> f32 {
    let unit = |bits: u64| (bits >> 40) as f32 / (1 << 24) as f32;
    (0..12).map(|_| unit(random.next_u64())).sum::<f32>() - 6.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_a_permutation_and_ranks_are_its_inverse() {
        for (bound, key) in [(2, 1), (5, 2), (1_000, 3), (1 << 12, 4), ((1 << 12) + 1, 5)] {
            let names = Names::new(bound, key);
            let mut seen: Vec<u64> = (0..bound).map(|rank| names.of(rank)).collect();
            assert!((0..bound).all(|rank| names.rank(names.of(rank)) == rank), "{bound}");
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..bound), "{bound}");
        }
    }

    #[test]
    fn names_of_neighbouring_ranks_are_far_apart() {
        let names = Names::new(111_059_956, 7);
        let near = |rank: &u64| names.of(*rank).abs_diff(names.of(rank + 1)) < 1_000_000;
        // By chance 2 in 111.
        assert!((0..100_000).filter(near).count() < 2_500);
    }

    #[test]
    fn equal_seeds_give_equal_graphs_and_others_give_others() {
        let graphs = [7, 7, 8].map(|seed| Citations::new(10_000, 17, 8, seed));
        let edges = |graph: &Citations| (0..500).map(|i| graph.edge(i)).collect::<Vec<_>>();
        assert_eq!(edges(&graphs[0]), edges(&graphs[1]));
        assert_ne!(edges(&graphs[0]), edges(&graphs[2]));
        let row = |graph: &Citations| {
            let mut row = [0.0; 8];
            graph.row(77, &mut row);
            row
        };
        assert_eq!(row(&graphs[0]), row(&graphs[1]));
        assert_ne!(row(&graphs[0]), row(&graphs[2]));
    }

    #[test]
    fn degrees_of_both_directions_fall_as_a_power_and_reach_the_cap() {
        let (nodes, edges) = (50_000, 725_000);
        let graph = Citations::new(nodes, 20, 4, 3);
        let mut degrees = [vec![0_u32; nodes as usize], vec![0_u32; nodes as usize]];
        for (source, destination) in (0..edges).map(|i| graph.edge(i)) {
            degrees[0][source as usize] += 1;
            degrees[1][destination as usize] += 1;
        }
        for mut degrees in degrees {
            degrees.sort_unstable_by(|a, b| b.cmp(a));
            let above = |bound| degrees.partition_point(|degree| *degree >= bound) as f64;
            // Density 2.2 means that 2^1.2 times fewer nodes have twice the degree.
            let exponent = (above(20) / above(160)).log2() / 3.0;
            assert!((1.1..1.3).contains(&exponent), "{exponent}");
            let (top, weights) = (f64::from(degrees[0]), graph.weights);
            let expected = edges as f64 / nodes as f64 * weights.cap / weights.total;
            assert!((0.8..1.3).contains(&(top / expected)), "{top} of {expected}");
            assert!(degrees[nodes as usize / 2] < 10);
        }
    }

    #[test]
    fn neighbours_and_rows_tell_the_class() {
        let graph = Citations::new(40_000, 20, 128, 9);
        let edges = (0..20_000).map(|i| graph.edge(i));
        let label = |node: u32| graph.label(u64::from(node));
        let inside = edges.filter(|(source, destination)| label(*source) == label(*destination));
        // 60 % and a twentieth of the rest.
        assert!((0.59..0.65).contains(&(inside.count() as f64 / 20_000.0)));
        let mut right = 0;
        let mut row = [0.0; 128];
        for node in 0..2_000 {
            let label = graph.row(node, &mut row) as usize;
            let distance = |class: &usize| {
                let centroid = &graph.centroids[class * 128..(class + 1) * 128];
                row.iter().zip(centroid).map(|(a, b)| (a - b) * (a - b)).sum::<f32>()
            };
            let order = |a: &usize, b: &usize| distance(a).total_cmp(&distance(b));
            right += usize::from((0..20).min_by(order) == Some(label));
        }
        // Rows alone tell some of it, and not all: 5 % by chance.
        assert!((500..1_600).contains(&right), "{right} of 2,000");
    }

    #[test]
    fn splits_have_the_shares_of_papers100m() {
        let graph = Citations::new(2_000_000, 20, 4, 1);
        let mut counts = [0_u64; 4];
        (0..2_000_000).for_each(|node| counts[usize::from(graph.split(node))] += 1);
        for (found, wanted) in counts[1..].iter().zip(SPLITS) {
            let expected = wanted as f64 * 2e6 / SPLIT_OF as f64;
            assert!((*found as f64 / expected - 1.0).abs() < 0.1, "{found} of {expected}");
        }
    }
}
