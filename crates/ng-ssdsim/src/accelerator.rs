//! How long a systolic array and its vector unit compute on a batch (ScaleSim's output-stationary
//! model, as BeaconGNN uses it). What crosses the interface of its memory: `scratchpad`.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::config::Accelerator;
use crate::scratchpad::Scratchpad;
use crate::time::{Picos, SECOND};

/// Bytes of a word.
pub(crate) const WORD_BYTES: u64 = 2;

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

/// A matrix of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Which of the batch's matrices.
    pub id: u32,
    /// It is computed inside the accelerator; else it comes from the memory below.
    pub is_made_inside: bool,
    /// It goes to the memory below.
    pub is_result: bool,
}

/// A product and the matrices that it has: both factors, and what they make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// The sizes.
    pub gemm: Gemm,
    /// M x K, K x N and M x N.
    pub operands: [Operand; 3],
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

/// Widths that can be simulated: of features, which may be none, and of everything else.
const COLUMNS_MAX: u64 = 1 << 20;
const WIDTH_MAX: u64 = 1 << 16;

/// A width that no model has.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("{what} is {value}; use {least} to {most}")]
pub struct WidthError {
    /// Which.
    pub what: &'static str,
    /// What was given.
    pub value: u64,
    least: u64,
    most: u64,
}

impl Model {
    /// Names the first width that cannot be simulated.
    pub fn check(&self) -> Result<(), WidthError> {
        let widths = [
            ("columns of features", self.columns, 0, COLUMNS_MAX),
            ("hidden", self.hidden, 1, WIDTH_MAX),
            ("outputs", self.outputs, 1, WIDTH_MAX),
        ];
        let is_out =
            |&&(_, value, least, most): &&(_, u64, u64, u64)| !(least..=most).contains(&value);
        match widths.iter().find(is_out) {
            None => Ok(()),
            Some(&(what, value, least, most)) => Err(WidthError { what, value, least, most }),
        }
    }
}

/// What a batch computes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Products, in order.
    pub products: Vec<Product>,
    /// Vectors added up, with their width.
    pub sums: Vec<(u64, u64)>,
}

impl Work {
    /// The work of a batch: layer l computes nodes of the first hops from rows of one hop more; a
    /// last product makes outputs of the targets.
    ///
    /// `visits` counts the nodes of each hop. Without features nothing is computed.
    pub fn of_batch(model: &Model, visits: &[u64]) -> Self {
        let mut work = Self::default();
        if model.columns == 0 {
            return work;
        }
        let mut width = model.columns;
        for last in (0..visits.len().saturating_sub(1)).rev() {
            let nodes: u64 = visits[..=last].iter().sum();
            let summed: u64 = visits[1..=last + 1].iter().sum();
            let are_features = last + 2 == visits.len();
            work.add_layer(model.layer, (nodes, summed), (width, model.hidden), are_features);
            width = model.hidden;
        }
        let targets = visits.first().copied().unwrap_or(0);
        work.forward(Gemm { m: targets, k: width, n: model.outputs }, visits.len() < 2, None);
        if let Some(last) = work.products.last_mut() {
            last.operands[2].is_result = true;
        }
        if model.backward {
            work.add_backward();
        }
        work
    }

    /// A layer for `nodes` that have `summed` neighbours between them. Its rows are those of
    /// features, or were made by the layer before.
    fn add_layer(
        &mut self,
        layer: Layer,
        (nodes, summed): (u64, u64),
        (k, n): (u64, u64),
        are_features: bool,
    ) {
        let first = Gemm { m: nodes, k, n };
        let made = self.forward(first, are_features, None);
        match layer {
            Layer::Sage => self.sums.push((summed, k)),
            // Each row is scaled before it is summed.
            Layer::Gcn => self.sums.push((2 * (summed + nodes), k)),
            Layer::Gin => {
                self.sums.push((summed + 2 * nodes, k));
                self.forward(Gemm { m: nodes, k: n, n }, false, Some(made));
            }
            Layer::Ngcf => {
                self.sums.push((3 * summed, k));
                self.forward(first, are_features, None);
            }
        }
    }

