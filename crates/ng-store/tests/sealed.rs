//! Sealed files: whole under their name or not there, and refused if a byte of the frame is wrong.

#![allow(clippy::expect_used)]

use std::path::Path;

use ng_io::{BackendChoice, OpenOptions, Reader, open_dir};
use ng_store::{Sealed, SealedError, SealedKind, SealedWriter};
use ng_types::{ErrorKind, Explain};

type Text = Vec<(String, u64)>;

const LIKE: SealedKind = SealedKind {
    name: "test file",
    suffix: ".test",
    magic: b"ngtest\0\0",
    end_magic: Some(b"ngtesend"),
    version: 3,
};
static WITH_END: SealedKind = LIKE;
static WITHOUT_END: SealedKind = SealedKind { end_magic: None, magic: b"ngbare\0\0", ..LIKE };
static NEXT_VERSION: SealedKind = SealedKind { version: 4, ..LIKE };
const KINDS: [&SealedKind; 2] = [&WITH_END, &WITHOUT_END];
const FILE: &str = "a.test";

fn text() -> Text {
    vec![("maps".into(), 10), ("more".into(), 7)]
}

fn begin(dir: &Path, kind: &'static SealedKind) -> Result<SealedWriter, SealedError> {
    SealedWriter::create(dir, FILE, kind, &text(), &[7; 10])
}

/// Writes a file of two pages of contents, the second before the first.
fn write(dir: &Path, kind: &'static SealedKind) -> u64 {
    let mut writer = begin(dir, kind).expect("begun");
    let at = writer.position();
    writer.allocate(at + 8192).expect("allocated");
    writer.write_at(at + 4096, &[2; 4096]).expect("written");
    writer.write_at(at, &[1; 4096]).expect("written");
    writer.append(&[3; 5]).expect("appended");
    writer.pad_to(4096).expect("padded");
    writer.seal(kind.end_magic.map(|_| vec![0; 64])).expect("sealed")
}

fn reader(dir: &Path) -> Reader {
    let disk = open_dir(dir, BackendChoice::Pread, &OpenOptions::default()).expect("dir").disk;
    Reader::in_directory(disk, dir)
}

fn read_by(reader: &Reader, kind: &SealedKind) -> Result<Sealed<Text>, SealedError> {
    kind.open(reader, FILE, |text: &Text| text.first().map_or(0, |(_, bytes)| *bytes))
}

fn read(dir: &Path, kind: &SealedKind) -> Result<Sealed<Text>, SealedError> {
    read_by(&reader(dir), kind)
}

#[test]
fn a_file_is_read_as_it_was_written_and_every_changed_byte_of_its_frame_is_refused() {
    for kind in KINDS {
        let dir = tempfile::tempdir().expect("dir");
        let bytes = write(dir.path(), kind);
        let sealed = read(dir.path(), kind).expect("opens");
        assert_eq!((sealed.text, sealed.maps), (text(), vec![7; 10]));
        let ends = u64::from(kind.end_magic.is_some());
        assert_eq!((sealed.start, sealed.end), (8192, bytes - ends * 4096));
        assert_eq!(sealed.last.len() as u64, ends * 4096);
        let path = dir.path().join(FILE);
        let whole = std::fs::read(&path).expect("reads");
        assert_eq!(whole.len() as u64, bytes);
        assert_eq!(whole[8192..16384], [[1; 4096], [2; 4096]].concat());
        let reader = reader(dir.path());
        let end = sealed.end as usize;
        let frame = (0..100).chain(4090..4110).chain((100..8192).step_by(61));
        for at in frame.chain((end..whole.len()).step_by(13)) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            std::fs::write(&path, &damaged).expect("writes");
            let error = read_by(&reader, kind).expect_err("refused");
            // Nothing says which of two versions is right where there is no end.
            let is_version = ends == 0 && (8..12).contains(&at);
            assert_eq!(matches!(error, SealedError::Version { .. }), is_version, "{at}: {error}");
            assert!(error.to_string().contains(FILE), "{error}");
            assert_eq!(error.kind() == ErrorKind::StoreDamaged, !is_version, "{at}: {error}");
        }
    }
}

#[test]
fn a_file_cut_short_or_with_a_length_that_lies_is_refused_without_memory_for_it() {
    for kind in KINDS {
        let dir = tempfile::tempdir().expect("dir");
        write(dir.path(), kind);
        let path = dir.path().join(FILE);
        let whole = std::fs::read(&path).expect("reads");
        let refused = |bytes: &[u8], what: &str| {
            std::fs::write(&path, bytes).expect("writes");
            let error = read(dir.path(), kind).expect_err("refused");
            assert!(matches!(error, SealedError::NotWhole { .. }), "{error}");
            assert!(error.to_string().contains(what), "{error}");
        };
        for len in [0, 100, 4095, whole.len() - 1] {
            refused(&whole[..len], "bytes");
        }
        refused(
            &whole[..4096],
            if kind.end_magic.is_some() { "bytes" } else { "maps are truncated" },
        );
        refused(&[b"something else: ", &whole[16..]].concat(), "wrong magic bytes");
        let with_length = |len: u32| {
            let mut bytes = whole.clone();
            bytes[12..16].copy_from_slice(&len.to_le_bytes());
            if kind.end_magic.is_some() {
                let at = bytes.len() - 4096;
                let crc = ng_types::checksum::of(&bytes[..32]);
                bytes[at + 56..at + 60].copy_from_slice(&crc.to_le_bytes());
                ng_types::checksum::seal(&mut bytes[at..], 0..4092, 4092);
            }
            bytes
        };
        refused(&with_length(u32::MAX), "a head of 4294967295 bytes");
        refused(&with_length(1 << 20), "its head is truncated");
        refused(&with_length(3), "checksum");
    }
}

