//! Heat, which is computed from passes over the edges, is how often batches have a node.

use std::sync::Arc;

use crate::common::one_type::{self, Edges, number};
use ng_sample::{Batches, Fanouts, SampleSpec, Sampler, heat};
use ng_store::Snapshot;
use ng_types::{NodeTypeId, SeedOrder};

const NODE: NodeTypeId = NodeTypeId(0);
const NODES: u64 = 6_000;
const BATCH: usize = 20;

/// Lists of 0 to 40 neighbours, of which low ids are far more often.
fn list(seed: u32, node: u64) -> Vec<u64> {
    let draw = |at: u64| number(seed, node * 64 + at);
    let degree = draw(0) % 41;
    let skewed = |at: u64| {
        let unit = draw(at) as f64 / u64::MAX as f64;
        ((unit * unit * unit * NODES as f64) as u64).min(NODES - 1)
    };
    let mut list: Vec<u64> = (1..=degree).map(skewed).collect();
    list.sort_unstable();
    list.dedup();
    list
}

fn count(
    snapshot: &Arc<Snapshot>,
    seed: u64,
    fanouts: &[i64],
    range: std::ops::Range<u64>,
) -> Vec<u32> {
    let spec = SampleSpec::uniform(Fanouts::uniform(fanouts, 1).expect("fanouts"), seed);
    let sampler = Sampler::new(Arc::clone(snapshot), spec, Vec::new())
        .expect("sampler")
        .without_held_topologies();
    let mut counts = vec![0; NODES as usize];
    for index in range {
        // Distinct seeds, as a loader takes them.
        let shuffle = SeedOrder::new(NODES, seed, index);
        let seeds: Vec<u64> = (0..BATCH as u64).map(|at| shuffle.at(at)).collect();
        let batch = sampler.sample(&[(NODE, &seeds)], index).expect("batch");
        batch.nodes[0].ids.iter().for_each(|id| counts[*id as usize] += 1);
    }
    counts
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    let (ma, mb) = (mean(a), mean(b));
    let product: f64 = a.iter().zip(b).map(|(a, b)| (a - ma) * (b - mb)).sum();
    let square = |x: &[f64], m: f64| x.iter().map(|v| (v - m).powi(2)).sum::<f64>();
    product / (square(a, ma) * square(b, mb)).sqrt()
}

#[test]
fn heat_is_the_share_of_batches_that_have_a_node() {
    let seed = 20_261_122;
    println!("seed {seed}");
    let dir = tempfile::tempdir().expect("temporary directory");
    one_type::build(dir.path(), NODES, Edges::Nothing, &|node| list(seed, node), &[]);
    let snapshot = one_type::open(dir.path(), 64 << 20).snapshot();
    let batches = 4_000;
    for fanouts in [[10, 5], [3, 8], [-1, 2]] {
        let of = Batches {
            node_type: NODE,
            seeds: None,
            batch_size: BATCH,
            fanouts: Fanouts::uniform(&fanouts, 1).expect("fanouts"),
        };
        let found = heat(&snapshot, &of, &mut |_, _, _| true).expect("reads");
        let heat: Vec<f64> = found.by_type[0].iter().map(|p| f64::from(*p)).collect();
        let counts = count(&snapshot, u64::from(seed), &fanouts, 0..batches);
        let seen: Vec<f64> = counts.iter().map(|n| f64::from(*n) / batches as f64).collect();
        let correlation = correlation(&heat, &seen);
        let (sum, expected) = (heat.iter().sum::<f64>(), seen.iter().sum::<f64>());
        let over = heat.iter().zip(&seen).filter(|(p, f)| {
            let deviation = (*p * (1.0 - *p) / batches as f64).sqrt();
            (*p - *f).abs() > 5.0 * deviation + 0.05 * *p
        });
        let over = over.count();
        println!("{fanouts:?}: r {correlation:.5}, rows {sum:.1} {expected:.1}, {over} off");
        assert!(correlation > 0.99, "{correlation}");
        assert!((sum / expected - 1.0).abs() < 0.03, "{sum} {expected}");
        assert!(over as u64 <= NODES / 200, "{over} of {NODES} nodes are off");
        // As many rows as half a batch has: what is held by heat is wanted as often as what is held
        // because 127 batches wanted it.
        let hottest = |key: &dyn Fn(usize) -> f64| {
            let mut ids: Vec<usize> = (0..NODES as usize).collect();
            ids.sort_by(|a, b| key(*b).total_cmp(&key(*a)).then(a.cmp(b)));
            ids.truncate(expected as usize / 2);
            ids
        };
        let sampled = count(&snapshot, u64::from(seed), &fanouts, batches..batches + 127);
        let caught = |ids: &[usize]| ids.iter().map(|id| seen[*id]).sum::<f64>() / expected;
        let by_heat = caught(&hottest(&|id| heat[id]));
        let by_count = caught(&hottest(&|id| f64::from(sampled[id])));
        println!("  hits of the hottest {by_heat:.4}, of the most seen {by_count:.4}");
        assert!(by_heat > by_count - 0.002, "{by_heat} {by_count}");
    }
}
