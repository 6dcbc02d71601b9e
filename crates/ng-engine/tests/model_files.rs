//! A model file is read as it was written, or refused by name; its fanouts fit the store's types.
#![allow(clippy::expect_used)]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use common::{build, open};
use ng_engine::{EngineError, ModelFile, ModelFileError};
use ng_infer::dfg::{Constant, Dfg, Dim, Elements, Op, Reduction, TensorType};
use ng_io::SourceError;
use ng_testing::{Random, assert_for_every_face, every_variant};
use ng_types::{Dtype, EdgeTypeId};
use sha2::{Digest, Sha256};

const NAMES: [&str; 3] = ["manifest.json", "model.onnx", "model.safetensors"];

fn graph() -> Dfg {
    let mut graph = Dfg::default();
    let typed = |dtype, shape: [Dim; 2]| Some(TensorType { dtype, shape: shape.into() });
    let edges = typed(Dtype::I64, [Dim::from(2), Dim::symbol("edges")]);
    let edges = graph.create_in("edge_index", edges).expect("input");
    let x = graph.create_in("x", typed(Dtype::F32, [Dim::symbol("nodes"), Dim::from(8)]));
    let mean = graph.create_op(Op::Spmm(Reduction::Mean), &[edges, x.expect("input")]);
    let weights = Elements::F32((0..64).map(|at| at as f32).collect());
    let weights = Constant::new(vec![8, 8], weights).expect("weights");
    let weights = graph.create_weight("w", weights).expect("weight");
    let out = graph.create_op(Op::MatMul, &[mean.expect("mean")[0], weights]).expect("product");
    graph.create_out("out", out[0]).expect("output");
    graph
}

/// The three files of a model with this metadata.
fn files(metadata: &[(&str, &str)]) -> [Vec<u8>; 3] {
    let metadata: Vec<(String, String)> =
        metadata.iter().map(|(key, value)| (format!("neargraph.{key}"), (*value).into())).collect();
    let written = graph().to_onnx(&metadata, NAMES[2]).expect("written");
    let hash = |bytes: &[u8]| -> String {
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let manifest = format!(
        r#"{{"files": {{"{}": "{}", "{}": "{}"}}, "format": "neargraph model", "version": 1}}"#,
        NAMES[1],
        hash(&written.model),
        NAMES[2],
        hash(&written.weights)
    );
    [manifest.into_bytes(), written.model, written.weights]
}

fn put(dir: &Path, files: &[Vec<u8>; 3]) {
    fs::create_dir(dir).expect("folder");
    for (name, bytes) in NAMES.iter().zip(files) {
        fs::write(dir.join(name), bytes).expect("file");
    }
}

/// An archive of files by name that are stored as they are; `wide` has its numbers in 64 bits.
fn archive(files: &[(&str, &[u8])], method: u16, wide: bool) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    let number = |number: usize| if wide { [0xFF; 4] } else { (number as u32).to_le_bytes() };
    for (name, bytes) in files {
        let (offset, name_len) = (out.len(), (name.len() as u16).to_le_bytes());
        out.extend([b"PK\x03\x04".as_slice(), &[20, 0, 0, 0]].concat());
        out.extend([&method.to_le_bytes()[..], &[0; 8]].concat());
        out.extend([&(bytes.len() as u32).to_le_bytes()[..]; 2].concat());
        out.extend([&name_len[..], &[4, 0], name.as_bytes(), &[9, 9, 0, 0], bytes].concat());
        let mut more = Vec::new();
        if wide {
            more.extend([1, 0, 24, 0]);
            [bytes.len(), bytes.len(), offset]
                .iter()
                .for_each(|n| more.extend((*n as u64).to_le_bytes()));
        }
        directory.extend([b"PK\x01\x02".as_slice(), &[20, 0, 20, 0, 0, 0]].concat());
        directory.extend([&method.to_le_bytes()[..], &[0; 8]].concat());
        directory.extend([number(bytes.len()), number(bytes.len())].concat());
        directory.extend([&name_len[..], &(more.len() as u16).to_le_bytes()].concat());
        directory.extend([&[0; 10][..], &number(offset), name.as_bytes(), &more].concat());
    }
    let (first, count) = (out.len(), files.len() as u64);
    out.extend(&directory);
    if wide {
        let end = out.len() as u64;
        out.extend([b"PK\x06\x06".as_slice(), &44_u64.to_le_bytes(), &[45, 0, 45, 0]].concat());
        out.extend([&[0; 8][..], &[count.to_le_bytes(); 2].concat()].concat());
        out.extend([(directory.len() as u64).to_le_bytes(), (first as u64).to_le_bytes()].concat());
        out.extend([b"PK\x06\x07".as_slice(), &[0; 4], &end.to_le_bytes(), &[1, 0, 0, 0]].concat());
    }
    out.extend([b"PK\x05\x06".as_slice(), &[0; 4]].concat());
    out.extend([&(count as u16).to_le_bytes()[..]; 2].concat());
    out.extend([&number(directory.len())[..], &number(first), &[0; 2]].concat());
    out
}

