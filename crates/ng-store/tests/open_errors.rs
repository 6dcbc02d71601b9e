//! What cannot be opened says what is wrong, where, and what to do.
#![allow(clippy::expect_used)]

mod common;

use std::sync::Arc;

use common::model::{Model, ModelEdges};
use common::{Files, disk_of, seeded};
use ng_store::{
    BuildOptions, FORMAT_VERSION, OpenError, OpenOptions, Owner, Store, StoreBuilder, UpdateError,
    verify_on,
};
use ng_testing::MemDisk;
use ng_types::NodeTypeId;

fn small() -> Model {
    let mut random = seeded(3);
    let mut model = Model::new(&[40], 4096);
    model.edges(ModelEdges::default(), &[(1, 5), (7, 2_000), (39, 1)], &mut random);
    model.tensor(Owner::Node(NodeTypeId(0)), 300, &mut random);
    model
}

fn open(files: Files) -> Result<Store, OpenError> {
    let options = OpenOptions { memory: Some(16 << 20), ..OpenOptions::default() };
    Store::open_on(disk_of(files), &options)
}

fn error_of(files: Files) -> OpenError {
    open(files).err().expect("must not open")
}

fn edit(files: &mut Files, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    change(files.get_mut(name).expect("exists"));
}

/// Sets the version and repairs the checksum of the header.
fn set_version(slot: &mut [u8], version: u32) {
    slot[8..12].copy_from_slice(&version.to_le_bytes());
    let crc = crc32c::crc32c(&slot[..44]);
    slot[44..48].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn a_path_that_is_no_store_is_named_as_what_it_is() {
    let dir = tempfile::tempdir().expect("made");
    let open = |name: &str| {
        let options = OpenOptions { memory: Some(16 << 20), ..OpenOptions::default() };
        Store::open(&dir.path().join(name), &options).err().expect("must not open")
    };
    assert!(matches!(open("nothing.ng"), OpenError::NotFound { .. }));
    std::fs::write(dir.path().join("file.ng"), b"hello").expect("written");
    assert!(matches!(open("file.ng"), OpenError::NotADirectory { .. }));
    std::fs::create_dir(dir.path().join("empty.ng")).expect("made");
    assert!(matches!(open("empty.ng"), OpenError::NotAStore { .. }));
}

#[test]
fn a_store_without_a_commit_is_no_store() {
    let disk = Arc::new(MemDisk::new());
    let mut builder = StoreBuilder::on_disk(disk.clone(), BuildOptions::default()).expect("fresh");
    builder.node_type("n", 4).expect("declared");
    drop(builder);
    assert!(matches!(error_of(disk.image()), OpenError::NotAStore { .. }));
}

#[test]
fn a_newer_version_names_both_versions_and_says_upgrade() {
    for slots in [vec!["root.a"], vec!["root.b"], vec!["root.a", "root.b"]] {
        let mut files = small().files();
        slots.iter().for_each(|slot| edit(&mut files, slot, |bytes| set_version(bytes, 7)));
        let error = error_of(files);
        let OpenError::NewerVersion { found: 7, supported: FORMAT_VERSION, .. } = error else {
            panic!("{error:?}");
        };
        let text = error.to_string();
        assert!(text.contains("version 7") && text.contains("upgrade"), "{text}");
    }
}

#[test]
fn one_damaged_or_missing_slot_opens_and_verify_notes_it() {
    let model = small();
    for slot in ["root.a", "root.b"] {
        for damage in 0..4 {
            let mut files = model.files();
            match damage {
                0 => drop(files.remove(slot)),
                1 => edit(&mut files, slot, |bytes| bytes[30] ^= 1),
                2 => edit(&mut files, slot, |bytes| bytes[5000] ^= 1),
                _ => edit(&mut files, slot, |bytes| bytes.truncate(4096)),
            }
            let store = open(files.clone()).expect("the other slot is good");
            model.read_all(&store.snapshot()).expect("sound");
            let options = OpenOptions { memory: Some(16 << 20), ..OpenOptions::default() };
            let disk = disk_of(files);
            let report = verify_on(disk, &options, &mut |_, _| true).expect("opens");
            assert!(report.problems.is_empty(), "{report:?}");
            assert!(report.notes.iter().any(|note| note.file == slot), "{report:?}");
        }
    }
}

#[test]
fn two_damaged_slots_do_not_open() {
    let mut files = small().files();
    edit(&mut files, "root.a", |bytes| bytes[5000] ^= 1);
    edit(&mut files, "root.b", Vec::clear);
    assert!(matches!(error_of(files), OpenError::RootsDamaged { .. }));
}

#[test]
fn a_slot_of_another_store_of_the_same_checkpoint_is_refused() {
    let mut files = small().files();
    let other = Model::new(&[3], 4096).files();
    files.insert("root.b".into(), other["root.b"].clone());
    assert!(matches!(error_of(files), OpenError::RootsDisagree { checkpoint_id: 1, .. }));
}

#[test]
fn a_truncated_or_missing_segment_is_named_at_open() {
    let model = small();
    let is_segment = |name: &&String| name.ends_with(".dat") || name.ends_with(".map");
    for name in model.files().keys().filter(is_segment) {
        let mut files = model.files();
        edit(&mut files, name, |bytes| bytes.truncate(bytes.len().saturating_sub(1)));
        let text = error_of(files.clone()).to_string();
        assert!(text.contains(name) && text.contains("truncated"), "{text}");
        files.remove(name);
        let text = error_of(files).to_string();
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn a_budget_too_small_says_the_minimum_and_the_minimum_works() {
    let model = small();
    let open = |memory| {
        let options = OpenOptions { memory: Some(memory), ..OpenOptions::default() };
        Store::open_on(model.build(), &options)
    };
    let Err(OpenError::BudgetTooSmall { limit_bytes: 1_000, minimum_bytes }) = open(1_000) else {
        panic!("must be refused");
    };
    let store = open(minimum_bytes).expect("the minimum works");
    model.read_all(&store.snapshot()).expect("sound");
}

#[test]
fn who_may_only_read_sees_what_the_log_holds_beyond_the_last_checkpoint() {
    let model = small();
    let disk = model.build();
    let options = OpenOptions { memory: Some(16 << 20), ..OpenOptions::default() };
    let writer = Store::open_on(disk.clone(), &options).expect("sound");
    let mut tx = writer.write().expect("nobody else writes");
    tx.add_node(NodeTypeId(0)).expect("room");
    tx.commit().expect("written");
    let crashed = MemDisk::from_image(disk.image());
    let store = Store::open_on(Arc::new(crashed.read_only()), &options).expect("may be read");
    assert_eq!((store.snapshot().lsn(), store.snapshot().checkpoint_lsn()), (1, 0));
    assert_eq!(store.recovery().commits, 1);
    let error = store.write().err().expect("may not be written to");
    assert!(matches!(error, UpdateError::Write(_)), "{error}");
    assert!(error.to_string().contains("pins"), "{error}");
    let store = Store::open_on(Arc::new(crashed), &options).expect("recovered");
    assert_eq!((store.snapshot().lsn(), store.recovery().commits), (1, 1));
}
