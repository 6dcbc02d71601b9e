//! What a layer does to rows element by element, forward and backward: neighbours found by their
//! index, scaled, multiplied and summed.
//!
//! Counted are operations on whole rows. Not counted are numbers of which there is one an edge or
//! one a node (coefficients, degrees), activations, biases and the loss. Products by weights are
//! `work`'s. The invariant: a row that is summed up from nothing is one addition a summand.

use super::model::Layer;
use super::work::Gemm;

/// What is done to rows element by element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowWork {
    /// Rows that are made, rows that they are made of, and the elements of a row: the sizes of the
    /// product that would make them with a matrix that selects rows.
    pub shape: Gemm,
    /// Rows added to another.
    pub added: u64,
    /// Rows multiplied, by a number or element by element.
    pub multiplied: u64,
    /// Rows that lie where an index says.
    pub gathered: u64,
    /// Each row made is a sum of rows times numbers, so that a product by a matrix could make it.
    pub is_linear: bool,
    /// They are rows of features, which come from the memory below.
    pub are_features: bool,
}

impl RowWork {
    /// Operations on elements: additions and multiplications.
    pub fn operations(&self) -> (u64, u64) {
        (self.added * self.shape.n, self.multiplied * self.shape.n)
    }
}

/// The sizes of a layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Nodes whose rows it makes.
    pub nodes: u64,
    /// Neighbours that they have between them.
    pub summed: u64,
    /// Nodes whose rows it is given: the former, and all neighbours.
    pub inputs: u64,
    /// Columns of the rows that it is given.
    pub width: u64,
    /// Columns of the rows that it makes.
    pub hidden: u64,
    /// Whether it is given rows of features.
    pub are_features: bool,
}

impl Layer {
    /// What happens to rows before the products, and after them.
    pub(super) fn forward(self, size: &Size) -> Vec<RowWork> {
        let &Size { nodes, summed, .. } = size;
        let sums = size.picking(size.nodes, size.inputs);
        match self {
            Self::Sage => vec![RowWork { added: summed, ..sums }],
            // Neighbours and the node itself, each scaled by 1 / sqrt(d_u d_i).
            Self::Gcn => {
                let rows = summed + nodes;
                vec![RowWork { added: rows, multiplied: rows, ..sums }]
            }
            // Neighbours as they are, and 1 + epsilon times the own row.
            Self::Gin => vec![RowWork { added: summed + nodes, multiplied: nodes, ..sums }],
            // The message of neighbour i is c (W1 e_i + W2 (e_i * e_u)) with c = 1 / sqrt(d_u d_i).
            // Products by weights come after the sums. Of each neighbour: m = c e_i, then m * e_u,
            // and both are added up; the node adds W1 e_u, whose row joins the first sum. Last, the
            // two products become one row.
            Self::Ngcf => vec![
                RowWork {
                    added: 2 * summed + nodes,
                    multiplied: 2 * summed,
                    is_linear: false,
                    ..sums
                },
                size.own(size.hidden, nodes, 0),
            ],
        }
    }

    /// The gradients of the same layers. A layer's gradients of its input rows are computed unless
    /// these rows are features, which are not trained.
    ///
    /// [`Layer::Sage`] has none: it is BeaconGNN's model, whose training is counted in products.
    pub(super) fn backward(self, size: &Size) -> Vec<RowWork> {
        let &Size { nodes, summed, .. } = size;
        let spread = size.picking(size.inputs, size.nodes);
        let of_rows = match self {
            Self::Sage => None,
            // The same sums, from a node back to its neighbours.
            Self::Gcn => {
                let rows = summed + nodes;
                Some(RowWork { added: rows, multiplied: rows, ..spread })
            }
            Self::Gin => Some(RowWork { added: summed + nodes, multiplied: nodes, ..spread }),
            // With s and p the gradients of a node's two sums, and m the message before: of each
            // neighbour e_i gets c (s + p * e_u), and e_u gets p * m; the own row gets s.
            Self::Ngcf => Some(RowWork {
                added: 3 * summed + nodes,
                multiplied: 3 * summed,
                is_linear: false,
                ..spread
            }),
        };
        let of_rows = of_rows.filter(|_| !size.are_features);
        // Epsilon is trained in every layer: the product of own row and gradient, summed up.
        let of_epsilon = (self == Self::Gin).then(|| size.own(size.width, nodes, nodes));
        of_rows.into_iter().chain(of_epsilon).collect()
    }
}

impl Size {
    /// Rows made of others that an index picks, nothing of which is counted yet.
    fn picking(&self, made: u64, of: u64) -> RowWork {
        RowWork {
            shape: Gemm { m: made, k: of, n: self.width },
            added: 0,
            multiplied: 0,
            gathered: self.summed,
            is_linear: true,
            are_features: self.are_features,
        }
    }

    /// Rows of the nodes themselves, which lie one behind the other.
    fn own(&self, width: u64, added: u64, multiplied: u64) -> RowWork {
        RowWork {
            shape: Gemm { m: self.nodes, k: self.nodes, n: width },
            added,
            multiplied,
            gathered: 0,
            is_linear: false,
            are_features: false,
        }
    }
}
