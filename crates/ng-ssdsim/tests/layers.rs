//! What a layer is said to compute, beside a layer that is computed: operations on rows are counted
//! as they happen, and gradients are compared with differences of the result.
#![allow(clippy::expect_used)]

use ng_ssdsim::{Layer, Model, RowWork, Work};

/// Two nodes, the first two of eight, with three neighbours each.
const NODES: usize = 2;
const INPUTS: usize = 8;
const EDGES: [(usize, usize); 6] = [(0, 2), (0, 3), (0, 4), (1, 5), (1, 6), (1, 7)];
const WIDTH: usize = 4;
const EPSILON: f64 = 0.3;

type Row = [f64; WIDTH];

/// Counts what is done to rows.
#[derive(Default)]
struct Counter {
    added: u64,
    multiplied: u64,
}

impl Counter {
    fn add(&mut self, to: &mut Row, row: &Row) {
        self.added += 1;
        to.iter_mut().zip(row).for_each(|(to, one)| *to += one);
    }

    fn scale(&mut self, row: &Row, by: f64) -> Row {
        self.multiplied += 1;
        row.map(|one| one * by)
    }

    fn pair(&mut self, one: &Row, two: &Row) -> Row {
        self.multiplied += 1;
        std::array::from_fn(|at| one[at] * two[at])
    }
}

/// A number for each place, of no pattern.
fn number(at: usize) -> f64 {
    (at as f64 * 12.9898).sin()
}

fn rows(count: usize, seed: usize) -> Vec<Row> {
    let of = |row| std::array::from_fn(|at| number(seed + 7 * row + at));
    (0..count).map(of).collect()
}

/// A row by weights, or by what these are the other way round.
fn by(row: &Row, weights: &[Row], is_turned: bool) -> Row {
    std::array::from_fn(|to| {
        let one = |from: usize| if is_turned { weights[to][from] } else { weights[from][to] };
        row.iter().enumerate().map(|(from, value)| value * one(from)).sum()
    })
}

/// 1 / sqrt(d_u d_i), where a node has three neighbours and counts itself, a neighbour two.
fn norm(node: usize, other: usize) -> f64 {
    let degree = |id| if id < NODES { 4.0 } else { 2.0f64 };
    1.0 / (degree(node) * degree(other)).sqrt()
}

/// The sums of each node that its products take: one, or for NGCF two.
fn forward(count: &mut Counter, layer: Layer, input: &[Row]) -> [Vec<Row>; 2] {
    let (mut sums, mut pairs) = (vec![[0.0; WIDTH]; NODES], vec![[0.0; WIDTH]; NODES]);
    for (node, other) in EDGES {
        let message = match layer {
            Layer::Gcn | Layer::Ngcf => count.scale(&input[other], norm(node, other)),
            Layer::Sage | Layer::Gin => input[other],
        };
        count.add(&mut sums[node], &message);
        if layer == Layer::Ngcf {
            let pair = count.pair(&message, &input[node]);
            count.add(&mut pairs[node], &pair);
        }
    }
    for node in 0..NODES {
        match layer {
            Layer::Sage => (),
            Layer::Gcn => {
                let own = count.scale(&input[node], norm(node, node));
                count.add(&mut sums[node], &own);
            }
            Layer::Gin => {
                let own = count.scale(&input[node], 1.0 + EPSILON);
                count.add(&mut sums[node], &own);
            }
            Layer::Ngcf => count.add(&mut sums[node], &input[node]),
        }
    }
    [sums, pairs]
}

/// The gradients of the rows that a layer is given, of those of its sums.
fn backward(count: &mut Counter, layer: Layer, input: &[Row], of: &[Vec<Row>; 2]) -> Vec<Row> {
    let [sums, pairs] = of;
    let mut found = vec![[0.0; WIDTH]; INPUTS];
    for (node, other) in EDGES {
        let mut behind = sums[node];
        if layer == Layer::Ngcf {
            // Kept from before, so its making does not count again.
            let message = Counter::default().scale(&input[other], norm(node, other));
            let own = count.pair(&pairs[node], &message);
            count.add(&mut found[node], &own);
            let pair = count.pair(&pairs[node], &input[node]);
            count.add(&mut behind, &pair);
        }
        if layer != Layer::Gin {
            behind = count.scale(&behind, norm(node, other));
        }
        count.add(&mut found[other], &behind);
    }
    for node in 0..NODES {
        let own = match layer {
            Layer::Gcn => count.scale(&sums[node], norm(node, node)),
            Layer::Gin => count.scale(&sums[node], 1.0 + EPSILON),
            Layer::Sage | Layer::Ngcf => sums[node],
        };
        count.add(&mut found[node], &own);
    }
    found
}

/// What is done to rows by the layer that makes 2 of 8: forward, and for the rows backward.
fn said(layer: Layer) -> (RowWork, RowWork) {
    let wide = WIDTH as u64;
    let model = Model { columns: wide, hidden: wide, outputs: 3, backward: true, layer };
    let work = Work::of_batch(&model, &[2, 6, 12]);
    let is_of = |m: usize| {
        move |rows: &&RowWork| rows.shape.m == m as u64 && rows.gathered == EDGES.len() as u64
    };
    let found = |m| *work.rows.iter().find(is_of(m)).expect("the layer");
    (found(NODES), found(INPUTS))
}

/// The result times numbers, summed up: what gradients are taken of.
fn result(layer: Layer, input: &[Row], weights: &[Vec<Row>; 2]) -> f64 {
    let sums = forward(&mut Counter::default(), layer, input);
    let each = (0..NODES).map(|node| {
        let one = by(&sums[0][node], &weights[0], false);
        let two = by(&sums[1][node], &weights[1], false);
        (0..WIDTH).map(|at| (one[at] + two[at]) * number(100 + WIDTH * node + at)).sum::<f64>()
    });
    each.sum()
}

#[test]
fn operations_on_rows_are_those_that_computing_a_layer_takes() {
    for layer in [Layer::Gcn, Layer::Gin, Layer::Ngcf] {
        let (input, weights) = (rows(INPUTS, 1), [rows(WIDTH, 60), rows(WIDTH, 90)]);
        let mut count = Counter::default();
        forward(&mut count, layer, &input);
        let (ahead, behind) = said(layer);
        assert_eq!((count.added, count.multiplied), (ahead.added, ahead.multiplied), "{layer:?}");

        let of = |weights: &[Row], node| {
            let row: Row = std::array::from_fn(|at| number(100 + WIDTH * node + at));
            by(&row, weights, true)
        };
        let of = weights.each_ref().map(|weights| (0..NODES).map(|n| of(weights, n)).collect());
        let mut count = Counter::default();
        let found = backward(&mut count, layer, &input, &of);
        assert_eq!((count.added, count.multiplied), (behind.added, behind.multiplied), "{layer:?}");

        // Nothing that the gradients need was left out: they are those of the result.
        let step = 1e-5;
        for (node, at) in (0..INPUTS).flat_map(|node| (0..WIDTH).map(move |at| (node, at))) {
            let moved = |by: f64| {
                let mut input = input.clone();
                input[node][at] += by;
                result(layer, &input, &weights)
            };
            let slope = (moved(step) - moved(-step)) / (2.0 * step);
            assert!((slope - found[node][at]).abs() < 1e-7, "{layer:?} {node} {at}");
        }
    }
}
