//! Operations by name, with random inputs of ordinary and of odd shapes.

use ng_infer::dfg::{Binary, Constant, Elements, Op, Reduction, Unary};
use ng_testing::Random;

use super::floats;

type Case = (Op, Vec<Constant>);

/// Tensors from one source of randomness.
struct Maker<'a> {
    random: &'a mut Random,
}

impl Maker<'_> {
    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound.max(1) as u64) as usize
    }

    fn floats(&mut self, dims: &[usize]) -> Constant {
        floats(self.random, dims)
    }

    /// With some NaNs, infinities and zeros.
    fn odd(&mut self, dims: &[usize]) -> Constant {
        let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e30, -90.0, 80.0];
        let plain = floats(self.random, dims);
        let Elements::F32(mut all) = plain.elements().clone() else { return plain };
        for x in &mut all {
            if self.below(7) == 0 {
                *x = odd[self.below(odd.len())];
            }
        }
        constant(dims, Elements::F32(all))
    }

    fn i64s(&mut self, dims: &[usize], bound: usize) -> Constant {
        let all = (0..dims.iter().product()).map(|_| self.below(bound) as i64).collect();
        constant(dims, Elements::I64(all))
    }

    fn bools(&mut self, dims: &[usize]) -> Constant {
        let all = (0..dims.iter().product()).map(|_| self.below(2) == 1).collect();
        constant(dims, Elements::Bool(all))
    }

    /// An index of `len` below `bound`; ascending, or not, or with numbers that are out of range.
    fn index(&mut self, len: usize, bound: usize, kind: Kind) -> Constant {
        let mut all: Vec<i64> = (0..len).map(|_| self.below(bound) as i64).collect();
        match kind {
            Kind::Sorted => all.sort_unstable(),
            Kind::Wrong => {
                for _ in 0..3.min(len) {
                    let place = self.below(len);
                    all[place] = [-1, bound as i64, i64::MIN, i64::MAX][self.below(4)];
                }
            }
            Kind::Random => {}
        }
        constant(&[len], Elements::I64(all))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Sorted,
    Random,
    Wrong,
}

const KINDS: [Kind; 3] = [Kind::Sorted, Kind::Random, Kind::Wrong];

fn constant(dims: &[usize], elements: Elements) -> Constant {
    Constant::new(dims.to_vec(), elements).expect("as many as the shape says")
}

fn number(n: usize) -> Constant {
    constant(&[], Elements::I64(vec![n as i64]))
}

/// Cases of an operation that the device has kernels for.
pub fn cases(name: &str, random: &mut Random) -> Vec<Case> {
    let mut maker = Maker { random };
    let with = |prefix: &str| {
        let rest = name.strip_prefix(prefix)?;
        let is =
            |(_, known): &&(Reduction, &str)| rest == *known || rest == "Prod" && *known == "Mul";
        Reduction::ALL.iter().find(is).map(|(how, _)| *how)
    };
    if let Some((unary, _)) = Unary::ALL.iter().find(|(_, known)| *known == name) {
        return elementwise(&mut maker, &Op::Unary(*unary));
    }
    if let Some((binary, _)) = Binary::ALL.iter().find(|(_, known)| *known == name) {
        return pairs(&mut maker, *binary);
    }
    if let Some(how) = with("Reduce") {
        return reductions(&mut maker, how);
    }
    if let Some(how) = with("Scatter") {
        return scatters(&mut maker, how);
    }
    if let Some(how) = with("SpMM_") {
        return spmms(&mut maker, how);
    }
    if let Some(how) = with("Aggregate") {
        return aggregations(&mut maker, how);
    }
    if let Some(rest) = name.strip_prefix("SDDMM_") {
        let found = Binary::ALL.iter().find(|(_, known)| *known == rest);
        return sddmms(&mut maker, found.expect("a pair").0);
    }
    alone(name, &mut maker)
}

