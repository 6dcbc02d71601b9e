//! An import that is killed at any time leaves no store, and running it again gives the store that
//! an undisturbed one gives.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{bytes_of, names_in, random_rows};
use ng_import::{EdgeTypeSpec, ImportOptions, Importer, TextOptions};
use ng_store::Owner;
use ng_types::{Dtype, philox4x32_10};

const CHILD: &str = "NG_IMPORT_KILL_CHILD";
const KILLS: u32 = 25;
const NODES: u64 = 20_000;

fn import(directory: &Path, name: &str) {
    let options = ImportOptions { memory: Some(8 << 20), ..ImportOptions::default() };
    let mut import = Importer::new(&directory.join(name), options).unwrap();
    let node = import.node_type("node", Some(NODES), false).unwrap();
    let spec = EdgeTypeSpec { undirected: true, ..EdgeTypeSpec::between("node", "edge", "node") };
    let edges = import.edge_type(spec).unwrap();
    let list = directory.join("list.txt");
    import.read_text(edges, &list, &TextOptions::default(), &mut |_| true).unwrap();
    import.build_topology().unwrap();
    let x = import.begin_tensor(Owner::Node(node), "x", Dtype::F32, &[64], None).unwrap();
    for row in 0..NODES {
        import.push_rows(x, &[row as u8; 256]).unwrap();
    }
    import.finish(&mut |_| true).unwrap();
}

/// Run in a process of its own by the test below; does nothing otherwise.
#[test]
fn child_that_imports() {
    if let Ok(directory) = std::env::var(CHILD) {
        import(Path::new(&directory), "store.ng");
    }
}

fn child(directory: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_imports"])
        .env(CHILD, directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_import_leaves_no_store_and_runs_again() {
    let directory = tempfile::tempdir().unwrap();
    let text: String = random_rows(400_000, NODES, 6)
        .iter()
        .map(|row| format!("{} {}\n", row.source, row.destination))
        .collect();
    std::fs::write(directory.path().join("list.txt"), text).unwrap();
    let started = Instant::now();
    import(directory.path(), "expected.ng");
    let whole = started.elapsed();
    let expected = bytes_of(&directory.path().join("expected.ng"));
    let store = directory.path().join("store.ng");
    let seed = 99;
    println!("seed {seed}");
    let mut killed = 0;
    for kill in 0..KILLS {
        let part = philox4x32_10([kill, 0, 0, 0], [seed, 0])[0] % 1100;
        let mut process = child(directory.path());
        std::thread::sleep(whole * part / 1000 + Duration::from_millis(1));
        process.kill().unwrap();
        process.wait().unwrap();
        if store.exists() {
            assert!(bytes_of(&store) == expected, "kill {kill}: a half store is visible");
            std::fs::remove_dir_all(&store).unwrap();
        } else {
            killed += 1;
        }
    }
    assert!(killed > 0, "no import was killed in time");
    assert!(child(directory.path()).wait().unwrap().success());
    assert!(bytes_of(&store) == expected);
    let mut names = names_in(directory.path());
    names.sort();
    assert_eq!(names, ["expected.ng", "list.txt", "store.ng"]);
}
