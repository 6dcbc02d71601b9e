//! The accelerators of HolisticGNN's prototypes inside an SSD, and words of other sizes.
#![allow(clippy::expect_used)]

use ng_ssdsim::{
    Accelerator, BatchRun, Config, Crowd, DATASETS, Dataset, Job, Layer, Model, Placement, Reuse,
};

const LAYERS: [Layer; 3] = [Layer::Gcn, Layer::Gin, Layer::Ngcf];
const TARGETS: u32 = 128;
const FANOUTS: [u32; 3] = [3, 3, 3];

/// Inference on a set in mode `detailed`, with rows of `bits`-bit words.
fn job(config: Config, set: &Dataset, layer: Layer, platform: &str, word_bits: u32) -> Job {
    let columns = u64::from(set.columns);
    Job {
        platform: platform.to_owned(),
        config,
        placement: Placement::Striped,
        feature_bytes: set.columns * word_bits / 8,
        mean_degree: set.mean_degree(),
        model: Model { columns, hidden: 128, outputs: 10, backward: false, layer },
        crowd: Crowd::default(),
        reuse: Reuse::default(),
    }
}

fn batch(set: &Dataset, job: &Job) -> BatchRun {
    let trace = set.trace(1, TARGETS, &FANOUTS, 1);
    job.run(&trace).expect("a run").batches.remove(0)
}

fn on(name: &str, set: &Dataset, layer: Layer, platform: &str) -> BatchRun {
    let (_, make) = Accelerator::PUBLISHED
        .into_iter()
        .find(|(known, _)| *known == name)
        .expect("an accelerator");
    let config = Config { accelerator: make(), ..Config::detailed() };
    batch(set, &job(config, set, layer, platform, 16))
}

/// The share of products in the accelerator's time.
fn gemm_share(batch: &BatchRun) -> f64 {
    batch.computing.products as f64 / batch.computing.total() as f64
}

fn targets_per_s(batch: &BatchRun) -> f64 {
    batch.targets as f64 / (batch.interval as f64 * 1e-12)
}

#[test]
fn a_vector_unit_beside_an_array_is_quicker_than_either_alone() {
    for set in DATASETS {
        for layer in LAYERS {
            let all = ["octa", "lsap", "hetero"].map(|name| on(name, &set, layer, "BG-2"));
            let [octa, lsap, hetero] = all.each_ref().map(|batch| batch.shares.compute);
            assert!(hetero < octa && hetero < lsap, "{} {layer:?}: {all:?}", set.name);
            // Arrays alone wait for what is no product, cores for products.
            let [octa, lsap, hetero] = all.each_ref().map(gemm_share);
            assert!(lsap < 0.5 && octa > 0.5 && lsap < hetero && hetero < 1.0, "{}", set.name);
        }
    }
}

#[test]
fn no_accelerator_is_quicker_than_its_units_and_its_memory() {
    for (name, make) in Accelerator::PUBLISHED {
        let array = make();
        let cycle = 1e12 / array.hertz;
        for set in DATASETS {
            let batch = on(name, &set, Layer::Gcn, "BG-2");
            let trace = set.trace(1, TARGETS, &FANOUTS, 1);
            let hops = [0u8, 1, 2, 3].map(|hop| trace.hop.iter().filter(|h| **h == hop).count());
            let nodes = (hops[0] + hops[1] + hops[2]) as f64;
            let columns = f64::from(set.columns);
            // One multiplication with its addition an element and cycle, in the first layer alone.
            let elements = f64::from(array.rows * array.columns);
            assert!(batch.computing.products as f64 > cycle * nodes * columns * 128.0 / elements);
            // Each neighbour's row crosses the interface once, and each is waited for.
            let neighbours = (hops[1] + hops[2] + hops[3]) as f64;
            let moved = cycle * neighbours * columns / f64::from(array.words_per_cycle);
            let waits = neighbours * array.gather_ns * 1e3 / f64::from(array.gathers_in_flight);
            assert!(batch.computing.rest as f64 > moved.max(waits), "{name} on {}", set.name);
        }
    }
}

#[test]
fn the_device_is_as_fast_as_the_slower_of_its_flash_and_its_accelerator() {
    for set in DATASETS {
        for name in ["octa", "lsap", "hetero"] {
            for platform in ["BG-1", "BG-2"] {
                let batch = on(name, &set, Layer::Ngcf, platform);
                assert_eq!(batch.computing.total(), batch.shares.compute);
                assert_eq!(batch.interval, batch.preparation.max(batch.shares.compute));
                let most = f64::from(TARGETS) / (batch.shares.compute as f64 * 1e-12);
                assert!(targets_per_s(&batch) <= most * (1.0 + 1e-9));
            }
        }
    }
}