    /// A product by weights: the number of the matrix that it makes. Its rows are `input`, or
    /// others that come from the memory below or are made by the vector unit.
    fn forward(&mut self, gemm: Gemm, are_features: bool, input: Option<u32>) -> u32 {
        let next = 3 * self.products.len() as u32;
        let operand = |id, is_made_inside| Operand { id, is_made_inside, is_result: false };
        let rows = operand(input.unwrap_or(next), !are_features);
        let operands = [rows, operand(next + 1, false), operand(next + 2, true)];
        self.products.push(Product { gemm, operands });
        next + 2
    }

    /// The gradients of each product: of its weights, and of its rows where these are not the
    /// features, which nobody trains.
    fn add_backward(&mut self) {
        let forward = self.products.clone();
        let mut next = 3 * forward.len() as u32;
        let mut made = |is_result| {
            next += 1;
            Operand { id: next, is_made_inside: true, is_result }
        };
        for Product { gemm: Gemm { m, k, n }, operands: [rows, weights, _] } in
            forward.into_iter().rev()
        {
            let behind = made(false);
            let gemm = Gemm { m: k, k: m, n };
            self.products.push(Product { gemm, operands: [rows, behind, made(true)] });
            if rows.is_made_inside {
                let gemm = Gemm { m, k: n, n: k };
                self.products.push(Product { gemm, operands: [behind, weights, made(false)] });
            }
        }
    }

    /// Multiplications, and as many additions.
    pub fn multiplications(&self) -> u64 {
        self.gemms().map(|gemm| gemm.m * gemm.k * gemm.n).sum()
    }

    /// The sizes of all products.
    pub fn gemms(&self) -> impl Iterator<Item = Gemm> + '_ {
        self.products.iter().map(|product| product.gemm)
    }
}

impl Accelerator {
    /// Cycles of one product: K + R + C - 2 a fold and the drain of the last one's R rows, for
    /// ceil(M / R) ceil(N / C) folds; or what the memory below needs to move `crossing` words.
    pub fn gemm_cycles(&self, gemm: Gemm, crossing: u64) -> u64 {
        let (rows, columns) = (u64::from(self.rows), u64::from(self.columns));
        let folds = gemm.m.div_ceil(rows) * gemm.n.div_ceil(columns);
        if folds == 0 {
            return 0;
        }
        let computing = folds * (gemm.k + rows + columns - 2) + rows;
        let moving = match self.words_per_cycle {
            0 => 0,
            words_per_cycle => crossing.div_ceil(u64::from(words_per_cycle)),
        };
        computing.max(moving)
    }

