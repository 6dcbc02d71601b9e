//! Each variant of the errors of this crate is explained, in words that every face can show.

use std::io;

use ng_import::{ArrowError, Fault, ImportError, Note};
use ng_testing::{assert_for_every_face, every_variant};
use ng_types::{ErrorKind, Explain, Remedy};

#[test]
fn imports() {
    let (text, path) = (|| "text".to_owned(), || "path".into());
    let fault = || Fault { what: "what".into(), remedy: Some(Remedy::Relabel) };
    let errors = every_variant!(ImportError {
        Line { path: path(), line: 1, what: fault(), text: text() },
        Row { array: text(), row: 1, what: fault() },
        File { path: path(), what: text() },
        Spec(text()),
        DiskFull { what: "data", cause: text() },
        Io { doing: "read", path: path(), source: io::Error::other("cause") },
        Store(ng_store::BuildError::Invalid { what: text() }),
        RowCount { what: text(), expected: 1, found: 2 },
        Source(ng_io::SourceError::NotFound { path: path() }),
        Scratch(ng_io::ScratchError::Truncated { directory: path(), offset: 0, len: 1 }),
        Place(ng_io::StagingError::Busy { path: path() }),
        Busy { path: path() },
        Locked(ng_io::OpenError::NotFound { path: path() }),
        BudgetTooSmall { wanted_bytes: 1, minimum_bytes: 2 },
        Strict { notes: vec![Note::new("code", 1, text(), text())] },
        Cancelled,
        Failed { reason: text() },
    });
    assert_for_every_face(&errors);
    let advised = errors.iter().filter(|error| error.explain().1 == [Remedy::Relabel]);
    assert_eq!(advised.count(), 2);
    let failed = errors.iter().filter(|error| error.kind() == ErrorKind::IoFailed);
    assert_eq!(failed.count(), 4);
}

#[test]
fn columns() {
    let column = || "name".into();
    assert_for_every_face(&every_variant!(ArrowError {
        Damaged { batch: 1, what: "it is cut off" },
        Type { column: column(), found: "text".into() },
        Null { batch: 1, column: column(), row: 2 },
        Compressed { batch: 1 },
        TooLarge { batch: 1, bytes: 2, limit: 1 },
    }));
}