fn alone(name: &str, maker: &mut Maker<'_>) -> Vec<Case> {
    match name {
        "Elu" => elementwise(maker, &Op::Elu { alpha: 0.7 }),
        "LeakyRelu" => elementwise(maker, &Op::LeakyRelu { alpha: 0.2 }),
        "Softmax" => softmaxes(maker, |axis| Op::Softmax { axis }),
        "LogSoftmax" => softmaxes(maker, |axis| Op::LogSoftmax { axis }),
        "MatMul" => products(maker),
        "GEMM" => gemms(maker),
        "Linear" => linears(maker),
        "LinearSum" => linear_sums(maker),
        "QuantisedLinear" => steps(maker),
        "SegmentMatmul" => segments(maker),
        "Gather" => gathers(maker),
        "Concat" => concats(maker),
        "Transpose" => transposes(maker),
        "Slice" => slices(maker),
        "Expand" => expansions(maker),
        "Where" => choices(maker),
        "EdgeLists" => edge_lists(maker),
        "EdgeSoftmax" => edge_softmaxes(maker),
        "GcnNorm" => norms(maker),
        "AddSelfLoops" => {
            let sizes = [(0, 0), (0, 3), (5, 0), (1000, 700)];
            let case = |(edges, nodes): (usize, usize)| {
                (Op::AddSelfLoops, vec![maker.i64s(&[2, edges], nodes), number(nodes)])
            };
            sizes.map(case).into()
        }
        _ => Vec::new(),
    }
}

fn elementwise(maker: &mut Maker<'_>, op: &Op) -> Vec<Case> {
    let mut all = Vec::new();
    for dims in [&[0][..], &[1], &[17], &[3, 0], &[31, 33], &[450, 300]] {
        all.push((op.clone(), vec![maker.floats(dims)]));
        all.push((op.clone(), vec![maker.odd(dims)]));
    }
    if matches!(op, Op::Unary(Unary::Neg | Unary::Abs)) {
        all.push((op.clone(), vec![maker.i64s(&[9], 5)]));
    }
    all
}

/// Shapes that broadcast.
const BROADCAST: [(&[usize], &[usize]); 14] = [
    (&[0, 3], &[3]),
    (&[5, 0], &[1]),
    (&[], &[]),
    (&[1, 1], &[1]),
    (&[17, 5], &[17, 5]),
    (&[17, 5], &[5]),
    (&[17, 5], &[17, 1]),
    (&[4, 1], &[1, 6]),
    (&[7, 1, 5], &[4, 5]),
    (&[3, 4, 1], &[3, 4, 9]),
    (&[2, 1, 3, 1], &[5, 1, 4]),
    (&[450, 300], &[450, 300]),
    (&[300], &[450, 300]),
    (&[450, 300], &[450, 1]),
];

fn pairs(maker: &mut Maker<'_>, binary: Binary) -> Vec<Case> {
    let mut all = Vec::new();
    for (one, other) in BROADCAST {
        all.push((Op::Binary(binary), vec![maker.floats(one), maker.floats(other)]));
        all.push((Op::Binary(binary), vec![maker.odd(other), maker.odd(one)]));
        if binary != Binary::Pow {
            let whole = vec![maker.i64s(one, 3), maker.i64s(other, 3)];
            all.push((Op::Binary(binary), whole));
        }
    }
    if binary == Binary::Equal {
        all.push((Op::Binary(binary), vec![maker.bools(&[9]), maker.bools(&[1])]));
    }
    let squared = constant(&[], Elements::F32(vec![2.0]));
    all.push((Op::Binary(binary), vec![maker.odd(&[40]), squared]));
    all
}

fn choices(maker: &mut Maker<'_>) -> Vec<Case> {
    let mut all = Vec::new();
    for (one, other) in BROADCAST {
        let flags = [&[][..], one, other][maker.below(3)];
        let flags = maker.bools(flags);
        let floats = vec![flags.clone(), maker.odd(one), maker.odd(other)];
        all.push((Op::Where, floats));
        let whole = vec![flags.clone(), maker.i64s(one, 9), maker.i64s(other, 9)];
        all.push((Op::Where, whole));
        all.push((Op::Where, vec![flags, maker.bools(one), maker.bools(other)]));
    }
    all
}

