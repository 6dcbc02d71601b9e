//! Each variant of the errors of layer-wise inference is explained, in words that every face can
//! show.

use std::io;
use std::sync::Arc;

use ng_engine::{EngineError, LayerwiseError};
use ng_infer::dfg::DfgError;
use ng_infer::dfg::levels::LevelsError;
use ng_infer::run::RunError;
use ng_testing::{assert_for_every_face, every_variant};
use ng_types::{ErrorKind, Explain};

fn text() -> String {
    "text".to_owned()
}

fn cause() -> Arc<io::Error> {
    Arc::new(io::Error::other("cause"))
}

#[test]
fn layer_wise_inference() {
    let write = ng_io::WriteError::DiskFull {
        file: "table".into(),
        offset: 0,
        wanted_bytes: 4096,
        source: cause(),
    };
    let errors = every_variant!(LayerwiseError {
        Model { node: text(), op: text(), problem: text() },
        Levels(LevelsError::Node { node: text(), op: text(), problem: text() }),
        Dfg(DfgError::NoOutput),
        Engine(EngineError::Input { input: text(), problem: text() }),
        Run(RunError::MissingInput { name: text() }),
        Read(ng_store::ReadError::Damaged { file: text(), page: 0, what: text() }),
        TooSmall { limit_bytes: 1, minimum_bytes: 2 },
        Open(ng_io::OpenError::NotFound { path: "path".into() }),
        ReadTable(ng_io::ReadError::Open { file: "table".into(), source: cause() }),
        Write { folder: text(), source: write },
        Folder { action: "lock", folder: text(), source: io::Error::other("cause") },
        Busy { folder: text() },
        Damaged { file: text(), first: 0, last: 1023 },
        Stopped { folder: text() },
    });
    assert_for_every_face(&errors);
    let kinds = |kind| errors.iter().filter(|error| error.kind() == kind).count();
    assert_eq!(kinds(ErrorKind::InvalidModel), 5);
    assert_eq!(kinds(ErrorKind::IoFailed), 4);
    assert_eq!(kinds(ErrorKind::StoreDamaged), 2);
}
