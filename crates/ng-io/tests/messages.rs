//! Each variant of the errors of this crate is explained, in words that every face can show.

use std::io;
use std::sync::Arc;

use ng_io::{
    OpenError, ReadError, Refusal, ScratchError, ShmError, SocketError, SourceError, StagingError,
    WriteError,
};
use ng_testing::{assert_for_every_face, every_variant};
use ng_types::{ErrorKind, Explain};

fn cause() -> Arc<io::Error> {
    Arc::new(io::Error::other("cause"))
}

#[test]
fn reads() {
    let file = || "file".into();
    let errors = every_variant!(ReadError {
        Open { file: file(), source: cause() },
        Io { file: file(), offset: 0, len: 1, source: cause() },
        EndOfFile { file: file(), offset: 0, len: 1, file_bytes: 0 },
        Misaligned { file: file(), offset: 1, len: 1 },
        Stalled { file: file(), offset: 0, tries: 1, source: cause() },
        Queue { backend: "uring", source: cause() },
        Forked { opened_in: 1, used_in: 2 },
    });
    assert_for_every_face(&errors);
    let defects = errors.iter().filter(|error| error.kind() == ErrorKind::Defect);
    assert_eq!(defects.count(), 1);
}

#[test]
fn writes() {
    let file = || "file".into();
    assert_for_every_face(&every_variant!(WriteError {
        Create { file: file(), source: cause() },
        Open { file: file(), source: cause() },
        DiskFull { file: file(), offset: 0, wanted_bytes: 1, source: cause() },
        Io { file: file(), offset: 0, source: cause() },
        Sync { file: file(), source: cause() },
        Poisoned { file: file() },
    }));
}

#[test]
fn directories_and_the_files_of_users() {
    let path = || "path".into();
    assert_for_every_face(&every_variant!(OpenError {
        NotFound { path: path() },
        NotADirectory { path: path() },
        Unavailable { backend: "uring", path: path(), reason: "reason".into() },
        Io { path: path(), source: io::Error::other("cause") },
    }));
    let errors = every_variant!(StagingError {
        Exists { path: path() },
        Busy { path: path() },
        BadName { path: path() },
        NoParent { path: path() },
        Io { action: "make", path: path(), source: io::Error::other("cause") },
    });
    assert_for_every_face(&errors);
    let failed = errors.iter().filter(|error| error.kind() == ErrorKind::IoFailed);
    assert_eq!(failed.count(), 1);
    assert_for_every_face(&every_variant!(ScratchError {
        DiskFull { directory: path(), source: cause() },
        Truncated { directory: path(), offset: 0, len: 1 },
        Io { action: "make", directory: path(), source: cause() },
    }));
    assert_for_every_face(&every_variant!(SourceError {
        NotFound { path: path() },
        IsADirectory { path: path() },
        Truncated { path: path(), offset: 0, len: 1, file_bytes: 0 },
        NotSeekable { path: path() },
        TooLarge { path: path(), bytes: 2, limit: 1 },
        Io { action: "open", path: path(), source: cause() },
    }));
}

#[test]
fn rings_and_their_sockets() {
    let path = || "path".into();
    assert_for_every_face(&every_variant!(SocketError {
        BadPath { path: path() },
        InUse { path: path() },
        Foreign { path: path() },
        Io { action: "listen at", path: path(), source: io::Error::other("cause") },
    }));
    assert_for_every_face(&every_variant!(Refusal {
        Version { server: 2 },
        Full,
        OtherUser,
        BadRequest,
        NoMemory,
    }));
    let errors = every_variant!(ShmError {
        Socket(SocketError::InUse { path: path() }),
        RingBytes { bytes: 5 },
        NoServer { path: path() },
        OtherUser { path: path(), uid: 7 },
        Refused { path: path(), why: Refusal::Full },
        BadAnswer { path: path(), what: "what" },
        UnsafeMemory { path: path(), what: "what" },
        TooLong { bytes: 2, bytes_max: 1 },
        Garbled { what: "what" },
        PeerGone,
        Closed,
        TimedOut,
        Forked { made_in: 1, used_in: 2 },
        Io { action: "map", source: io::Error::other("cause") },
    });
    assert_for_every_face(&errors);
    let mendable = errors.iter().filter(|error| error.kind() == ErrorKind::UnsupportedArgument);
    assert_eq!(mendable.count(), 3);
}