fn expansions(maker: &mut Maker<'_>) -> Vec<Case> {
    let mut all = Vec::new();
    for (one, other) in BROADCAST {
        let wanted: Vec<i64> = other.iter().map(|dim| *dim as i64).collect();
        let wanted = constant(&[wanted.len()], Elements::I64(wanted));
        all.push((Op::Expand, vec![maker.floats(one), wanted.clone()]));
        all.push((Op::Expand, vec![maker.i64s(one, 9), wanted.clone()]));
        all.push((Op::Expand, vec![maker.bools(one), wanted]));
    }
    all
}

fn softmaxes(maker: &mut Maker<'_>, op: impl Fn(i64) -> Op) -> Vec<Case> {
    let mut all = Vec::new();
    for dims in [&[0, 3][..], &[3, 0], &[1], &[5, 17], &[3, 4, 5], &[900, 47]] {
        for axis in [-1, 0] {
            all.push((op(axis), vec![maker.floats(dims)]));
            all.push((op(axis), vec![maker.odd(dims)]));
        }
    }
    all
}

fn reductions(maker: &mut Maker<'_>, how: Reduction) -> Vec<Case> {
    let mut all = Vec::new();
    for keep_dims in [false, true] {
        let op = Op::Reduce { how, keep_dims };
        for dims in [&[0, 3][..], &[3, 0], &[1, 1], &[5, 17], &[17, 5], &[7, 3, 4], &[500, 300]] {
            for axes in [&[0][..], &[-1], &[], &[0, 1]] {
                // The reference adds one by one: after so many its own error is too large.
                if dims[0] == 500 && axes.len() != 1 {
                    continue;
                }
                let axes = constant(&[axes.len()], Elements::I64(axes.to_vec()));
                all.push((op.clone(), vec![maker.floats(dims), axes.clone()]));
                if how != Reduction::Mul {
                    all.push((op.clone(), vec![maker.odd(dims), axes.clone()]));
                }
                all.push((op.clone(), vec![maker.i64s(dims, 2), axes]));
            }
        }
        all.push((op.clone(), vec![maker.floats(&[17, 5])]));
        let wrong = constant(&[1], Elements::I64(vec![2]));
        all.push((op, vec![maker.floats(&[2, 3]), wrong]));
    }
    all
}

/// Rows, inner length and columns of products.
const PRODUCTS: [(usize, usize, usize); 9] = [
    (0, 3, 4),
    (3, 0, 4),
    (3, 4, 0),
    (1, 1, 1),
    (1, 17, 65),
    (17, 5, 47),
    (6, 64, 64),
    (103, 31, 33),
    (350, 130, 120),
];

fn products(maker: &mut Maker<'_>) -> Vec<Case> {
    let mut all = Vec::new();
    for (m, k, n) in PRODUCTS {
        all.push((Op::MatMul, vec![maker.floats(&[m, k]), maker.floats(&[k, n])]));
        all.push((Op::MatMul, vec![maker.odd(&[m, k]), maker.floats(&[k, n])]));
        all.push((Op::MatMul, vec![maker.floats(&[2, m, k]), maker.floats(&[k, n])]));
        all.push((Op::MatMul, vec![maker.floats(&[3, 1, m, k]), maker.floats(&[2, k, n])]));
        all.push((Op::MatMul, vec![maker.floats(&[m, k]), maker.floats(&[2, k, n])]));
    }
    all.push((Op::MatMul, vec![maker.floats(&[2, 3]), maker.floats(&[2, 3])]));
    all
}

fn gemms(maker: &mut Maker<'_>) -> Vec<Case> {
    let mut all = Vec::new();
    for (m, k, n) in PRODUCTS {
        for (trans_a, trans_b) in [(false, false), (false, true), (true, false), (true, true)] {
            let a = maker.floats(&if trans_a { [k, m] } else { [m, k] });
            let b = maker.floats(&if trans_b { [n, k] } else { [k, n] });
            for (alpha, beta) in [(1.0, 1.0), (0.5, 2.0)] {
                let op = Op::Gemm { alpha, beta, trans_a, trans_b };
                all.push((op.clone(), vec![a.clone(), b.clone()]));
                if m > 300 && alpha == 1.0 {
                    // One large product of each kind is enough.
                    continue;
                }
                for added in [&[n][..], &[1, n], &[m, 1], &[m, n], &[], &[1]] {
                    if m > 300 && added != [m, 1] {
                        continue;
                    }
                    all.push((op.clone(), vec![a.clone(), b.clone(), maker.floats(added)]));
                }
            }
        }
    }
    all
}

