//! An import that replaces a store, beside those who write to it and read it: no commit that was
//! acknowledged disappears.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{names_in, open};
use ng_import::{EdgeTypeSpec, IdSlice, ImportError, ImportOptions, Importer};
use ng_store::{OpenOptions, Store, UpdateError, compact};
use ng_types::{ErrorKind, Explain, NodeTypeId, Remedy};

const CHILD: &str = "NG_IMPORT_BESIDE_CHILD";
const DIRECTORY: &str = "NG_IMPORT_BESIDE_DIRECTORY";
const NODES: NodeTypeId = NodeTypeId(0);

/// Begins to replace the store, by one of so many nodes.
fn begin(path: &Path, nodes: u64) -> Result<Importer, ImportError> {
    let options = ImportOptions { overwrite: true, memory: Some(8 << 20), ..Default::default() };
    let mut import = Importer::new(path, options)?;
    import.node_type("node", Some(nodes), false)?;
    let edges = import.edge_type(EdgeTypeSpec::between("node", "edge", "node"))?;
    import.push_edges(edges, IdSlice::I64(&[0, 1]), IdSlice::I64(&[1, 2]), None, None, None)?;
    Ok(import)
}

fn replace(path: &Path, nodes: u64) -> Result<(), ImportError> {
    begin(path, nodes)?.finish(&mut |_| true).map(drop)
}

/// A directory with a store of three nodes.
fn made() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("g.ng");
    replace(&path, 3).unwrap();
    (directory, path)
}

fn commit(store: &Store) -> Result<u64, UpdateError> {
    let mut batch = store.write()?;
    batch.add_node(NODES)?;
    Ok(batch.commit()?.lsn)
}

fn num_nodes(store: &Store) -> u64 {
    store.snapshot().catalog().node_types[0].num_nodes
}

fn impatient(path: &Path) -> Store {
    let busy_timeout = Duration::ZERO;
    let options = OpenOptions { memory: Some(64 << 20), busy_timeout, ..Default::default() };
    Store::open(path, &options).unwrap()
}

fn assert_refused(path: &Path) {
    let error = replace(path, 9).expect_err("somebody writes");
    assert!(matches!(error, ImportError::Busy { .. }), "{error}");
    assert!(error.to_string().contains("g.ng"), "{error}");
    assert_eq!(error.explain(), (ErrorKind::StoreBusy, vec![Remedy::ReplaceLater]));
    assert_eq!(names_in(path.parent().unwrap()), ["g.ng"], "nothing was begun");
}

