//! A store holds a topology once reading lists one by one has cost what reading all of it would,
//! and lets go of it for a batch that needs the memory. Batches are the same.

use crate::common::one_type::{self, Edges, Rows, number, open, skewed_list};
use ng_sample::{Fanouts, Jobs, MiniBatch, Pipeline, SampleSpec, Sampler, Way};
use ng_store::{Owner, Store, TensorRef};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

const NODES: u64 = 20_000;
const NODE: NodeTypeId = NodeTypeId(0);
const TO: EdgeTypeId = EdgeTypeId(0);
const BATCHES: u64 = 60;

fn build() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("temporary directory");
    let tensors = [Rows::new("x", Dtype::F32, &[16])];
    one_type::build(dir.path(), NODES, Edges::Nothing, &skewed_list(NODES), &tensors);
    dir
}

fn sampler(store: &Store) -> Sampler {
    let spec = SampleSpec::uniform(Fanouts::uniform(&[6, 4], 1).expect("fanouts"), 11);
    let tensor = TensorRef { owner: Owner::Node(NODE), index: 0 };
    Sampler::new(store.snapshot(), spec, vec![tensor]).expect("sampler")
}

fn seeds(batch: u64) -> Vec<u64> {
    (0..50).map(|i| number(5, batch * 50 + i) % NODES).collect()
}

fn sample(sampler: &Sampler, batch: u64) -> MiniBatch {
    sampler.sample(&[(NODE, &seeds(batch))], batch).expect("batch")
}

#[test]
fn a_topology_is_held_once_reading_lists_has_cost_as_much_and_batches_are_the_same() {
    let dir = build();
    let store = open(dir.path(), 256 << 20);
    let snapshot = store.snapshot();
    let resident = snapshot.resident_bytes(TO);
    let in_memory = sampler(&store).with_topology_that_fits().expect("fits");
    let by_itself = sampler(&store);
    let mut lists = 0;
    for batch in 0..BATCHES {
        let is_due = lists * 4096 >= resident;
        assert_eq!(snapshot.held_topology(TO).is_some(), is_due, "batch {batch}, {lists} lists");
        let made = sample(&by_itself, batch);
        assert!(made == sample(&in_memory, batch), "batch {batch}");
        let expanded: usize = made.nodes[0].per_hop.iter().take(2).sum();
        lists += if is_due { 0 } else { expanded as u64 };
    }
    assert!(snapshot.held_topology(TO).is_some());
    let way = Way::Each { prefetch: 4, threads: 3 };
    let all = (0..BATCHES).flat_map(seeds).collect();
    let stream = Pipeline::new(sampler(&store), Jobs::once(NODE, all, 50), way).expect("starts");
    for (batch, made) in (0..).zip(stream) {
        assert!(made.expect("batch") == sample(&in_memory, batch), "batch {batch}");
    }
}

#[test]
fn what_is_held_goes_when_a_batch_needs_the_memory_and_comes_again() {
    let dir = build();
    let store = open(dir.path(), 64 << 20);
    let snapshot = store.snapshot();
    let sampler = sampler(&store);
    for round in 0..2 {
        let is_held = |batch: &u64| {
            drop(sample(&sampler, *batch));
            snapshot.held_topology(TO).is_some()
        };
        assert!((0..BATCHES).find(is_held).is_some(), "round {round}");
        let free = snapshot.free_beside_blocks(0);
        let wanted = snapshot.reserve(free).expect("what is held counts as free");
        assert!(snapshot.held_topology(TO).is_none());
        drop(wanted);
    }
}

#[test]
fn a_topology_that_passes_its_share_of_the_budget_is_never_held() {
    let dir = build();
    let store = open(dir.path(), 16 << 20);
    let snapshot = store.snapshot();
    let share = store.budget().share(ng_types::MemoryUser::Topology);
    let (resident, sampler) = (snapshot.resident_bytes(TO), sampler(&store));
    (0..BATCHES).for_each(|batch| drop(sample(&sampler, batch)));
    assert_eq!(snapshot.held_topology(TO).is_some(), resident <= share, "{resident} of {share}");
}
