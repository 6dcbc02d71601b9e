//! Replayed batches are the very batches that sampling gives, whatever is hot and however rows are
//! stored; damage and other settings are refused by name; nothing half is ever used.

use std::path::Path;
use std::sync::Arc;

use crate::common;
use crate::common::one_type::{self, Edges, Rows, number, open, skewed_list};
use ng_io::BackendChoice;
use ng_sample::{
    ColumnSpec, CompiledError, EpochFile, EpochId, EpochKey, EpochWriter, Fanouts, HotSet, Jobs,
    MiniBatch, Pipeline, SampleError, SampleSpec, Sampler, Settings, Survey, Way,
};
use ng_store::{Owner, SealedError, Store, TensorRef};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

const NODES: u64 = 12_000;
const BATCH: u64 = 50;
const BATCHES: u64 = 20;
const NODE: NodeTypeId = NodeTypeId(0);
const MEMORY: u64 = 44 << 20;

/// Nodes with wide, narrow and tiny rows, edges with ids, times, weights and rows.
fn build(dir: &Path) {
    let scales = (0..128).map(|column| column as f32 / 8.0).collect();
    let tensors = [
        Rows::new("x", Dtype::F32, &[64]),
        Rows { scales, ..Rows::new("steps", Dtype::I8, &[128]) },
        Rows::new("y", Dtype::I64, &[1]),
        Rows { of_edges: true, ..Rows::new("edge_attr", Dtype::F32, &[16]) },
    ];
    one_type::build(dir, NODES, Edges::All, &skewed_list(NODES), &tensors);
}

fn tensors() -> Vec<TensorRef> {
    let node = |index| TensorRef { owner: Owner::Node(NODE), index };
    let edge = TensorRef { owner: Owner::Edge(EdgeTypeId(0)), index: 0 };
    vec![node(0), edge, node(1), node(2)]
}

fn sampler(store: &Store) -> Sampler {
    let fanouts = Fanouts::uniform(&[6, 4], 1).expect("fanouts");
    let spec = SampleSpec::uniform(fanouts, 11);
    Sampler::new(store.snapshot(), spec, tensors()).expect("sampler")
}

/// Seeds and stream of a batch of an epoch; the first seed stands twice.
fn job(epoch: u64, batch: u64) -> (Vec<u64>, u64) {
    let stream = epoch * BATCHES + batch;
    let mut seeds: Vec<u64> = (0..BATCH).map(|i| number(5, stream * BATCH + i) % NODES).collect();
    seeds[3] = seeds[0];
    (seeds, stream)
}

fn jobs(epoch: u64) -> Vec<(Vec<u64>, u64)> {
    (0..BATCHES).map(|batch| job(epoch, batch)).collect()
}

/// The same from a batch on, for a pipeline.
fn epochs(first: (u64, u64)) -> Jobs {
    Jobs { first, ..common::jobs(NODE, BATCHES, |batch| job(first.0, batch).0) }
}

fn key() -> EpochKey {
    [("fanouts", "6,4"), ("seed", "11")].map(|(k, v)| (k.to_owned(), v.to_owned())).into()
}

fn survey(store: &Store, epochs: u64) -> Survey {
    let mut survey = Survey::new(sampler(store)).expect("survey");
    (0..epochs).for_each(|epoch| survey.count(NODE, &jobs(epoch)).expect("counts"));
    survey
}

fn write(store: &Store, dir: &Path, epoch: u64, hot: &Arc<HotSet>) -> Result<u64, SampleError> {
    let settings = Settings { threads: Some(2), ..Settings::default() };
    let stored = sampler(store).storing(hot)?;
    let ahead = Pipeline::new(stored, epochs((epoch, 0)), Way::Ahead(settings))?;
    let name = format!("{epoch}.epoch");
    let id = EpochId { key: key(), epoch, set: 0..epoch + 1 };
    let mut writer = EpochWriter::create(store.snapshot(), dir, &name, id, Arc::clone(hot))?;
    for batch in ahead {
        writer.push(&batch?)?;
    }
    assert_eq!(writer.num_batches(), BATCHES);
    Ok(writer.finish()?)
}

