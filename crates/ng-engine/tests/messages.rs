//! Each variant of the errors of this crate is explained, in words that every face can show.

use std::io;

use ng_engine::EngineError;
use ng_infer::run::RunError;
use ng_sample::{ReorganizeError, SampleError};
use ng_store::ReadError;
use ng_testing::{assert_for_every_face, every_variant};
use ng_types::{ErrorKind, Explain};

fn text() -> String {
    "text".to_owned()
}

#[test]
fn engines() {
    let errors = every_variant!(EngineError {
        Input { input: text(), problem: text() },
        Schema { difference: text() },
        Metadata { entry: text(), problem: text() },
        Output { problem: text() },
        Question { problem: text() },
        Unknown { what: text(), ids: text(), bound: 1 },
        TooLarge { wanted_bytes: 2, free_bytes: 1, minimum_bytes: 3 },
        Sample(SampleError::Spec(text())),
        Read(ReadError::Damaged { file: text(), page: 0, what: text() }),
        Heat(ReorganizeError::Stopped),
        Run(RunError::MissingInput { name: text() }),
        Stopped,
        NoThread { source: io::Error::other("cause") },
    });
    assert_for_every_face(&errors);
    let count = |kind| errors.iter().filter(|error| error.kind() == kind).count();
    assert_eq!(count(ErrorKind::InvalidModel), 3);
    assert_eq!(count(ErrorKind::StoreDamaged), 1);
}
