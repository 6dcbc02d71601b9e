//! Graphs that are known by their counts alone, sampled without ever being made.
//!
//! The five sets of BeaconGNN's Table III have up to 80 billion edges. What a simulation needs of
//! them is whom a batch visits: nodes with ids at random, degrees from a model, positions at random
//! in lists of that length. The model, fixed before anything was compared with it: degrees are
//! log-normal with the published mean and a standard deviation of [`SIGMA`] of their logarithm; who
//! is reached by an edge has the size-biased law of the same (nodes of degree d are at the end of
//! d edges), which for a log-normal is a log-normal again, e^(sigma^2) times as large.

use ng_types::{DrawKey, Draws, EdgeTypeId, Trace};

/// Standard deviation of the logarithm of degrees.
pub const SIGMA: f64 = 1.0;

/// The counts of a graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dataset {
    /// As users name it.
    pub name: &'static str,
    /// Nodes.
    pub nodes: u64,
    /// Directed edges.
    pub edges: u64,
    /// Columns of a row of features, 2 bytes each.
    pub columns: u32,
}

/// BeaconGNN, Table III.
pub const DATASETS: [Dataset; 5] = [
    Dataset { name: "reddit", nodes: 37_300_000, edges: 53_900_000_000, columns: 602 },
    Dataset { name: "amazon", nodes: 265_900_000, edges: 79_800_000_000, columns: 200 },
    Dataset { name: "movielens", nodes: 22_200_000, edges: 59_200_000_000, columns: 30 },
    Dataset { name: "ogbn", nodes: 179_100_000, edges: 5_000_000_000, columns: 32 },
    Dataset { name: "ppi", nodes: 9_100_000, edges: 8_800_000_000, columns: 256 },
];

impl Dataset {
    /// The set of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        DATASETS.into_iter().find(|set| set.name == name)
    }

    /// Neighbours of a node, on average.
    pub fn mean_degree(&self) -> f64 {
        self.edges as f64 / self.nodes as f64
    }

    /// Bytes of a row of features.
    pub fn feature_bytes(&self) -> u32 {
        2 * self.columns
    }

    /// Samples batches: every draw visits a node of its own, as dies without a common memory do.
    ///
    /// A node of degree d has min(fanout, d) different positions drawn.
    pub fn trace(&self, batches: u64, targets: u32, fanouts: &[u32], seed: u64) -> Trace {
        let mut trace = Trace::default();
        for batch in 0..batches {
            let draws = DrawKey::new(seed, batch).draws(EdgeTypeId(0), 0);
            let mut source = Source { set: self, draws, next: 0 };
            trace.begin_batch();
            source.batch(&mut trace, targets, fanouts);
            trace.end_batch();
        }
        trace
    }
}

struct Source<'a> {
    set: &'a Dataset,
    draws: Draws,
    next: u32,
}

impl Source<'_> {
    fn batch(&mut self, trace: &mut Trace, targets: u32, fanouts: &[u32]) {
        let mut degrees: Vec<u32> = Vec::new();
        let visit = |source: &mut Self, trace: &mut Trace, degrees: &mut Vec<u32>, hop: u8| {
            let degree = source.degree(hop > 0);
            degrees.push(degree);
            trace.visit(source.below(source.set.nodes), degree, hop)
        };
        for _ in 0..targets {
            visit(self, trace, &mut degrees, 0);
        }
        let mut first = 0;
        for (hop, &fanout) in (1u8..).zip(fanouts) {
            let end = degrees.len();
            for entry in first..end {
                let degree = degrees[entry];
                // Of its own counter, past all that ids and degrees take.
                let key = DrawKey::new(u64::from(self.bits() as u32), entry as u64);
                let mut positions = Vec::with_capacity(fanout as usize);
                key.draws(EdgeTypeId(0), entry as u64).without_replacement(
                    u64::from(degree),
                    fanout,
                    |position| positions.push(position as u32),
                );
                for position in positions {
                    let found = visit(self, trace, &mut degrees, hop);
                    trace.draw(entry as u32, position, found);
                }
            }
            first = end;
        }
    }

    fn bits(&mut self) -> u64 {
        self.next += 1;
        self.draws.bits(self.next)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next += 1;
        self.draws.below(self.next, bound)
    }

    /// A degree; of who is reached by an edge if `biased`.
    fn degree(&mut self, biased: bool) -> u32 {
        let mean = self.set.mean_degree().ln();
        let mu = if biased { mean + SIGMA * SIGMA / 2.0 } else { mean - SIGMA * SIGMA / 2.0 };
        let drawn = (mu + SIGMA * self.normal()).exp().round();
        drawn.clamp(1.0, (self.set.nodes - 1).min(u64::from(u32::MAX)) as f64) as u32
    }

    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let unit = |bits: u64| ((bits >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let (radius, angle) = (unit(self.bits()), unit(self.bits()));
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_hops_of_three_visit_40_nodes_a_target() {
        for set in DATASETS {
            let trace = set.trace(2, 16, &[3, 3, 3], 5);
            assert_eq!(trace.check(), Ok(()));
            assert_eq!(trace.batches(), 2);
            // A node of degree 1 or 2 has fewer draws; only the sparse set has any to speak of.
            let entries = trace.entries_of(0).len();
            assert!(entries <= 16 * 40 && entries > 16 * 37, "{}: {entries}", set.name);
            assert_eq!(trace, set.trace(2, 16, &[3, 3, 3], 5), "a seed gives the same trace");
            assert_ne!(trace, set.trace(2, 16, &[3, 3, 3], 6));
        }
    }

    #[test]
    fn degrees_have_the_published_mean_and_more_behind_an_edge() {
        let set = Dataset::by_name("amazon").expect("it is there");
        let trace = set.trace(1, 40_000, &[1], 9);
        let mean = |hop: u8| {
            let of = trace.degree.iter().zip(&trace.hop).filter(|(_, h)| **h == hop);
            let (sum, count) = of.fold((0.0, 0.0), |(s, n), (d, _)| (s + f64::from(*d), n + 1.0));
            sum / count
        };
        let (seeds, reached) = (mean(0), mean(1));
        assert!((seeds / set.mean_degree() - 1.0).abs() < 0.04, "{seeds}");
        assert!((reached / seeds / SIGMA.exp() - 1.0).abs() < 0.08, "{reached}");
    }
}
