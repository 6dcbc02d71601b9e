//! How long a systolic array and its vector unit compute on a batch (ScaleSim's output-stationary
//! model, as BeaconGNN uses it).

use serde::{Deserialize, Serialize};

use crate::config::Accelerator;
use crate::time::{Picos, SECOND};

/// A product of an M x K by a K x N matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gemm {
    /// Rows of the result.
    pub m: u64,
    /// What is summed over.
    pub k: u64,
    /// Columns of the result.
    pub n: u64,
}

/// What a layer does with the rows of a node and its neighbours (HolisticGNN, section II.A).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Sums neighbours; one product.
    #[default]
    Sage,
    /// Scales rows and sums them, the node's own among them; one product.
    Gcn,
    /// Sums neighbours and the weighted own row; a product for each of two layers of a perceptron.
    Gin,
    /// Multiplies rows element by element and sums both rows and products; a product for each sum.
    Ngcf,
}

/// The widths of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Columns of a row of features.
    pub columns: u64,
    /// Columns in between.
    pub hidden: u64,
    /// Columns of the result.
    pub outputs: u64,
    /// Whether gradients are computed, too.
    pub backward: bool,
    /// What its layers do.
    #[serde(default)]
    pub layer: Layer,
}

/// What a batch computes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Products, in order.
    pub gemms: Vec<Gemm>,
    /// Vectors added up, with their width.
    pub sums: Vec<(u64, u64)>,
}

impl Work {
    /// The work of a batch: layer l computes nodes of the first hops from rows of one hop more; a
    /// last product makes outputs of the targets.
    ///
    /// `visits` counts the nodes of each hop.
    pub fn of_batch(model: &Model, visits: &[u64]) -> Self {
        let mut work = Self::default();
        let mut width = model.columns;
        for last in (0..visits.len().saturating_sub(1)).rev() {
            let nodes: u64 = visits[..=last].iter().sum();
            let summed: u64 = visits[1..=last + 1].iter().sum();
            work.add_layer(model.layer, (nodes, summed), (width, model.hidden));
            width = model.hidden;
        }
        let targets = visits.first().copied().unwrap_or(0);
        work.gemms.push(Gemm { m: targets, k: width, n: model.outputs });
        if model.backward {
            // Of each product, the gradients of its weights and of its input.
            let forward = work.gemms.clone();
            for Gemm { m, k, n } in forward.into_iter().rev() {
                work.gemms.push(Gemm { m: k, k: m, n });
                work.gemms.push(Gemm { m, k: n, n: k });
            }
        }
        work
    }

    /// A layer for `nodes` that have `summed` neighbours between them.
    fn add_layer(&mut self, layer: Layer, (nodes, summed): (u64, u64), (k, n): (u64, u64)) {
        let first = Gemm { m: nodes, k, n };
        self.gemms.push(first);
        match layer {
            Layer::Sage => self.sums.push((summed, k)),
            // Each row is scaled before it is summed.
            Layer::Gcn => self.sums.push((2 * (summed + nodes), k)),
            Layer::Gin => {
                self.sums.push((summed + 2 * nodes, k));
                self.gemms.push(Gemm { m: nodes, k: n, n });
            }
            Layer::Ngcf => {
                self.sums.push((3 * summed, k));
                self.gemms.push(first);
            }
        }
    }

    /// Multiplications, and as many additions.
    pub fn multiplications(&self) -> u64 {
        self.gemms.iter().map(|gemm| gemm.m * gemm.k * gemm.n).sum()
    }
}

impl Accelerator {
    /// Cycles of one product: K + R + C - 2 a fold and the drain of the last one's R rows, for
    /// ceil(M / R) ceil(N / C) folds; or what the memory below needs to move all operands.
    pub fn gemm_cycles(&self, gemm: Gemm) -> u64 {
        let (rows, columns) = (u64::from(self.rows), u64::from(self.columns));
        let folds = gemm.m.div_ceil(rows) * gemm.n.div_ceil(columns);
        if folds == 0 {
            return 0;
        }
        let computing = folds * (gemm.k + rows + columns - 2) + rows;
        let words = gemm.m * gemm.k + gemm.k * gemm.n + gemm.m * gemm.n;
        let moving = match self.words_per_cycle {
            0 => 0,
            words_per_cycle => words.div_ceil(u64::from(words_per_cycle)),
        };
        computing.max(moving)
    }

