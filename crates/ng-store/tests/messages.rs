//! Each variant of the errors of this crate is explained, in words that every face can show.

#![allow(clippy::expect_used)]

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ng_io::WriteError;
use ng_store::{
    BackupError, BuildError, DirectError, OpenError, ReadError, SealedError, UpdateError,
};
use ng_testing::{assert_for_every_face, every_variant};
use ng_types::{Budget, BudgetExceeded, ErrorKind, Explain, Remedy};

fn text() -> String {
    "text".to_owned()
}

fn budget() -> BudgetExceeded {
    Budget::new(100).reserve(200).expect_err("too much")
}

fn write() -> WriteError {
    WriteError::Poisoned { file: "file".into() }
}

fn read() -> ReadError {
    ReadError::Damaged { file: text(), page: 0, what: text() }
}

fn io_read() -> ng_io::ReadError {
    ng_io::ReadError::Forked { opened_in: 1, used_in: 2 }
}

/// Errors of a kind, with the remedies of each.
fn of_kind(errors: &[impl Explain], kind: ErrorKind) -> Vec<Vec<Remedy>> {
    let explained = errors.iter().map(Explain::explain);
    explained.filter(|(of, _)| *of == kind).map(|(_, remedies)| remedies).collect()
}

#[test]
fn reads() {
    let errors = every_variant!(ReadError {
        Io(io_read()),
        Checksum { file: text(), page: 0, block: 0, expected: 1, found: 2 },
        Damaged { file: text(), page: 0, what: text() },
        NodeOutOfRange { node_type: text(), id: 1, num_nodes: 1 },
        RowOutOfRange { tensor: text(), row: 1, num_rows: 1 },
        PositionOutOfRange { node: 1, position: 1, degree: 1 },
        Missing { what: text() },
        OutputSize { expected: 1, found: 2 },
        Decode {
            tensor: text(),
            source: ng_simd::DecodeError::Scale { column: 0, scale: -1.0 },
        },
        Order { what: text() },
        Budget(budget()),
        NotYet,
        NoMemory { bytes: 1, source: io::Error::other("cause") },
    });
    assert_for_every_face(&errors);
    assert_eq!(of_kind(&errors, ErrorKind::StoreDamaged), vec![vec![Remedy::Restore]; 2]);
    let memory = of_kind(&errors, ErrorKind::BudgetTooSmall);
    let larger = vec![Remedy::RaiseMemory(212), Remedy::SmallerBatches];
    assert_eq!(memory, [larger, vec![Remedy::FreeMemory]]);
}

#[test]
fn opening() {
    let errors = every_variant!(OpenError {
        NotFound { path: text() },
        NotADirectory { path: text() },
        NotAStore { path: text() },
        NewerVersion { path: text(), found: 9, supported: 1 },
        RootsDamaged { path: text(), a: text(), b: text() },
        RootsDisagree { path: text(), checkpoint_id: 1 },
        Truncated { path: text(), file: text(), expected: 2, found: 1 },
        BudgetTooSmall { limit_bytes: 1, minimum_bytes: 2 },
        BackendUnavailable { path: text(), what: text() },
        Backend { path: text(), what: text() },
        Recovery { path: text(), source: Box::new(UpdateError::Stopped) },
        CommitsTooLarge {
            path: text(),
            commits: 1,
            cause: text(),
            limit_bytes: 1,
            minimum_bytes: 2,
        },
        Read(read()),
    });
    assert_for_every_face(&errors);
    assert_eq!(of_kind(&errors, ErrorKind::StoreNotFound), [[Remedy::Import]]);
    assert_eq!(of_kind(&errors, ErrorKind::StoreDamaged).len(), 4);
    assert!(of_kind(&errors, ErrorKind::IoFailed).contains(&vec![Remedy::AnyBackend]));
}

#[test]
fn building() {
    let errors = every_variant!(BuildError {
        Write(write()),
        Invalid { what: text() },
        OutOfOrder { what: text(), previous: text() },
        IdOutOfRange { kind: "source", id: 1, owner: text(), bound: 1 },
        RowCount { what: text(), expected: 1, found: 2 },
        TopologyMissing { edge_type: text() },
    });
    assert_for_every_face(&errors);
    assert_eq!(of_kind(&errors, ErrorKind::Defect).len(), 5);
}