    /// Words between the accelerator's memory and the one below for each product of a batch.
    pub fn crossings(&self, work: &Work) -> Vec<u64> {
        let mut memory = Scratchpad::new(self.scratchpad_bytes / WORD_BYTES);
        work.products.iter().map(|product| memory.crossing(product)).collect()
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

    /// Cycles of all products of a batch, and of its sums.
    pub fn cycles_of(&self, work: &Work) -> (u64, u64) {
        let each = work.gemms().zip(self.crossings(work));
        let products = each.map(|(gemm, words)| self.gemm_cycles(gemm, words)).sum();
        let sums = work.sums.iter().map(|&(count, width)| self.sum_cycles(count, width)).sum();
        (products, sums)
    }

    /// The time of a batch; nothing where it is not counted.
    pub fn time_of(&self, work: &Work) -> Picos {
        if !self.timed {
            return 0;
        }
        let (products, sums) = self.cycles_of(work);
        ((products + sums) as f64 * (SECOND as f64 / self.hertz)).round() as Picos
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn one_fold_streams_k_past_both_edges_and_drains() {
        let array = Config::paper().accelerator;
        let gemm = Gemm { m: 64, k: 100, n: 64 };
        assert_eq!(array.gemm_cycles(gemm, 0), 100 + 64 + 64 - 2 + 64);
        assert_eq!(array.gemm_cycles(Gemm { m: 65, ..gemm }, 0), 2 * 226 + 64);
        assert_eq!(array.gemm_cycles(Gemm { m: 0, ..gemm }, 0), 0);
    }

    #[test]
    fn a_narrow_memory_stalls_a_product() {
        let mut array = Config::paper().accelerator;
        array.words_per_cycle = 1;
        assert_eq!(array.gemm_cycles(Gemm { m: 64, k: 1, n: 64 }, 4224), 4224);
        array.words_per_cycle = 16;
        assert_eq!(array.gemm_cycles(Gemm { m: 64, k: 1, n: 64 }, 4224), 264);
    }

    fn model(layer: Layer, backward: bool) -> Model {
        Model { columns: 200, hidden: 128, outputs: 10, backward, layer }
    }

    fn gemm(m: u64, k: u64, n: u64) -> Gemm {
        Gemm { m, k, n }
    }

    #[test]
    fn a_batch_has_a_product_for_each_layer_and_one_for_the_result() {
        let visits = [128, 384, 1152, 3456];
        let work = Work::of_batch(&model(Layer::Sage, false), &visits);
        let forward =
            [gemm(1664, 200, 128), gemm(512, 128, 128), gemm(128, 128, 128), gemm(128, 128, 10)];
        assert_eq!(work.gemms().collect::<Vec<_>>(), forward);
        assert_eq!(work.sums, [(4992, 200), (1536, 128), (384, 128)]);
        // Each has a gradient of its weights, and all but that of the features one of its rows.
        let trained = Work::of_batch(&model(Layer::Sage, true), &visits);
        let of_features = 1664 * 200 * 128;
        assert_eq!(trained.multiplications(), 3 * work.multiplications() - of_features);
        assert_eq!(trained.gemms().last(), Some(gemm(200, 1664, 128)));
    }

    #[test]
    fn layers_differ_in_sums_and_products() {
        let work = |layer| Work::of_batch(&model(layer, false), &[10, 30]);
        let (gcn, gin, ngcf) = (work(Layer::Gcn), work(Layer::Gin), work(Layer::Ngcf));
        let gemms = |work: &Work| work.gemms().collect::<Vec<_>>();
        assert_eq!(gemms(&gcn), gemms(&work(Layer::Sage)));
        assert_eq!((&gcn.sums, &gin.sums), (&vec![(80, 200)], &vec![(50, 200)]));
        assert_eq!(gemms(&gin), [gemm(10, 200, 128), gemm(10, 128, 128), gemm(10, 128, 10)]);
        assert_eq!(gemms(&ngcf), [gemm(10, 200, 128), gemm(10, 200, 128), gemm(10, 128, 10)]);
        assert_eq!(ngcf.sums, [(90, 200)]);
        // Backwards a perceptron needs the gradient between its layers, and none of the features.
        let count = |layer| Work::of_batch(&model(layer, true), &[10, 30]).products.len();
        assert_eq!([Layer::Sage, Layer::Gin, Layer::Ngcf].map(count), [2 + 3, 3 + 5, 3 + 4]);
    }

    #[test]
    fn features_weights_and_results_cross_once_and_nothing_in_between() {
        let visits = [128, 384, 1152, 3456];
        let crossed = |backward, array: &Accelerator| {
            let work = Work::of_batch(&model(Layer::Sage, backward), &visits);
            array.crossings(&work).iter().sum::<u64>()
        };
        let array = Config::paper().accelerator;
        let weights = (200 + 128 + 128) * 128 + 128 * 10;
        let inputs = 1664 * 200 + weights;
        assert_eq!(crossed(false, &array), inputs + 128 * 10);
        // Backwards the gradients of the weights leave, too; the features are there already.
        assert_eq!(crossed(true, &array), inputs + 128 * 10 + weights);
        let small = Accelerator { scratchpad_bytes: 64 << 10, ..array };
        assert!(crossed(true, &small) > 2 * crossed(true, &Config::paper().accelerator));
    }
}
