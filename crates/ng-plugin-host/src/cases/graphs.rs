//! Cases of operations on edges.

use ng_infer::dfg::{Binary, Constant, Op, Reduction};

use super::case::{Case, EMPTY, MISFIT, ODD, ORDINARY};
use super::draws::{f32s, given, indices, list, number, positive};

/// How many nodes, edges and columns there are. Some nodes have no edge.
const SIZES: [(&str, usize, usize, usize); 8] = [
    (ORDINARY, 12, 40, 16),
    (ORDINARY, 50, 300, 64),
    (ODD, 7, 23, 3),
    (ODD, 1, 4, 1),
    (ODD, 9, 1, 5),
    (EMPTY, 5, 0, 4),
    (EMPTY, 0, 0, 4),
    (EMPTY, 3, 5, 0),
];

fn each(of: impl Fn(&'static str, usize, usize, usize) -> Vec<Case>) -> Vec<Case> {
    SIZES.iter().flat_map(|(what, nodes, edges, width)| of(what, *nodes, *edges, *width)).collect()
}

/// Edges, one of which leads from a node to itself where there are some.
fn edges_of(nodes: usize, edges: usize) -> Constant {
    indices(&[2, edges], nodes as u64)
}

pub(super) fn scatter(how: Reduction) -> Vec<Case> {
    let op = Op::Scatter(how);
    let mut all = each(|what, nodes, edges, width| {
        let index = indices(&[edges], nodes as u64);
        let inputs = [f32s(&[edges, width]), index, number(nodes as i64)];
        vec![Case::new(what, op.clone(), inputs)]
    });
    all.push(Case::new(ODD, op.clone(), [f32s(&[6]), indices(&[6], 4), number(4)]));
    all.push(Case::new(ODD, op.clone(), [f32s(&[6, 2, 3]), indices(&[6], 4), number(4)]));
    for wrong in [4, -1] {
        let inputs = [f32s(&[2, 3]), list(&[0, wrong]), number(4)];
        all.push(Case::new(MISFIT, op.clone(), inputs));
    }
    all
}

pub(super) fn spmm(how: Reduction) -> Vec<Case> {
    let op = Op::Spmm(how);
    let mut all = each(|what, nodes, edges, width| {
        let (pairs, rows) = (edges_of(nodes, edges), f32s(&[nodes, width]));
        let weighted = [pairs.clone(), rows.clone(), f32s(&[edges])];
        vec![Case::new(what, op.clone(), [pairs, rows]), Case::new(what, op.clone(), weighted)]
    });
    for wrong in [[0, 4, 1, 1], [0, 1, 1, 4], [-1, 1, 1, 1], [0, 1, 1, i64::MIN]] {
        all.push(Case::new(MISFIT, op.clone(), [given(&[2, 2], &wrong), f32s(&[4, 3])]));
    }
    all
}

/// Lists of `nodes` destinations with `edges` sources in all.
fn lists(nodes: usize, edges: usize) -> (Constant, Constant) {
    // The first list is empty where there are several, and the last one takes what is left.
    let offset =
        |list: usize| if list == nodes { edges } else { edges * list.saturating_sub(1) / nodes };
    let offsets: Vec<i64> = (0..=nodes).map(|list| offset(list) as i64).collect();
    (list(&offsets), indices(&[edges], nodes as u64))
}

pub(super) fn aggregate(how: Reduction) -> Vec<Case> {
    let op = Op::Aggregate(how);
    let mut all = each(|what, nodes, edges, width| {
        let ((offsets, sources), rows) = (lists(nodes, edges), f32s(&[nodes, width]));
        let weighted = [rows.clone(), offsets.clone(), sources.clone(), f32s(&[edges])];
        vec![
            Case::new(what, op.clone(), [rows, offsets, sources]),
            Case::new(what, op.clone(), weighted),
        ]
    });
    let (offsets, sources) = lists(6, 20);
    let heads = [f32s(&[6, 2, 3]), offsets, sources, f32s(&[20, 2, 1])];
    all.push(Case::new(ODD, op.clone(), heads));
    for (offsets, sources) in [([0, 1, 2], [0, 3]), ([0, 2, 1], [0, 1]), ([0, 1, 2], [-1, 0])] {
        let inputs = [f32s(&[3, 2]), list(&offsets), list(&sources)];
        all.push(Case::new(MISFIT, op.clone(), inputs));
    }
    all
}

pub(super) fn sddmm(binary: Binary) -> Vec<Case> {
    let op = Op::Sddmm(binary);
    let mut all = each(|what, nodes, edges, width| {
        let index = || indices(&[edges], nodes as u64);
        let inputs = [positive(&[nodes, width]), positive(&[nodes, width]), index(), index()];
        vec![Case::new(what, op.clone(), inputs)]
    });
    let heads = [positive(&[4, 2, 3]), positive(&[5, 2, 3]), indices(&[7], 4), indices(&[7], 5)];
    all.push(Case::new(ODD, op.clone(), heads));
    for (first, second) in [([0, 4], [0, 0]), ([0, 0], [0, -1])] {
        let rows = || positive(&[4, 3]);
        let inputs = [rows(), rows(), list(&first), list(&second)];
        all.push(Case::new(MISFIT, op.clone(), inputs));
    }
    all
}

/// Those that are alone of their kind.
pub(super) fn alone(name: &str) -> Option<Vec<Case>> {
    let all = match name {
        "EdgeLists" => edge_lists(),
        "EdgeSoftmax" => edge_softmax(),
        "AddSelfLoops" => each(|what, nodes, edges, _| {
            let inputs = [edges_of(nodes, edges), number(nodes as i64)];
            vec![Case::new(what, Op::AddSelfLoops, inputs)]
        }),
        "RemoveSelfLoops" => each(|what, nodes, edges, _| {
            vec![Case::new(what, Op::RemoveSelfLoops, [edges_of(nodes, edges)])]
        }),
        "RemoveSelfLoopsAttr" => each(|what, nodes, edges, width| {
            let inputs = [edges_of(nodes, edges), f32s(&[edges, width])];
            vec![Case::new(what, Op::RemoveSelfLoopsAttr, inputs)]
        }),
        "SelfLoopAttr" => each(|what, nodes, edges, width| {
            let rows = [f32s(&[edges, width]), f32s(&[nodes, width])];
            let [rows, fill] = rows;
            vec![Case::new(what, Op::SelfLoopAttr, [edges_of(nodes, edges), rows, fill])]
        }),
        "GcnNorm" => gcn_norm(),
        "Degree" => degree(),
        _ => return None,
    };
    Some(all)
}

fn edge_lists() -> Vec<Case> {
    let mut all = each(|what, nodes, edges, _| {
        let index = || indices(&[edges], nodes as u64);
        vec![Case::new(what, Op::EdgeLists, [index(), index(), number(nodes as i64)])]
    });
    let wrong = [list(&[0, 1]), list(&[0, 4]), number(4)];
    all.push(Case::new(MISFIT, Op::EdgeLists, wrong));
    all
}

fn edge_softmax() -> Vec<Case> {
    let mut all = each(|what, nodes, edges, width| {
        let index = || indices(&[edges], nodes as u64);
        let count = || number(nodes as i64);
        vec![
            Case::new(what, Op::EdgeSoftmax, [f32s(&[edges]), index(), count()]),
            Case::new(what, Op::EdgeSoftmax, [f32s(&[edges, width]), index(), count()]),
        ]
    });
    let wrong = [f32s(&[2]), list(&[0, 4]), number(4)];
    all.push(Case::new(MISFIT, Op::EdgeSoftmax, wrong));
    all
}

fn gcn_norm() -> Vec<Case> {
    let mut all = each(|what, nodes, edges, _| {
        let inputs = [edges_of(nodes, edges), positive(&[edges]), number(nodes as i64)];
        vec![Case::new(what, Op::GcnNorm, inputs)]
    });
    let wrong = [given(&[2, 1], &[0, 4]), positive(&[1]), number(4)];
    all.push(Case::new(MISFIT, Op::GcnNorm, wrong));
    all
}

fn degree() -> Vec<Case> {
    let mut all = each(|what, nodes, edges, _| {
        let inputs = [indices(&[edges], nodes as u64), number(nodes as i64)];
        vec![Case::new(what, Op::Degree, inputs)]
    });
    all.push(Case::new(MISFIT, Op::Degree, [list(&[0, 4]), number(4)]));
    all
}