#[test]
fn changing() {
    let missing = OpenError::NotFound { path: text() };
    let errors = every_variant!(UpdateError {
        Busy { path: text(), waited: Duration::ZERO },
        NodeNotFound { node_type: text(), id: 1, why: text() },
        EdgeNotFound { edge_type: text(), source_node: 1, destination: 2, detail: text() },
        ReverseMissing { edge_type: text(), id: 1 },
        RowWidth { tensor: text(), expected: 1, found: 2 },
        Sparse { tensor: text() },
        Unsupported { what: text() },
        Broken { cause: text() },
        Poisoned { cause: "cause".into() },
        LogDamaged { file: text(), lsn: 1, checkpoint_id: 1 },
        Stopped,
        Build(Arc::new(BuildError::Invalid { what: text() })),
        Open(Arc::new(missing)),
        Read(Arc::new(read())),
        Write(Arc::new(write())),
    });
    assert_for_every_face(&errors);
    assert_eq!(of_kind(&errors, ErrorKind::ReverseMissing), [[Remedy::KeepReverse]]);
    assert_eq!(of_kind(&errors, ErrorKind::StoreNotFound), [[Remedy::Import]]);
}

#[test]
fn the_direct_layout() {
    let errors = every_variant!(DirectError {
        Unsupported(text()),
        OnlyPaged(text()),
        RowsTooWide { row_bytes: 2, most: 1 },
        Store(read()),
        Budget(budget()),
        Sealed(SealedError::Busy { file: text() }),
        Scratch(ng_io::ScratchError::Truncated { directory: "path".into(), offset: 0, len: 1 }),
        Stopped,
        NoFile { directory: text() },
        Stale { file: text(), found: text(), found_lsn: 1, wanted: text(), wanted_lsn: 2 },
        Damaged { file: text(), page: 0, section: 0, what: text() },
    });
    assert_for_every_face(&errors);
    assert_eq!(of_kind(&errors, ErrorKind::BudgetTooSmall), [[Remedy::RaiseMemory(212)]]);
    assert_eq!(of_kind(&errors, ErrorKind::CompiledMismatch).len(), 2);
    assert_eq!(of_kind(&errors, ErrorKind::IoFailed).len(), 1);
}

#[test]
fn sealed_files() {
    let errors = every_variant!(SealedError {
        Open(ng_io::OpenError::NotFound { path: "path".into() }),
        Read(io_read()),
        Write(write()),
        Directory { action: "make", file: text(), source: io::Error::other("cause") },
        Busy { file: text() },
        NotWhole { file: text(), kind: "compiled epoch", what: text() },
        Version { file: text(), kind: "compiled epoch", found: 1, wanted: 2 },
    });
    assert_for_every_face(&errors);
    assert_eq!(of_kind(&errors, ErrorKind::IoFailed).len(), 4);
    assert_eq!(of_kind(&errors, ErrorKind::StoreDamaged).len(), 1);
    assert_eq!(of_kind(&errors, ErrorKind::CompiledOutdated).len(), 1);
}

#[test]
fn backups() {
    let path = || std::path::PathBuf::from("path");
    let errors = every_variant!(BackupError {
        NotFound { path: path() },
        NotABackup { path: path(), what: text() },
        NewerVersion { path: path(), found: 2, supported: 1 },
        Damaged { file: path(), what: text() },
        BaseMissing { path: path(), base: path() },
        BaseExchanged { path: path(), base: path(), what: text() },
        NotABase { base: path(), what: text() },
        TargetExists { path: path() },
        Unsupported { what: text() },
        Stopped,
        Staging(ng_io::StagingError::Busy { path: path() }),
        Read(read()),
        Write(write()),
        Checkpoint(Arc::new(UpdateError::Stopped)),
    });
    assert_for_every_face(&errors);
    assert_eq!(of_kind(&errors, ErrorKind::IoFailed).len(), 2);
    assert_eq!(of_kind(&errors, ErrorKind::StoreDamaged), [vec![], vec![Remedy::Restore]]);
}