/// Rows of ordinary and of odd numbers, and rows of zeros, times steps.
fn steps(maker: &mut Maker<'_>) -> Vec<Case> {
    let sizes = [(1, 1, 1), (5, 17, 3), (97, 64, 65), (300, 130, 120), (0, 4, 4), (4, 0, 3)];
    let case = |(m, k, n): (usize, usize, usize)| {
        let all = (0..k * n).map(|_| maker.below(255) as u8 as i8).collect();
        let steps = constant(&[k, n], Elements::I8(all));
        let scales = (0..n).map(|column| 0.001 * column as f32).collect();
        let scales = constant(&[n], Elements::F32(scales));
        let rows = [maker.floats(&[m, k]), maker.odd(&[m, k])];
        let zeros = constant(&[m, k], Elements::F32(vec![0.0; m * k]));
        let bias = maker.floats(&[n]);
        rows.into_iter().chain([zeros]).map(move |rows| {
            (Op::QuantisedLinear, vec![rows, steps.clone(), scales.clone(), bias.clone()])
        })
    };
    sizes.into_iter().flat_map(case).collect()
}

fn linears(maker: &mut Maker<'_>) -> Vec<Case> {
    let mut all = Vec::new();
    for (m, k, n) in PRODUCTS {
        for relu in [false, true] {
            let weight = maker.floats(&[k, n]);
            let op = Op::Linear { relu };
            all.push((op.clone(), vec![maker.floats(&[m, k]), weight.clone()]));
            all.push((op.clone(), vec![maker.odd(&[m, k]), weight.clone()]));
            let rows = maker.floats(&[m, 2, k]);
            all.push((op, vec![rows, weight, maker.floats(&[n])]));
        }
    }
    all
}

fn linear_sums(maker: &mut Maker<'_>) -> Vec<Case> {
    let mut all = Vec::new();
    for (m, k, n) in PRODUCTS {
        for relu in [false, true] {
            let (weight, bias) = (maker.floats(&[k, n]), maker.floats(&[n]));
            let (x, rows) = (maker.floats(&[m, 2, k]), maker.floats(&[m, 2, n]));
            let op = Op::LinearSum { relu };
            all.push((op.clone(), vec![x, weight.clone(), bias.clone(), rows]));
            all.push((op, vec![maker.floats(&[m, k]), weight, bias, maker.odd(&[m, n])]));
        }
    }
    all
}

fn segments(maker: &mut Maker<'_>) -> Vec<Case> {
    let mut all = Vec::new();
    for (m, k, n) in PRODUCTS {
        for kind in KINDS {
            let inputs =
                vec![maker.floats(&[m, k]), maker.index(m, 3, kind), maker.floats(&[3, k, n])];
            all.push((Op::SegmentMatmul, inputs));
        }
    }
    all
}

fn gathers(maker: &mut Maker<'_>) -> Vec<Case> {
    let mut all = Vec::new();
    let op = |axis| Op::Gather { axis };
    for dims in [&[1][..], &[17], &[5, 0], &[9, 1], &[300, 47], &[1, 40, 3]] {
        for kind in KINDS {
            let axis = i64::from(dims[0] == 1 && dims.len() > 1);
            let index = maker.index(29, dims[axis as usize], kind);
            all.push((op(axis), vec![maker.floats(dims), index.clone()]));
            all.push((op(axis), vec![maker.i64s(dims, 9), index.clone()]));
            all.push((op(axis), vec![maker.bools(dims), index]));
        }
    }
    let ends = constant(&[1, 2], Elements::I64(vec![-1, -300]));
    all.push((op(0), vec![maker.floats(&[300, 500]), ends]));
    let many = maker.index(3000, 300, Kind::Random);
    all.push((op(0), vec![maker.floats(&[300, 50]), many]));
    let many = maker.index(7, 5, Kind::Random);
    all.push((op(1), vec![maker.floats(&[3, 5]), many]));
    all
}

