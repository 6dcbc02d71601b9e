//! What a batch computes: products by weights and their gradients, and what is done to rows.

use super::layers::{RowWork, Size};
use super::model::{Layer, Model};

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

/// What a batch computes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Products, in order; those of gradients behind all others.
    pub products: Vec<Product>,
    /// What is done to rows element by element, in the same order.
    pub rows: Vec<RowWork>,
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
        let sizes = sizes(model, visits);
        for size in &sizes {
            work.rows.extend(model.layer.forward(size));
            work.add_products(model.layer, size);
        }
        let targets = visits.first().copied().unwrap_or(0);
        let width = if sizes.is_empty() { model.columns } else { model.hidden };
        work.forward(Gemm { m: targets, k: width, n: model.outputs }, sizes.is_empty(), None);
        if let Some(last) = work.products.last_mut() {
            last.operands[2].is_result = true;
        }
        if model.backward {
            // Epsilon's gradient has that of the sum in it, in the first layer as well.
            let of_every_row = model.layer == Layer::Gin && !sizes.is_empty();
            work.add_backward(of_every_row);
            let backward = sizes.iter().rev().flat_map(|size| model.layer.backward(size));
            work.rows.extend(backward);
        }
        work
    }

    /// The products of a layer, whose rows are those of features or were made by the layer before.
    fn add_products(&mut self, layer: Layer, size: &Size) {
        let (m, n, are_features) = (size.nodes, size.hidden, size.are_features);
        let first = Gemm { m, k: size.width, n };
        let made = self.forward(first, are_features, None);
        match layer {
            Layer::Sage | Layer::Gcn => (),
            Layer::Gin => {
                self.forward(Gemm { m, k: n, n }, false, Some(made));
            }
            Layer::Ngcf => {
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

    /// The gradients of each product: of its weights, and of its rows. Features are not trained, so
    /// a product of theirs has the latter only if `of_every_row`.
    fn add_backward(&mut self, of_every_row: bool) {
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
            if rows.is_made_inside || of_every_row {
                let gemm = Gemm { m, k: n, n: k };
                self.products.push(Product { gemm, operands: [behind, weights, made(false)] });
            }
        }
    }

    /// Multiplications of all products, and as many additions.
    pub fn multiplications(&self) -> u64 {
        self.gemms().map(|gemm| gemm.m * gemm.k * gemm.n).sum()
    }

    /// The sizes of all products.
    pub fn gemms(&self) -> impl Iterator<Item = Gemm> + '_ {
        self.products.iter().map(|product| product.gemm)
    }
}