fn named(files: &[Vec<u8>; 3]) -> Vec<(&'static str, &[u8])> {
    NAMES.iter().copied().zip(files.iter().map(Vec::as_slice)).collect()
}

#[test]
fn a_folder_and_archives_give_the_same_model() {
    let dir = tempfile::tempdir().expect("directory");
    let files = files(&[("fanouts", "[25, 10]")]);
    put(&dir.path().join("folder"), &files);
    let whole = ModelFile::open(&dir.path().join("folder")).expect("model");
    assert_eq!((whole.said("fanouts"), whole.graph.nodes().len()), (Some("[25, 10]"), 2));
    let at = dir.path().join("model.ngm");
    for wide in [false, true] {
        fs::write(&at, archive(&named(&files), 0, wide)).expect("archive");
        let found = ModelFile::open(&at).expect("model");
        assert_eq!((found.identity, found.graph.text()), (whole.identity, whole.graph.text()));
    }
    symlink(&at, dir.path().join("link.ngm")).expect("link");
    assert!(ModelFile::open(&dir.path().join("link.ngm")).is_ok(), "the path itself may be a link");
    put(&dir.path().join("other"), &self::files(&[("fanouts", "[25, 11]")]));
    let other = ModelFile::open(&dir.path().join("other")).expect("model");
    assert!(whole.identity.is_some() && other.identity != whole.identity);
}

#[test]
fn folders_that_are_not_whole_are_refused() {
    let dir = tempfile::tempdir().expect("directory");
    let refused = |spoil: &dyn Fn(&Path)| {
        let at = dir.path().join("model");
        put(&at, &files(&[]));
        spoil(&at);
        let error = ModelFile::open(&at).expect_err("it is not whole");
        fs::remove_dir_all(&at).expect("removed");
        error
    };
    let missing = ModelFile::open(&dir.path().join("none"));
    assert!(matches!(missing, Err(ModelFileError::NotFound { .. })));
    for name in NAMES {
        let gone = refused(&|at| fs::remove_file(at.join(name)).expect("removed"));
        assert!(gone.to_string().contains(name), "{gone}");
        let linked = refused(&|at| {
            fs::rename(at.join(name), at.join("moved")).expect("moved");
            symlink("moved", at.join(name)).expect("link");
        });
        assert!(matches!(linked, ModelFileError::Unreadable { .. }), "{linked}");
        let pipe = refused(&|at| {
            fs::remove_file(at.join(name)).expect("removed");
            let made = std::process::Command::new("mkfifo").arg(at.join(name)).status();
            assert!(made.expect("mkfifo").success());
        });
        assert!(matches!(pipe, ModelFileError::NotRegular { .. }), "{pipe}");
        let folder = refused(&|at| {
            fs::remove_file(at.join(name)).expect("removed");
            fs::create_dir(at.join(name)).expect("folder");
        });
        assert!(matches!(folder, ModelFileError::Unreadable { .. }), "{folder}");
        let changed = refused(&|at| {
            let mut bytes = fs::read(at.join(name)).expect("bytes");
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            fs::write(at.join(name), bytes).expect("file");
        });
        let is_manifest = name == NAMES[0];
        assert!(match changed {
            ModelFileError::Changed { name: found, .. } => found == name && !is_manifest,
            ModelFileError::Manifest { .. } => is_manifest,
            _ => false,
        });
    }
    let large = refused(&|at| {
        fs::File::create(at.join(NAMES[0])).and_then(|file| file.set_len(65_537)).expect("file");
    });
    let too_large = |error: &ModelFileError| {
        matches!(
            error,
            ModelFileError::Unreadable { source: SourceError::TooLarge { limit: 65_536, .. } }
        )
    };
    assert!(too_large(&large), "{large}");
    let newer = refused(&|at| {
        let text = fs::read_to_string(at.join(NAMES[0])).expect("text");
        fs::write(at.join(NAMES[0]), text.replace("\"version\": 1", "\"version\": 2"))
            .expect("file");
    });
    assert!(matches!(newer, ModelFileError::Version { version: 2, .. }), "{newer}");
}