fn expected(dir: &Path, epoch: u64) -> Vec<MiniBatch> {
    let store = open(dir, 512 << 20);
    let sampler = sampler(&store);
    let sample = |(seeds, stream): (Vec<u64>, u64)| sampler.sample(&[(NODE, &seeds)], stream);
    jobs(epoch).into_iter().map(|job| sample(job).expect("batch")).collect()
}

fn files(dir: &Path, epochs: u64) -> Vec<EpochFile> {
    let names: Vec<String> = (0..epochs).map(|epoch| format!("{epoch}.epoch")).collect();
    EpochFile::open_all(dir, &names, BackendChoice::Auto).expect("opens")
}

/// A replay of the first `count` epochs that were written.
fn replay(
    sampler: Sampler,
    dir: &Path,
    (count, prefetch): (u64, usize),
    jobs: Jobs,
) -> Result<Pipeline, SampleError> {
    Pipeline::new(sampler, jobs, Way::Replay { files: files(dir, count), prefetch })
}

fn open_one(dir: &Path) -> Result<EpochFile, CompiledError> {
    EpochFile::open_all(dir, &["0.epoch"], BackendChoice::Auto).map(|mut files| files.remove(0))
}

/// A store, and a directory for epochs.
fn places() -> (tempfile::TempDir, tempfile::TempDir) {
    let (store, epochs) = (tempfile::tempdir(), tempfile::tempdir());
    let (store, epochs) = (store.expect("directory"), epochs.expect("directory"));
    build(store.path());
    (store, epochs)
}

#[test]
fn replayed_epochs_are_those_that_sampling_gives() {
    let (place, out) = places();
    let expected = [expected(place.path(), 0), expected(place.path(), 1)];
    for hot_bytes in [None, Some(0), Some(500_000), Some(u64::MAX)] {
        let store = open(place.path(), MEMORY);
        let counted = survey(&store, 2);
        let (chosen, memory) = counted.choose();
        let hot = hot_bytes.map_or(chosen, |bytes| counted.rows_within(bytes));
        // The hot rows are written once.
        let foreseen = counted.record_bytes(&hot) + hot.row_bytes();
        println!("{hot_bytes:?}: {} hot rows, {memory:?}", hot.num_rows());
        drop(counted);
        let hot = Arc::new(hot);
        let mut written = 0;
        for epoch in 0..2 {
            written += write(&store, out.path(), epoch, &hot).expect("written");
        }
        assert!(foreseen.abs_diff(written) < written / 8, "{foreseen} foreseen, {written}");
        drop(store);
        let store = open(place.path(), MEMORY);
        // Epochs in rotation, also from the middle on.
        for (first, goes_on, order) in [
            ((0, 0), true, &[(0, 0), (1, 0), (0, 0), (1, 0)][..]),
            ((0, 7), true, &[(0, 7), (1, 0), (0, 0)]),
            ((3, 7), false, &[(1, 7)]),
            ((0, 0), false, &[(0, 0)]),
        ] {
            let jobs = Jobs { goes_on, ..epochs(first) };
            let replay = replay(sampler(&store), out.path(), (2, 2), jobs);
            let mut replay = replay.expect("starts");
            for (file, first) in order {
                for batch in *first..BATCHES {
                    let found = replay.next().expect("a batch").expect("is read");
                    let expected = &expected[*file][batch as usize];
                    assert_eq!(found.nodes, expected.nodes);
                    assert_eq!(found.edges, expected.edges);
                    assert!(found == *expected, "batch {batch} of {file}, {hot_bytes:?}");
                }
            }
            assert!(goes_on || replay.next().is_none());
        }
        assert!(store.budget().peak_bytes() <= MEMORY);
        let counts = store.stats();
        assert!(counts.useful_bytes > 0 && counts.useful_bytes <= counts.read_bytes, "{counts:?}");
    }
}

/// A written epoch with some 1 MB of hot rows.
fn with_hot_rows(store: &Store, out: &Path) -> Arc<HotSet> {
    let hot = Arc::new(survey(store, 1).rows_within(1_000_000));
    assert!(hot.row_bytes() > 900_000, "{} bytes", hot.row_bytes());
    write(store, out, 0, &hot).expect("written");
    hot
}

