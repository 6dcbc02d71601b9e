//! Each variant of the errors of this crate is explained, in words that every face can show.

use std::io;

use ng_sample::{CompiledError, ReorganizeError, SampleError};
use ng_store::{DirectError, ReadError, SealedError, UpdateError};
use ng_testing::{assert_for_every_face, every_variant};
use ng_types::{ErrorKind, Explain};

fn text() -> String {
    "text".to_owned()
}

fn read() -> ReadError {
    ReadError::Damaged { file: text(), page: 0, what: text() }
}

fn count(errors: &[impl Explain], kind: ErrorKind) -> usize {
    errors.iter().filter(|error| error.kind() == kind).count()
}

#[test]
fn batches() {
    let errors = every_variant!(SampleError {
        Spec(text()),
        Weight { relation: text(), destination: 0, position: 0, weight: -1.0 },
        NoNegative { relation: text(), node: 0, tries: 100 },
        NoReverse { relation: text() },
        NoEdgeIds { edge_type: text() },
        TooManyRows { tensor: text(), num_rows: 1 },
        Read(read()),
        Compiled(CompiledError::NoEpochs { directory: text() }),
        Direct(DirectError::Damaged { file: text(), page: 0, section: 0, what: text() }),
        Budget { wanted_bytes: 1, held_bytes: 1, limit_bytes: 1, minimum_bytes: 2 },
        TooSmallToLookAhead {
            wanted_bytes: 2,
            free_bytes: 1,
            limit_bytes: 1,
            minimum_bytes: 2,
        },
        NoMemory { bytes: 1, source: io::Error::other("cause") },
        Spill(ng_io::ScratchError::Truncated { directory: "path".into(), offset: 0, len: 1 }),
        MadeRoom,
        Stopped,
        NoThread { source: io::Error::other("cause") },
        ThreadLost,
    });
    assert_for_every_face(&errors);
    assert_eq!(count(&errors, ErrorKind::BudgetTooSmall), 3);
    assert_eq!(count(&errors, ErrorKind::StoreDamaged), 2);
}

#[test]
fn compiled_epochs() {
    let errors = every_variant!(CompiledError {
        Sealed(SealedError::NotWhole { file: text(), kind: "compiled epoch", what: text() }),
        Damaged { file: text(), batch: 0, offset: 0, what: text() },
        NoEpochs { directory: text() },
        Incomplete {
            file: text(),
            first: 0,
            last: 2,
            missing: 1,
            wanted: text(),
            is_there: false,
        },
        Mismatch { file: text(), field: text(), found: text(), wanted: text() },
    });
    assert_for_every_face(&errors);
    assert_eq!(count(&errors, ErrorKind::StoreDamaged), 3);
    assert_eq!(count(&errors, ErrorKind::CompiledMismatch), 2);
}

#[test]
fn reorganizing() {
    let errors = every_variant!(ReorganizeError {
        Spec(text()),
        Memory { nodes: 1, minimum_bytes: 2, limit_bytes: 1 },
        Stopped,
        Sample(SampleError::Spec(text())),
        Read(read()),
        Update(UpdateError::Stopped),
    });
    assert_for_every_face(&errors);
    assert_eq!(count(&errors, ErrorKind::Stopped), 2);
}