#[test]
fn archives_that_are_not_whole_are_refused_and_none_is_read_as_another_model() {
    let dir = tempfile::tempdir().expect("directory");
    let (at, files) = (dir.path().join("model.ngm"), files(&[]));
    let open = |bytes: &[u8]| {
        fs::write(&at, bytes).expect("archive");
        ModelFile::open(&at)
    };
    let all = named(&files);
    let known = open(&archive(&all, 0, false)).expect("model").identity;
    let compressed = open(&archive(&all, 8, false));
    assert!(matches!(compressed, Err(ModelFileError::Compressed { .. })), "{compressed:?}");
    let some = [&all[..2], &[("model\n.txt", b"x".as_slice())]].concat();
    for other in [&all[..2], &[], &some[..], &[&all[..], &all[..1]].concat()[..]] {
        let found = open(&archive(other, 0, false)).expect_err("other files");
        assert!(matches!(found, ModelFileError::OtherFiles { .. }), "{found}");
        assert!(!found.to_string().contains('\n'));
    }
    for wide in [false, true] {
        let whole = archive(&all, 0, wide);
        let directory = whole.len() - 350..whole.len();
        for at in directory.clone().step_by(3) {
            assert!(open(&whole[..at]).is_err(), "cut at {at} of {}", whole.len());
        }
        let mut random = Random::new(11);
        for _ in 0..200 {
            let mut spoilt = whole.clone();
            let place = directory.start + random.below(350) as usize;
            spoilt[place] = random.below(256) as u8;
            // Times and the like say nothing of the model.
            if let Ok(model) = open(&spoilt) {
                assert_eq!(model.identity, known, "byte {place} of {}", whole.len());
            }
        }
    }
    let before = open(&[b"#!".as_slice(), &archive(&all, 0, false)].concat());
    assert!(matches!(before, Err(ModelFileError::NotAnArchive { .. })), "{before:?}");
}

#[test]
fn fanouts_are_laid_out_by_edge_type() {
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), 40, 1);
    let (store, _) = open(dir.path(), 64 << 20);
    let snapshot = store.snapshot();
    let fanouts = |said: &[(&str, &str)]| {
        let path = dir.path().join("model.ngm");
        fs::write(&path, archive(&named(&files(said)), 0, false)).expect("archive");
        ModelFile::open(&path).expect("model").fanouts(snapshot.catalog())
    };
    for text in ["[25, -1]", r#"{"node__to__node": [25, -1]}"#, r#"{"to": [25.0, -1]}"#] {
        let found = fanouts(&[("fanouts", text)]).expect("fanouts");
        assert_eq!((found.hops(), found.get(EdgeTypeId(0), 1)), (2, -1), "{text}");
        assert_eq!(found.get(EdgeTypeId(0), 0), 25, "{text}");
    }
    let wrong = [
        "null",
        "3",
        "{}",
        "[true]",
        "[2.5]",
        "[-2]",
        "[2147483648]",
        "[[1]]",
        r#"{"no": [1]}"#,
        r#"{"to": [1], "node__node": [1]}"#,
        r#"{"to": 1}"#,
        "[1",
    ]; // one a line
    for text in wrong {
        let error = fanouts(&[("fanouts", text)]).expect_err(text);
        assert!(matches!(error, EngineError::Metadata { .. }), "{text}: {error}");
    }
    assert!(fanouts(&[]).is_err());
}

#[test]
fn errors_are_explained() {
    let path = || "model.ngm".into();
    let text = || "text".to_owned();
    let source = || SourceError::NotFound { path: path() };
    let decoded = ng_infer::onnx::Model::decode(&[1]).expect_err("no model").into();
    let errors = every_variant!(ModelFileError {
        NotFound { path: path() },
        NotRegular { path: path() },
        Unreadable { source: source() },
        NotAnArchive { path: path(), problem: text() },
        OtherFiles { path: path(), found: text() },
        Compressed { path: path(), name: "model.onnx" },
        TooLarge { path: path(), name: "model.onnx", bytes: 2, limit: 1 },
        Manifest { path: path(), problem: text() },
        Version { path: path(), format: text(), version: 2 },
        Changed { path: path(), name: "model.onnx" },
        Graph { path: path(), error: decoded },
    });
    assert_for_every_face(&errors);
}