#[test]
fn maps_longer_than_the_file_are_refused_whatever_the_text_claims() {
    let dir = tempfile::tempdir().expect("dir");
    for claimed in [u64::MAX, u64::MAX - 4096, 1 << 40, 100_000] {
        let text: Text = vec![("maps".into(), claimed)];
        let writer = SealedWriter::create(dir.path(), FILE, &WITH_END, &text, &[7; 10]);
        writer.expect("begun").seal(Some(Vec::new())).expect("sealed");
        let error = read(dir.path(), &WITH_END).expect_err("refused").to_string();
        assert!(error.contains("maps are truncated"), "{error}");
    }
}

#[test]
fn another_version_is_outdated_only_where_both_ends_of_the_file_say_so() {
    let dir = tempfile::tempdir().expect("dir");
    write(dir.path(), &NEXT_VERSION);
    let error = read(dir.path(), &WITH_END).expect_err("refused");
    let SealedError::Version { found: 4, wanted: 3, .. } = error else { panic!("{error}") };
    assert!(
        error.kind() == ErrorKind::CompiledOutdated
            && error.to_string().contains("a test file of format version 4")
    );
    read(dir.path(), &NEXT_VERSION).expect("opens");
    // A first block of another version before the end of this one.
    let path = dir.path().join(FILE);
    let next = std::fs::read(&path).expect("reads");
    write(dir.path(), &WITH_END);
    let own = std::fs::read(&path).expect("reads");
    std::fs::write(&path, [&next[..4096], &own[4096..]].concat()).expect("writes");
    let error = read(dir.path(), &WITH_END).expect_err("refused");
    assert!(
        error.kind() == ErrorKind::StoreDamaged && error.to_string().contains("version 4"),
        "{error}"
    );
}

#[test]
fn the_end_of_another_file_is_refused() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join(FILE);
    let mut files = Vec::new();
    for map in [7, 8] {
        let writer = SealedWriter::create(dir.path(), FILE, &WITH_END, &text(), &[map; 10]);
        writer.expect("begun").seal(Some(Vec::new())).expect("sealed");
        files.push(std::fs::read(&path).expect("reads"));
    }
    let end = files[0].len() - 4096;
    std::fs::write(&path, [&files[0][..end], &files[1][end..]].concat()).expect("writes");
    let error = read(dir.path(), &WITH_END).expect_err("refused").to_string();
    assert!(error.contains("belongs to another file"), "{error}");
}

#[test]
fn one_process_writes_at_a_time_and_what_it_leaves_stands_in_nobodys_way() {
    let dir = tempfile::tempdir().expect("dir");
    let (partial, path) = (dir.path().join("a.test.partial"), dir.path().join(FILE));
    let first = begin(dir.path(), &WITH_END).expect("begun");
    let busy = begin(dir.path(), &WITH_END).err().expect("busy");
    assert!(matches!(busy, SealedError::Busy { .. }) && busy.to_string().contains(FILE), "{busy}");
    assert!(partial.exists() && !path.exists());
    drop(first);
    assert!(!partial.exists(), "nothing stays of a file that was given up");
    std::fs::write(&partial, b"what a killed writer leaves").expect("writes");
    assert!(read(dir.path(), &WITH_END).is_err());
    assert_eq!(WITH_END.list(dir.path()).expect("listed"), [""; 0]);
    write(dir.path(), &WITH_END);
    assert!(!partial.exists() && path.exists());
    // A writer that is given up leaves the file that was there.
    let before = std::fs::read(&path).expect("reads");
    drop(begin(dir.path(), &WITH_END).expect("begun"));
    assert_eq!(std::fs::read(&path).expect("reads"), before);
    assert_eq!(WITH_END.list(dir.path()).expect("listed"), [FILE]);
    assert_eq!(WITH_END.list(&dir.path().join("none")).expect("listed"), [""; 0]);
    // What cannot be removed is said.
    std::fs::create_dir(&partial).expect("made");
    let error = begin(dir.path(), &WITH_END).err().expect("refused").to_string();
    assert!(error.contains("cannot remove leftovers of") && error.contains(FILE), "{error}");
}

#[test]
fn a_text_that_no_reader_would_take_is_not_written() {
    let dir = tempfile::tempdir().expect("dir");
    let text: Text = vec![("x".repeat(17 << 20), 0)];
    let error = SealedWriter::create(dir.path(), FILE, &WITH_END, &text, &[]).err();
    let error = error.expect("refused").to_string();
    assert!(error.contains("more than 16777216"), "{error}");
    assert!(!dir.path().join("a.test.partial").exists());
}
