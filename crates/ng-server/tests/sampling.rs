//! Mini-batches from outside: those that the loader makes in this process.
#![allow(clippy::expect_used)]

mod help;

use std::sync::Arc;
use std::time::Duration;

use help::calls::{calls, until};
use help::{folder, started};
use ng_rpc::connect::Channel;
use ng_rpc::v1::sampling_service_client::SamplingServiceClient;
use ng_rpc::{Code, Status, problem_told, v1};
use ng_sample::{Fanouts, Inputs, Loader, MiniBatch, SampleSpec, Sampler, SeedPlan, Settings};
use ng_store::{OpenOptions, Owner, Store};
use ng_types::NodeTypeId;
use tokio::runtime::Runtime;

type Client = SamplingServiceClient<Channel>;

fn request() -> v1::SampleRequest {
    v1::SampleRequest {
        graph: "small".into(),
        fanouts: vec![5, 3],
        batch_size: 64,
        seed: 11,
        epoch: 2,
        shuffle: true,
        tensors: vec!["x".into()],
        ..v1::SampleRequest::default()
    }
}

async fn all(
    client: &Client,
    request: v1::SampleRequest,
) -> Result<Vec<v1::SampleResponse>, Status> {
    let client = client.clone().max_decoding_message_size(64 << 20);
    let mut stream = { client }.sample(request).await?.into_inner();
    let mut batches = Vec::new();
    while let Some(batch) = stream.message().await? {
        batches.push(batch);
    }
    Ok(batches)
}

/// The batches of the same epoch that a loader makes in this process.
fn wanted(store: &Store, ids: Option<Vec<u64>>, drop_last: bool) -> Vec<MiniBatch> {
    let snapshot = store.snapshot();
    let catalog = snapshot.catalog();
    let fanouts = Fanouts::uniform(&[5, 3], catalog.edge_types.len()).expect("fanouts");
    let node = NodeTypeId(0);
    let x = catalog.find_tensor(Owner::Node(node), "x").expect("x");
    let spec = SampleSpec::uniform(fanouts, 11);
    let sampler = Sampler::new(Arc::clone(&snapshot), spec, vec![x]).expect("a sampler");
    let num_seeds = ids.as_ref().map_or(catalog.node_types[0].num_nodes, |ids| ids.len() as u64);
    let inputs = match ids {
        Some(ids) => Inputs::listed(node, ids),
        None => Inputs::live(node, &[]),
    };
    let plan = SeedPlan { shuffle: true, seed: 11, drop_last, ..SeedPlan::in_order(num_seeds, 64) };
    let loader = Loader::new(sampler, Arc::new(inputs), plan, Settings::default(), None, true);
    let mut run = loader.expect("a loader").run(2, 0);
    let mut batches = Vec::new();
    while let Some(batch) = run.next_within(Duration::from_secs(20)).expect("in time") {
        batches.push(batch.expect("a batch"));
    }
    batches
}

fn assert_same(given: &[v1::SampleResponse], wanted: &[MiniBatch]) {
    assert_eq!(given.len(), wanted.len());
    let total = wanted.len() as u64;
    for (number, (given, wanted)) in given.iter().zip(wanted).enumerate() {
        assert_eq!(given.batch, number as u64);
        assert_eq!(given.num_batches, total);
        assert_eq!(given.num_seeds, wanted.num_seeds() as u64);
        let (nodes, edges) = (&given.nodes[0], &given.edges[0]);
        let signed = |all: &[u64]| all.iter().map(|one| *one as i64).collect::<Vec<_>>();
        let wide = |all: &[u32]| all.iter().map(|one| i64::from(*one)).collect::<Vec<_>>();
        let counts = |all: &[usize]| all.iter().map(|one| *one as u64).collect::<Vec<_>>();
        assert_eq!(signed(&nodes.ids), wanted.nodes[0].ids);
        assert_eq!(nodes.per_hop, counts(&wanted.nodes[0].per_hop));
        assert_eq!(wide(&edges.sources), wanted.edges[0].rows);
        assert_eq!(wide(&edges.destinations), wanted.edges[0].cols);
        assert_eq!(edges.per_hop, counts(&wanted.edges[0].per_hop));
        assert_eq!(edges.edge_type, "node,to,node");
        let x = &nodes.tensors["x"];
        assert_eq!(x.shape, [nodes.ids.len() as u64, 256]);
        assert_eq!(&x.data[..], wanted.columns[0].bytes.as_slice());
    }
}

#[test]
fn batches_are_those_of_the_loader_for_the_same_seed_and_epoch() {
    let folder = folder(500);
    let copy = tempfile::tempdir().expect("folder");
    help::common::build(copy.path(), 500, 7);
    let store = Store::open(copy.path(), &OpenOptions::default()).expect("a store");
    let serving = started(folder.path(), |config| config);
    let (runtime, channel) = calls(&serving, 1);
    let client = SamplingServiceClient::new(channel);
    let run = |request| runtime.block_on(all(&client, request));

    let given = run(request()).expect("batches");
    assert_eq!(given.len(), 8);
    assert_same(&given, &wanted(&store, None, false));
    let snapshot = given[0].snapshot.expect("a snapshot");
    assert_eq!(snapshot.fingerprint, store.snapshot().fingerprint());
    // A trainer goes on where it was interrupted.
    let rest = v1::SampleRequest { first_batch: 6, ..request() };
    assert_eq!(run(rest).expect("batches"), given[6..]);
    let ids: Vec<u64> = (100..300).rev().collect();
    let seeds = Some(v1::Nodes { ids: ids.clone(), node_type: "node".into() });
    let listed = v1::SampleRequest { seeds, drop_last: true, ..request() };
    assert_same(&run(listed).expect("batches"), &wanted(&store, Some(ids), true));

    let bad = |change: fn(&mut v1::SampleRequest)| {
        let mut request = request();
        change(&mut request);
        run(request).expect_err("refused")
    };
    let out = bad(|it| it.seeds = Some(v1::Nodes { ids: vec![1, 500], ..v1::Nodes::default() }));
    assert_eq!((out.code(), problem_told(&out).field), (Code::OutOfRange, "seeds.ids".to_owned()));
    assert_eq!(bad(|it| it.batch_size = 0).code(), Code::InvalidArgument);
    assert_eq!(bad(|it| it.fanouts = vec![-2]).code(), Code::InvalidArgument);
    assert_eq!(bad(|it| it.tensors = vec!["z".into()]).code(), Code::NotFound);
    assert_eq!(bad(|it| it.split = "train".into()).code(), Code::NotFound);
    assert_eq!(bad(|it| it.at_snapshot = Some(99)).code(), Code::NotFound);
}

#[test]
fn slow_trainers_hold_a_few_batches_and_those_that_leave_none() {
    let folder = folder(500);
    let serving = started(folder.path(), |config| config);
    let (runtime, channel): (Runtime, Channel) = calls(&serving, 0);
    let client = SamplingServiceClient::new(channel);
    // None of them is read, so each stops when what waits for it is full.
    let long = || v1::SampleRequest { batch_size: 1, ..request() };
    let open = || runtime.block_on({ client.clone() }.sample(long()));
    let streams: Vec<_> = (0..8).map(|_| open().expect("a stream")).collect();
    let refused = open().expect_err("over the limit");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(problem_told(&refused).reason, "STREAMS_FULL");
    drop(streams);
    until(|| open().is_ok());
}