#[test]
fn a_replay_reads_hot_rows_from_the_file_of_the_first_epoch_and_none_from_the_store() {
    let (place, out) = places();
    let store = open(place.path(), MEMORY);
    let hot = with_hot_rows(&store, out.path());
    write(&store, out.path(), 1, &hot).expect("written");
    drop(store);
    let opened = files(out.path(), 2);
    // Each of three tensors fills its last block.
    assert!((hot.row_bytes()..hot.row_bytes() + 3 * 4096).contains(&opened[0].hot_bytes()));
    assert_eq!(opened[1].hot_bytes(), 0, "they are in the file of the first epoch alone");
    let store = open(place.path(), MEMORY);
    let mut replayed = replay(sampler(&store), out.path(), (2, 2), epochs((0, 0))).expect("fits");
    assert_eq!(replayed.by_ref().filter(Result::is_ok).count() as u64, BATCHES);
    // The reading thread counts what it read when it ends, which may be after the last batch.
    drop(replayed);
    let read = store.stats().read_bytes;
    let from_file = opened[0].hot_bytes() + opened[0].record_bytes();
    // Tensors that are held whole, and page tables.
    let whole = NODES * 8;
    println!("{read} bytes, {from_file} from the file");
    assert!((from_file..from_file + whole + (256 << 10)).contains(&read));
}

#[test]
fn damage_to_hot_rows_is_found_before_the_first_batch_and_by_verify() {
    let (place, out) = places();
    let store = open(place.path(), MEMORY);
    with_hot_rows(&store, out.path());
    let path = out.path().join("0.epoch");
    let whole = std::fs::read(&path).expect("written");
    let number = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().expect("8 bytes"));
    let records = number(number(whole.len() - 4096 + 16) as usize) as usize;
    let hot_bytes = files(out.path(), 1)[0].hot_bytes() as usize;
    for at in [records - hot_bytes, records - hot_bytes / 2, records - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 4;
        std::fs::write(&path, &damaged).expect("written");
        let epoch = files(out.path(), 1).remove(0);
        let found = epoch.verify(&mut |_, _| true).expect("is read");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].to_string().contains("hot rows"), "{found:?}");
        let mut replayed =
            replay(sampler(&store), out.path(), (1, 2), epochs((0, 0))).expect("fits");
        let error = replayed.next().expect("an answer").expect_err("damaged");
        assert!(error.to_string().contains("hot rows"), "{error}");
    }
}

#[test]
fn fewer_tensors_can_be_asked_for_and_narrow_rows_come_in_any_type() {
    let (place, out) = places();
    let store = open(place.path(), MEMORY);
    let hot = Arc::new(survey(&store, 1).choose().0);
    write(&store, out.path(), 0, &hot).expect("written");
    let fanouts = Fanouts::uniform(&[6, 4], 1).expect("fanouts");
    let spec = SampleSpec::uniform(fanouts, 11);
    let steps = TensorRef { owner: Owner::Node(NODE), index: 1 };
    for dtype in [Dtype::I8, Dtype::F16, Dtype::F32] {
        let wanted = ColumnSpec { tensor: steps, dtype: Some(dtype), is_sparse: false };
        let sampler = Sampler::with_columns(store.snapshot(), spec.clone(), &[wanted]);
        let sampler = sampler.expect("sampler");
        let replay = replay(sampler.clone(), out.path(), (1, 1), epochs((0, 5)));
        let mut replay = replay.expect("starts");
        let (seeds, stream) = job(0, 5);
        let expected = sampler.sample(&[(NODE, &seeds)], stream).expect("batch");
        assert!(replay.next().expect("a batch").expect("is read") == expected, "{dtype:?}");
    }
}