/// Runs a test of this file again, in a process that reads what to do from the environment.
fn child(directory: &Path, acts: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child_that_acts"]).env(CHILD, acts).env(DIRECTORY, directory);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while std::fs::remove_file(directory.join("ready")).is_err() {
        assert!(child.try_wait().unwrap().is_none(), "the child ended early");
        assert!(started.elapsed() < Duration::from_secs(60), "the child is not ready");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Not a test of its own: what the other process runs until it is killed.
#[test]
fn child_that_acts() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let path = directory.join("g.ng");
    let _import = if std::env::var_os(CHILD).is_some_and(|acts| acts == "import") {
        Some(begin(&path, 9).unwrap())
    } else {
        let store = Box::leak(Box::new(open(&path)));
        commit(store).unwrap();
        None
    };
    std::fs::write(directory.join("ready"), b"").unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn a_writer_of_this_process_keeps_its_store_and_all_its_commits() {
    let (_directory, path) = made();
    let store = open(&path);
    assert_eq!(commit(&store).unwrap(), 1);
    assert_refused(&path);
    assert_eq!(commit(&store).unwrap(), 2);
    store.close().unwrap();
    assert_eq!(num_nodes(&open(&path)), 5);
    replace(&path, 9).unwrap();
    assert_eq!(num_nodes(&open(&path)), 9);
}

#[test]
fn a_writer_of_another_process_keeps_its_store_until_it_ends() {
    let (directory, path) = made();
    let writer = child(directory.path(), "write");
    assert_refused(&path);
    kill(writer);
    assert_eq!(num_nodes(&open(&path)), 4, "the commit was acknowledged");
    replace(&path, 9).unwrap();
    assert_eq!(num_nodes(&open(&path)), 9);
}

#[test]
fn a_link_to_the_store_does_not_lead_past_its_writer() {
    let (directory, path) = made();
    let link = directory.path().join("link.ng");
    std::os::unix::fs::symlink("g.ng", &link).unwrap();
    let store = open(&path);
    commit(&store).unwrap();
    let error = replace(&link, 9).expect_err("somebody writes");
    assert!(matches!(error, ImportError::Busy { .. }), "{error}");
    assert_eq!(commit(&store).unwrap(), 2);
}

#[test]
fn nobody_becomes_the_writer_while_the_import_runs_and_old_handles_say_that_it_was_replaced() {
    let (_directory, path) = made();
    let store = impatient(&path);
    let import = begin(&path, 9).unwrap();
    let refused = commit(&store).expect_err("it is being replaced");
    assert!(matches!(refused, UpdateError::Busy { .. }), "{refused}");
    let options = OpenOptions { busy_timeout: Duration::ZERO, ..Default::default() };
    let refused = compact(&path, &options, &mut |_, _| true).expect_err("it is being replaced");
    assert!(matches!(refused, UpdateError::Busy { .. }), "{refused}");
    let waiting = open(&path);
    let waited = std::thread::scope(|scope| {
        let waits = scope.spawn(|| commit(&waiting));
        import.finish(&mut |_| true).unwrap();
        waits.join().unwrap()
    });
    for late in [waited, commit(&store)] {
        let late = late.expect_err("its files are gone");
        assert!(late.to_string().contains("was replaced since it was opened"), "{late}");
    }
    assert_eq!((num_nodes(&store), num_nodes(&open(&path))), (3, 9));
    assert_eq!(commit(&open(&path)).unwrap(), 1);
}

#[test]
fn an_import_that_fails_or_is_killed_leaves_the_store_to_its_writers() {
    let (directory, path) = made();
    drop(begin(&path, 9).unwrap());
    assert_eq!(commit(&impatient(&path)).unwrap(), 1);
    let importer = child(directory.path(), "import");
    let store = impatient(&path);
    assert!(matches!(commit(&store), Err(UpdateError::Busy { .. })));
    kill(importer);
    assert_eq!(commit(&store).unwrap(), 2);
}

#[test]
fn readers_are_not_in_the_way_and_see_what_a_crashed_writer_left() {
    let (directory, path) = made();
    kill(child(directory.path(), "write"));
    let import = begin(&path, 9).unwrap();
    let reader = open(&path);
    assert_eq!(num_nodes(&reader), 4, "the commit was acknowledged");
    assert!(reader.read_only_because().is_some());
    import.finish(&mut |_| true).unwrap();
    assert_eq!((num_nodes(&reader), num_nodes(&open(&path))), (4, 9));
}

#[test]
fn a_damaged_store_of_any_format_is_replaced_unless_somebody_writes() {
    let (_directory, path) = made();
    let store = open(&path);
    commit(&store).unwrap();
    for root in ["root.a", "root.b"] {
        std::fs::write(path.join(root), b"of another age").unwrap();
    }
    assert_refused(&path);
    drop(store);
    for root in ["root.a", "root.b"] {
        std::fs::write(path.join(root), b"of another age").unwrap();
    }
    std::fs::remove_file(path.join("pins")).unwrap();
    replace(&path, 9).unwrap();
    assert_eq!(num_nodes(&open(&path)), 9);
}

#[test]
fn a_store_that_takes_the_name_meanwhile_is_not_replaced_under_its_writer() {
    let (directory, path) = made();
    let aside = directory.path().join("aside.ng");
    std::fs::rename(&path, &aside).unwrap();
    let import = begin(&path, 9).unwrap();
    std::fs::rename(&aside, &path).unwrap();
    let store = open(&path);
    commit(&store).unwrap();
    let error = import.finish(&mut |_| true).expect_err("somebody writes");
    assert!(matches!(error, ImportError::Busy { .. }), "{error}");
    assert_eq!(commit(&store).unwrap(), 2);
    assert_eq!(names_in(directory.path()), ["g.ng"]);
}