fn concats(maker: &mut Maker<'_>) -> Vec<Case> {
    let mut all = Vec::new();
    for axis in [0, 1, -1] {
        for len in [0, 1, 17, 400] {
            let dims = |own: usize| if axis == 0 { [own, len] } else { [len, own] };
            let parts = [3, 0, 400].map(|own| maker.floats(&dims(own)));
            all.push((Op::Concat { axis }, parts.into()));
            let parts = [3, 2].map(|own| maker.i64s(&dims(own), 9));
            all.push((Op::Concat { axis }, parts.into()));
        }
    }
    all
}

fn transposes(maker: &mut Maker<'_>) -> Vec<Case> {
    let mut all = Vec::new();
    let op = |perm: Option<&[usize]>| Op::Transpose { perm: perm.map(<[usize]>::to_vec) };
    for dims in [[0, 3], [3, 0], [1, 5], [17, 33], [350, 200]] {
        all.push((op(None), vec![maker.floats(&dims)]));
        all.push((op(Some(&[1, 0])), vec![maker.i64s(&dims, 9)]));
        all.push((op(Some(&[0, 1])), vec![maker.bools(&dims)]));
    }
    for perm in [[1, 0, 2], [0, 2, 1], [2, 0, 1], [2, 1, 0], [0, 1, 2]] {
        all.push((op(Some(&perm)), vec![maker.floats(&[3, 4, 5])]));
        all.push((op(Some(&perm)), vec![maker.i64s(&[50, 60, 70], 9)]));
        all.push((op(None), vec![maker.bools(&[3, 0, 5])]));
    }
    all
}

fn slices(maker: &mut Maker<'_>) -> Vec<Case> {
    let mut all = Vec::new();
    let list = |all: &[i64]| constant(&[all.len()], Elements::I64(all.to_vec()));
    for dims in [&[9][..], &[0, 3], &[7, 5], &[6, 1, 8], &[400, 30, 20]] {
        for (starts, ends, axes, steps) in [
            ([0, 1], [3, i64::MAX], [0, -1], [1, 1]),
            ([-1, -2], [i64::MIN, 0], [0, -1], [-1, -3]),
            ([2, 5], [2, 1], [-1, 0], [2, 1]),
            ([1, 0], [-1, 4], [-1, 0], [1, 2]),
            ([2, 4], [7, 9], [0, 0], [1, i64::MAX]),
        ] {
            let count = dims.len().min(2);
            let lists = [starts, ends, axes, steps].map(|all| list(&all[..count]));
            for given in [3, 4, 5] {
                let inputs = [maker.floats(dims)].into_iter().chain(lists.clone());
                all.push((Op::Slice, inputs.take(given).collect()));
            }
            let inputs = [maker.i64s(dims, 9)].into_iter().chain(lists);
            all.push((Op::Slice, inputs.collect()));
        }
    }
    all
}

/// Messages, nodes and columns.
const MESSAGES: [(usize, usize, usize); 8] = [
    (0, 0, 3),
    (0, 4, 3),
    (5, 3, 0),
    (1, 1, 1),
    (40, 7, 17),
    (40, 90, 1),
    (300, 20, 64),
    (2500, 300, 70),
];

fn scatters(maker: &mut Maker<'_>, how: Reduction) -> Vec<Case> {
    let mut all = Vec::new();
    for (edges, nodes, width) in MESSAGES {
        for kind in KINDS {
            let index = maker.index(edges, nodes, kind);
            for rows in [maker.floats(&[edges, width]), maker.odd(&[edges, width, 1])] {
                all.push((Op::Scatter(how), vec![rows, index.clone(), number(nodes)]));
            }
        }
    }
    all
}

/// Sources and destinations as one tensor.
fn edges(sources: &Constant, destinations: &Constant) -> Constant {
    let (Elements::I64(from), Elements::I64(to)) = (sources.elements(), destinations.elements())
    else {
        panic!("an index is of i64");
    };
    constant(&[2, from.len()], Elements::I64([from.as_slice(), to].concat()))
}