/// The sizes of all layers, that of the features first.
fn sizes(model: &Model, visits: &[u64]) -> Vec<Size> {
    let lasts = (0..visits.len().saturating_sub(1)).rev();
    let of = |last: usize| {
        let are_features = last + 2 == visits.len();
        Size {
            nodes: visits[..=last].iter().sum(),
            summed: visits[1..=last + 1].iter().sum(),
            inputs: visits[..=last + 1].iter().sum(),
            width: if are_features { model.columns } else { model.hidden },
            hidden: model.hidden,
            are_features,
        }
    };
    lasts.map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYERS: [Layer; 4] = [Layer::Sage, Layer::Gcn, Layer::Gin, Layer::Ngcf];

    fn model(layer: Layer, backward: bool) -> Model {
        Model { columns: 200, hidden: 128, outputs: 10, backward, layer }
    }

    fn gemm(m: u64, k: u64, n: u64) -> Gemm {
        Gemm { m, k, n }
    }

    /// Rows added, multiplied and gathered, and their width.
    fn counts(work: &Work) -> Vec<[u64; 4]> {
        let of = |rows: &RowWork| [rows.added, rows.multiplied, rows.gathered, rows.shape.n];
        work.rows.iter().map(of).collect()
    }

    #[test]
    fn a_batch_has_a_product_for_each_layer_and_one_for_the_result() {
        let visits = [128, 384, 1152, 3456];
        let work = Work::of_batch(&model(Layer::Sage, false), &visits);
        let forward =
            [gemm(1664, 200, 128), gemm(512, 128, 128), gemm(128, 128, 128), gemm(128, 128, 10)];
        assert_eq!(work.gemms().collect::<Vec<_>>(), forward);
        let sums = [[4992, 0, 4992, 200], [1536, 0, 1536, 128], [384, 0, 384, 128]];
        assert_eq!(counts(&work), sums);
        let shapes: Vec<_> = work.rows.iter().map(|rows| rows.shape).collect();
        assert_eq!(shapes, [gemm(1664, 5120, 200), gemm(512, 1664, 128), gemm(128, 512, 128)]);
        assert_eq!(work.rows.iter().filter(|rows| rows.are_features).count(), 1);
        // Each has a gradient of its weights, and all but that of the features one of its rows.
        let trained = Work::of_batch(&model(Layer::Sage, true), &visits);
        let of_features = 1664 * 200 * 128;
        assert_eq!(trained.multiplications(), 3 * work.multiplications() - of_features);
        assert_eq!(trained.gemms().last(), Some(gemm(200, 1664, 128)));
        assert_eq!(trained.rows, work.rows);
    }

    /// Two targets with three neighbours each, and two for each of the latter; rows of 5, 4 in
    /// between, 3 of the result. The first layer makes 8 rows of 18 neighbours, the second 2 of 6:
    /// the sampler draws 12 for the 6, and the 2 keep theirs.
    fn tiny(layer: Layer, backward: bool) -> Work {
        let model = Model { columns: 5, hidden: 4, outputs: 3, backward, layer };
        Work::of_batch(&model, &[2, 6, 12])
    }

    #[test]
    fn gcn_scales_and_sums_each_row_and_its_own() {
        let work = tiny(Layer::Gcn, false);
        assert_eq!(counts(&work), [[26, 26, 18, 5], [8, 8, 6, 4]]);
        let products = [gemm(8, 5, 4), gemm(2, 4, 4), gemm(2, 4, 3)];
        assert_eq!(work.gemms().collect::<Vec<_>>(), products);
        let trained = tiny(Layer::Gcn, true);
        // Of the second layer alone: the rows of the first are features.
        assert_eq!(counts(&trained)[2..], [[8, 8, 6, 4]]);
        assert_eq!(trained.rows[2].shape, gemm(8, 2, 4));
        let gradients = [gemm(4, 2, 3), gemm(2, 3, 4), gemm(4, 2, 4), gemm(2, 4, 4), gemm(5, 8, 4)];
        assert_eq!(trained.gemms().skip(3).collect::<Vec<_>>(), gradients);
    }

    #[test]
    fn gin_has_a_perceptron_of_two_layers_and_trains_the_weight_of_its_own_row() {
        let work = tiny(Layer::Gin, false);
        assert_eq!(counts(&work), [[26, 8, 18, 5], [8, 2, 6, 4]]);
        let products = [gemm(8, 5, 4), gemm(8, 4, 4), gemm(2, 4, 4), gemm(2, 4, 4), gemm(2, 4, 3)];
        assert_eq!(work.gemms().collect::<Vec<_>>(), products);
        let trained = tiny(Layer::Gin, true);
        // Rows and epsilon of the second layer, epsilon of the first.
        assert_eq!(counts(&trained)[2..], [[8, 2, 6, 4], [2, 2, 0, 4], [8, 8, 0, 5]]);
        let gradients = [
            [gemm(4, 2, 3), gemm(2, 3, 4)],
            [gemm(4, 2, 4), gemm(2, 4, 4)],
            [gemm(4, 2, 4), gemm(2, 4, 4)],
            [gemm(4, 8, 4), gemm(8, 4, 4)],
            // Epsilon's gradient has that of the first sums in it.
            [gemm(5, 8, 4), gemm(8, 4, 5)],
        ];
        assert_eq!(trained.gemms().skip(5).collect::<Vec<_>>(), gradients.concat());
    }

    #[test]
    fn ngcf_multiplies_scales_and_sums_each_message_and_has_two_products() {
        let work = tiny(Layer::Ngcf, false);
        // 18 scaled and 18 multiplied element by element; 18 and 18 summed, and 8 own rows; then
        // the two products of 8 rows become one of 4 columns.
        let forward = [[44, 36, 18, 5], [8, 0, 0, 4], [14, 12, 6, 4], [2, 0, 0, 4]];
        assert_eq!(counts(&work), forward);
        let products = [gemm(8, 5, 4), gemm(8, 5, 4), gemm(2, 4, 4), gemm(2, 4, 4), gemm(2, 4, 3)];
        assert_eq!(work.gemms().collect::<Vec<_>>(), products);
        let trained = tiny(Layer::Ngcf, true);
        assert_eq!(counts(&trained)[4..], [[20, 18, 6, 4]]);
        let gradients = [
            gemm(4, 2, 3),
            gemm(2, 3, 4),
            gemm(4, 2, 4),
            gemm(2, 4, 4),
            gemm(4, 2, 4),
            gemm(2, 4, 4),
            // Neither product of the first layer has a gradient of its rows.
            gemm(5, 8, 4),
            gemm(5, 8, 4),
        ];
        assert_eq!(trained.gemms().skip(5).collect::<Vec<_>>(), gradients);
    }

    #[test]
    fn inference_computes_no_gradient() {
        for layer in LAYERS {
            let (inference, trained) = (tiny(layer, false), tiny(layer, true));
            let of_a_layer = if matches!(layer, Layer::Gin | Layer::Ngcf) { 2 } else { 1 };
            let (products, forward) = (inference.products.len(), inference.rows.len());
            assert_eq!(products, 2 * of_a_layer + 1, "{layer:?}");
            assert_eq!(forward, if layer == Layer::Ngcf { 4 } else { 2 }, "{layer:?}");
            // Nothing but what training begins with, and one matrix that leaves.
            assert_eq!(inference.products, trained.products[..products], "{layer:?}");
            assert_eq!(inference.rows, trained.rows[..forward], "{layer:?}");
            let operands = inference.products.iter().flat_map(|product| product.operands);
            let results: Vec<_> = operands.filter(|operand| operand.is_result).collect();
            assert_eq!(results.len(), 1, "{layer:?}");
            assert_eq!(results[0], inference.products[products - 1].operands[2]);
        }
    }

    #[test]
    fn without_neighbours_or_features_there_is_no_layer() {
        for layer in LAYERS {
            let lone = Work::of_batch(&model(layer, true), &[7]);
            assert_eq!(lone.gemms().collect::<Vec<_>>(), [gemm(7, 200, 10), gemm(200, 7, 10)]);
            assert!(lone.rows.is_empty());
            let model = Model { columns: 0, ..model(layer, true) };
            assert_eq!(Work::of_batch(&model, &[7, 21]), Work::default());
        }
    }
}