#[test]
fn training_takes_an_accelerator_longer_than_inference() {
    let set = Dataset::by_name("amazon").expect("it is there");
    for layer in [Layer::Sage, Layer::Gcn, Layer::Gin, Layer::Ngcf] {
        let mut job = job(Config::detailed(), &set, layer, "BG-2", 16);
        let inference = batch(&set, &job).computing;
        job.model.backward = true;
        let training = batch(&set, &job).computing;
        assert!(training.products > inference.products, "{layer:?}");
        let has_gradients_of_sums = layer != Layer::Sage;
        assert_eq!(training.rest > inference.rest, has_gradients_of_sums, "{layer:?}");
    }
}

/// GCN on a platform with words of `bits` bits, both in flash and in arithmetic.
fn with_words(set: &Dataset, platform: &str, word_bits: u32) -> BatchRun {
    let mut config = Config::detailed();
    // GLIST's flash.
    (config.flash.channels, config.flash.page_bytes) = (8, 16384);
    (config.accelerator.word_bits, config.discrete.word_bits) = (word_bits, word_bits);
    batch(set, &job(config, set, Layer::Gcn, platform, word_bits))
}

#[test]
fn shorter_words_cost_fewer_joules_and_no_more_time() {
    for set in DATASETS {
        for platform in ["GList", "BG-2"] {
            let [short, usual, long] = [8, 16, 32].map(|bits| with_words(&set, platform, bits));
            let joules = [&short, &usual, &long].map(|batch| batch.joules.total());
            assert!(joules[0] < joules[1] && joules[1] < joules[2], "{} {joules:?}", set.name);
            // The same operations, and as many accesses to the memory as there are bytes.
            let sums = |one: &BatchRun| one.joules.arithmetic;
            let ratios = (sums(&short) / sums(&usual), sums(&long) / sums(&usual));
            assert!((0.03 / 0.4..0.2 / 1.1).contains(&ratios.0), "{ratios:?}");
            assert!((0.9 / 0.4..3.7 / 1.1).contains(&ratios.1), "{ratios:?}");
            let compute = [&short, &usual, &long].map(|batch| batch.shares.compute);
            assert!(compute[0] <= compute[1] && compute[1] <= compute[2], "{compute:?}");
        }
    }
}

#[test]
fn rows_of_shorter_words_cross_the_link_in_fewer_bytes() {
    // On GLIST the rows of the last hop go to the host, behind pages of lists.
    let set = Dataset::by_name("reddit").expect("it is there");
    let [short, usual] = [8, 16].map(|bits| with_words(&set, "GList", bits));
    assert!(short.shares.pcie < usual.shares.pcie);
    assert!(short.joules.pcie < usual.joules.pcie);
    // Both read as many pages: a row is less than one in either.
    assert!(short.outcome.issued <= usual.outcome.issued);
}

#[test]
fn a_device_that_was_written_down_before_words_had_sizes_is_read_as_it_was() {
    let config = Config::detailed();
    let mut before = serde_json::to_value(&config).expect("JSON");
    for group in ["accelerator", "discrete"] {
        let constants = before[group].as_object_mut().expect("constants");
        for new in ["word_bits", "gather_ns", "gathers_in_flight", "sums_on_array"] {
            constants.remove(new).expect("it was there");
        }
    }
    assert_eq!(serde_json::from_value::<Config>(before).expect("a device"), config);
    // Nothing is waited for, and words have 16 bits.
    assert_eq!((config.accelerator.gathers_in_flight, config.discrete.word_bits), (0, 16));
}

#[test]
fn published_accelerators_can_be() {
    for (name, make) in Accelerator::PUBLISHED {
        for base in [Config::paper(), Config::detailed()] {
            let config = Config { accelerator: make(), ..base };
            assert_eq!(config.check(), Ok(()), "{name}");
        }
        let array = make();
        assert_eq!((array.hertz, array.word_bits), (730e6, 16));
    }
    let [octa, lsap, hetero] = Accelerator::PUBLISHED.map(|(_, make)| make());
    assert_eq!(octa.rows * octa.columns, 8);
    assert_eq!(hetero.rows * hetero.columns, 64);
    assert!(lsap.rows * lsap.columns > hetero.rows * hetero.columns);
    assert_eq!(hetero.scratchpad_bytes, 128 << 10);
}