    /// Words read from and written to the memory beside the array for one product.
    pub fn gemm_words(&self, gemm: Gemm) -> (u64, u64) {
        let down = gemm.m.div_ceil(u64::from(self.rows));
        let across = gemm.n.div_ceil(u64::from(self.columns));
        (gemm.m * gemm.k * across + gemm.k * gemm.n * down, gemm.m * gemm.n)
    }

    /// Cycles of the vector unit for `count` sums of vectors.
    pub fn sum_cycles(&self, count: u64, width: u64) -> u64 {
        if self.lanes == 0 { 0 } else { count * width.div_ceil(u64::from(self.lanes)) }
    }

    /// The time of a batch; nothing where it is not counted.
    pub fn time_of(&self, work: &Work) -> Picos {
        if !self.timed {
            return 0;
        }
        let products: u64 = work.gemms.iter().map(|&gemm| self.gemm_cycles(gemm)).sum();
        let sums: u64 = work.sums.iter().map(|&(count, width)| self.sum_cycles(count, width)).sum();
        ((products + sums) as f64 * (SECOND as f64 / self.hertz)).round() as Picos
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn one_fold_streams_k_past_both_edges_and_drains() {
        let mut array = Config::paper().accelerator;
        array.words_per_cycle = 0;
        let gemm = Gemm { m: 64, k: 100, n: 64 };
        assert_eq!(array.gemm_cycles(gemm), 100 + 64 + 64 - 2 + 64);
        assert_eq!(array.gemm_cycles(Gemm { m: 65, ..gemm }), 2 * 226 + 64);
        assert_eq!(array.gemm_cycles(Gemm { m: 0, ..gemm }), 0);
    }

    #[test]
    fn a_narrow_memory_stalls_a_product() {
        let mut array = Config::paper().accelerator;
        array.words_per_cycle = 1;
        assert_eq!(array.gemm_cycles(Gemm { m: 64, k: 1, n: 64 }), 64 + 64 + 64 * 64);
    }

    #[test]
    fn a_batch_has_a_product_for_each_layer_and_one_for_the_result() {
        let layer = Layer::Sage;
        let model = Model { columns: 200, hidden: 128, outputs: 10, backward: false, layer };
        let work = Work::of_batch(&model, &[128, 384, 1152, 3456]);
        let gemm = |m, k, n| Gemm { m, k, n };
        assert_eq!(
            work.gemms,
            [gemm(1664, 200, 128), gemm(512, 128, 128), gemm(128, 128, 128), gemm(128, 128, 10)]
        );
        assert_eq!(work.sums, [(4992, 200), (1536, 128), (384, 128)]);
        let trained = Work::of_batch(&Model { backward: true, ..model }, &[128, 384, 1152, 3456]);
        assert_eq!(trained.multiplications(), 3 * work.multiplications());
    }

    #[test]
    fn layers_differ_in_sums_and_products() {
        let work = |layer| {
            let model = Model { columns: 200, hidden: 128, outputs: 10, backward: false, layer };
            Work::of_batch(&model, &[10, 30])
        };
        let (gcn, gin, ngcf) = (work(Layer::Gcn), work(Layer::Gin), work(Layer::Ngcf));
        let gemm = |m, k, n| Gemm { m, k, n };
        assert_eq!(gcn.gemms, work(Layer::Sage).gemms);
        assert_eq!((&gcn.sums, &gin.sums), (&vec![(80, 200)], &vec![(50, 200)]));
        assert_eq!(gin.gemms, [gemm(10, 200, 128), gemm(10, 128, 128), gemm(10, 128, 10)]);
        assert_eq!(ngcf.gemms, [gemm(10, 200, 128), gemm(10, 200, 128), gemm(10, 128, 10)]);
        assert_eq!(ngcf.sums, [(90, 200)]);
    }
}