fn spmms(maker: &mut Maker<'_>, how: Reduction) -> Vec<Case> {
    let mut all = Vec::new();
    for (count, nodes, width) in MESSAGES {
        for kind in KINDS {
            for of_sources in [Kind::Random, kind] {
                let sources = maker.index(count, nodes, of_sources);
                let edges = edges(&sources, &maker.index(count, nodes, kind));
                let rows = maker.odd(&[nodes, width]);
                all.push((Op::Spmm(how), vec![edges.clone(), rows]));
                let rows = maker.floats(&[nodes, width]);
                all.push((Op::Spmm(how), vec![edges, rows, maker.floats(&[count])]));
            }
        }
    }
    all
}

fn aggregations(maker: &mut Maker<'_>, how: Reduction) -> Vec<Case> {
    let mut all = Vec::new();
    for (count, nodes, width) in MESSAGES {
        let lists = nodes + 1;
        for kind in KINDS {
            let ends = maker.index(lists, count + 1, Kind::Sorted);
            let Elements::I64(mut offsets) = ends.elements().clone() else { continue };
            (offsets[0], offsets[lists - 1]) = (0, count as i64);
            let offsets = constant(&[lists], Elements::I64(offsets));
            let sources = maker.index(count, nodes, kind);
            let mut push = |rows, weights| {
                let inputs = vec![rows, offsets.clone(), sources.clone()];
                all.push((Op::Aggregate(how), inputs.into_iter().chain(weights).collect()));
            };
            push(maker.odd(&[nodes, width]), None);
            push(maker.floats(&[nodes, width]), Some(maker.floats(&[count])));
            push(maker.floats(&[nodes, 3, width]), Some(maker.floats(&[count, 3, 1])));
            push(maker.floats(&[nodes, width]), Some(maker.floats(&[count, width])));
        }
        let wrong = constant(&[3], Elements::I64(vec![0, 2, count as i64 + 1]));
        let inputs =
            vec![maker.floats(&[nodes, width]), wrong, maker.index(count, nodes, KINDS[0])];
        all.push((Op::Aggregate(how), inputs));
    }
    all
}

fn sddmms(maker: &mut Maker<'_>, binary: Binary) -> Vec<Case> {
    let mut all = Vec::new();
    for (count, nodes, width) in MESSAGES {
        for (first, second) in [(Kind::Random, Kind::Sorted), (Kind::Wrong, Kind::Wrong)] {
            let inputs = vec![
                maker.odd(&[nodes, width]),
                maker.odd(&[nodes + 2, width]),
                maker.index(count, nodes, first),
                maker.index(count, nodes + 2, second),
            ];
            all.push((Op::Sddmm(binary), inputs));
        }
    }
    all
}

fn edge_lists(maker: &mut Maker<'_>) -> Vec<Case> {
    let mut all = Vec::new();
    for (count, nodes, _) in MESSAGES {
        for kind in KINDS {
            let sources = maker.index(count, 1 << 40, Kind::Random);
            let destinations = maker.index(count, nodes, kind);
            all.push((Op::EdgeLists, vec![sources, destinations, number(nodes)]));
        }
    }
    all
}

fn edge_softmaxes(maker: &mut Maker<'_>) -> Vec<Case> {
    let mut all = Vec::new();
    for (count, nodes, heads) in MESSAGES {
        for kind in KINDS {
            let index = maker.index(count, nodes, kind);
            for logits in [maker.floats(&[count, heads]), maker.odd(&[count, 1, heads])] {
                all.push((Op::EdgeSoftmax, vec![logits, index.clone(), number(nodes)]));
            }
        }
    }
    let negative = constant(&[], Elements::I64(vec![-1]));
    all.push((Op::EdgeSoftmax, vec![maker.floats(&[0]), maker.i64s(&[0], 1), negative]));
    all
}

fn norms(maker: &mut Maker<'_>) -> Vec<Case> {
    let mut all = Vec::new();
    for (count, nodes, _) in MESSAGES.into_iter().chain([(40_000, 900, 1)]) {
        for kind in KINDS {
            let sources = maker.index(count, nodes, kind);
            let edges = edges(&sources, &maker.index(count, nodes, kind));
            for weights in [maker.floats(&[count]), maker.odd(&[count])] {
                all.push((Op::GcnNorm, vec![edges.clone(), weights, number(nodes)]));
            }
        }
    }
    all
}