#[test]
fn a_damaged_batch_is_named_and_nothing_behind_it_is_given() {
    let (place, out) = places();
    let store = open(place.path(), MEMORY);
    let hot = Arc::new(survey(&store, 1).choose().0);
    write(&store, out.path(), 0, &hot).expect("written");
    let path = out.path().join("0.epoch");
    let whole = std::fs::read(&path).expect("reads");
    let epoch = files(out.path(), 1).remove(0);
    let records = epoch.record_bytes() as usize;
    for at in [records / 2, records / 4].map(|back| whole.len() - back) {
        let mut damaged = whole.clone();
        damaged[at] ^= 16;
        std::fs::write(&path, damaged).expect("writes");
        let replay =
            || replay(sampler(&store), out.path(), (1, 1), epochs((0, 0))).expect("starts");
        let good = replay().take_while(Result::is_ok).count() as u64;
        // What the error says lies behind the batches that were handed over.
        let error = replay().find_map(Result::err).expect("an error");
        let SampleError::Compiled(CompiledError::Damaged { file, batch, offset, .. }) = error
        else {
            panic!("{error}")
        };
        assert!(
            file.ends_with("0.epoch") && batch < BATCHES && good <= batch,
            "{file} {batch} {good}"
        );
        assert!(offset <= at as u64 && at as u64 - offset < records as u64 / 4);
    }
}

#[test]
fn a_file_that_is_not_whole_or_of_another_key_is_refused() {
    let (place, out) = places();
    let store = open(place.path(), MEMORY);
    let hot = Arc::new(survey(&store, 1).choose().0);
    let bytes = write(&store, out.path(), 0, &hot).expect("written");
    let file = open_one(out.path()).expect("opens");
    assert!(file.record_bytes() < bytes && file.num_batches() == BATCHES);
    file.check(&key()).expect("fits");
    let mut other = key();
    other.insert("seed".into(), "12".into());
    let text = file.check(&other).expect_err("another seed").to_string();
    assert!(text.contains("seed = 11") && text.contains("expected 12"), "{text}");
    other.remove("seed");
    assert!(file.check(&other).is_err());
    drop(file);
    let path = out.path().join("0.epoch");
    let whole = std::fs::read(&path).expect("reads");
    for len in [0, 100, 4096, 8192, whole.len() / 2, whole.len() - 4096, whole.len() - 1] {
        std::fs::write(&path, &whole[..len]).expect("writes");
        let error = open_one(out.path()).err().expect("refused");
        assert!(
            matches!(error, CompiledError::Sealed(SealedError::NotWhole { .. })),
            "{len}: {error}"
        );
    }
}

#[test]
fn what_an_interrupted_writer_left_is_not_used_and_stands_in_nobodys_way() {
    let (place, out) = places();
    let store = open(place.path(), MEMORY);
    let hot = Arc::new(survey(&store, 1).choose().0);
    let begin = || {
        let id = EpochId { key: key(), epoch: 0, set: 0..1 };
        EpochWriter::create(store.snapshot(), out.path(), "0.epoch", id, Arc::clone(&hot))
    };
    let mut writer = begin().expect("begins");
    let (seeds, stream) = job(0, 0);
    let stored = sampler(&store).storing(&hot).expect("stored");
    writer.push(&stored.sample(&[(NODE, &seeds)], stream).expect("batch")).expect("pushes");
    let busy = begin().err().expect("busy").to_string();
    assert!(busy.contains("another process is writing"), "{busy}");
    let partial = out.path().join("0.epoch.partial");
    assert!(partial.exists());
    drop(writer);
    assert!(!partial.exists());
    std::fs::write(&partial, b"what a killed writer leaves").expect("writes");
    assert!(open_one(out.path()).is_err());
    write(&store, out.path(), 0, &hot).expect("written");
    assert!(!partial.exists());
    open_one(out.path()).expect("opens");
}

#[test]
fn too_little_memory_is_said_before_anything_is_read() {
    let (place, out) = places();
    let store = open(place.path(), MEMORY);
    let hot = Arc::new(survey(&store, 1).rows_within(u64::MAX));
    write(&store, out.path(), 0, &hot).expect("written");
    drop(store);
    let store = open(place.path(), 12 << 20);
    let start = |store: &Store| replay(sampler(store), out.path(), (1, 1), epochs((0, 0)));
    let error = start(&store).err().expect("refused");
    let SampleError::Budget { minimum_bytes, .. } = error else { panic!("{error}") };
    assert!(minimum_bytes > 12 << 20);
    drop(store);
    let store = open(place.path(), minimum_bytes + (1 << 20));
    start(&store).expect("starts");
}
