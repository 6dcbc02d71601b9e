//! A full disk is an error that says so, and leaves nothing behind. Runs in a mount namespace of
//! its own over a small tmpfs; skipped, with the reason, where that is not allowed.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::Command;

use common::{names_in, random_rows};
use ng_import::{EdgeTypeSpec, IdSlice, ImportError, ImportOptions, Importer};
use ng_store::Owner;
use ng_types::Dtype;

const CHILD: &str = "NG_IMPORT_DISK_FULL_CHILD";

/// Pushes edges and tensor rows until the disk is full or all is done.
fn import(directory: &Path, edges: usize, tensor_rows: u64) -> Result<(), ImportError> {
    let options = ImportOptions { memory: Some(8 << 20), ..ImportOptions::default() };
    let mut import = Importer::new(&directory.join("store.ng"), options)?;
    let node = import.node_type("node", Some(100_000), false)?;
    let edge_type = import.edge_type(EdgeTypeSpec::between("node", "edge", "node"))?;
    let rows = random_rows(edges, 100_000, 1);
    let sources: Vec<u64> = rows.iter().map(|row| row.source).collect();
    let destinations: Vec<u64> = rows.iter().map(|row| row.destination).collect();
    let (sources, destinations) = (IdSlice::U64(&sources), IdSlice::U64(&destinations));
    import.push_edges(edge_type, sources, destinations, None, None, None)?;
    import.build_topology()?;
    let x = import.begin_tensor(Owner::Node(node), "x", Dtype::U8, &[256], None)?;
    for _ in 0..tensor_rows {
        import.push_rows(x, &[7; 256])?;
    }
    import.finish(&mut |_| true)?;
    Ok(())
}

/// Run in a mount namespace by the test below; does nothing otherwise.
#[test]
fn child_on_a_small_disk() {
    let Ok(directory) = std::env::var(CHILD) else {
        return;
    };
    let directory = Path::new(&directory);
    // Full while edges are spilled, while the topology is written, while tensors are.
    for (edges, tensor_rows) in [(1_500_000, 0), (700_000, 0), (10_000, 100_000)] {
        let error = import(directory, edges, tensor_rows).unwrap_err();
        let full = matches!(error, ImportError::DiskFull { .. });
        assert!(full, "{edges} edges, {tensor_rows} rows: {error}");
        println!("{error}");
        assert!(names_in(directory).is_empty(), "something was left behind");
    }
}

#[test]
fn a_full_disk_is_named_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let script = format!(
        "mount -t tmpfs -o size=7m none {0} && \
         exec {1:?} --exact child_on_a_small_disk --nocapture",
        directory.path().display(),
        std::env::current_exe().unwrap(),
    );
    let probe = Command::new("unshare").args(["-rm", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        println!("skipped: mount namespaces are not allowed here");
        return;
    }
    let child = Command::new("unshare")
        .args(["-rm", "sh", "-c", &script])
        .env(CHILD, directory.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout).into_owned();
    let errors = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(child.status.success(), "{text}{errors}");
    assert!(text.contains("no space left"), "{text}");
}
