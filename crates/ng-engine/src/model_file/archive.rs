//! Zip archives whose files are stored as they are: what model files may be.
//!
//! What must not live here: compression, and what the files are. The invariant: nothing is read,
//! and no memory taken, for a length that the archive itself, or a limit, does not allow.

use std::path::{Path, PathBuf};

use ng_io::{SourceError, SourceFile};

use super::ModelFileError;
use super::files::{DIRECTORY_BYTES_MAX, limits};

/// Bytes of the end of an archive, without its comment, and of the longest comment.
const END_BYTES: usize = 22;
const COMMENT_BYTES_MAX: usize = u16::MAX as usize;
/// Bytes of what stands before it where numbers of 32 bits are too small.
const WIDE_LOCATOR_BYTES: u64 = 20;
const WIDE_END_BYTES: u64 = 56;
/// Bytes of an entry of the directory, and of the header before a file, without names.
const ENTRY_BYTES: usize = 46;
const HEADER_BYTES: usize = 30;

/// The field of an entry that has its numbers in 64 bits.
const WIDE_FIELD: u16 = 1;
/// What stands in place of a number that is there.
const IS_WIDE: u64 = u32::MAX as u64;
/// Says that a file is encrypted.
const ENCRYPTED: u16 = 1;

/// Names that an error shows, and characters of each.
const NAMED_MAX: usize = 5;
const NAME_CHARS_MAX: usize = 80;

/// An open archive.
pub(super) struct Archive<'a> {
    path: &'a Path,
    file: &'a SourceFile,
    /// Where the directory begins.
    directory: u64,
}

/// A file in it.
struct Entry {
    name: Vec<u8>,
    method: u16,
    flags: u16,
    /// Bytes in the archive, and of the file.
    packed: u64,
    bytes: u64,
    offset: u64,
}

/// Fields of a record, front to back; 0 past its end.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, bytes: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn number(&mut self, bytes: usize) -> u64 {
        let digits = self.take(bytes).iter().rev();
        digits.fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn short(&mut self) -> u16 {
        self.number(2) as u16
    }
}

impl Archive<'_> {
    /// The files of a model in the order of [`limits`].
    pub fn read(path: &Path, file: &SourceFile) -> Result<[Vec<u8>; 3], ModelFileError> {
        let wrong = |problem: &str| not_one(path.to_owned(), problem);
        let len = file.len()?;
        let most =
            limits().iter().fold(DIRECTORY_BYTES_MAX, |sum, (_, limit)| sum.saturating_add(*limit));
        if len > most {
            let (path, bytes, limit) = (path.to_owned(), len, most);
            return Err(SourceError::TooLarge { path, bytes, limit }.into());
        }
        let (count, bytes, directory) = find_directory(file, len).map_err(|found| match found {
            Ok(problem) => wrong(problem),
            Err(error) => error.into(),
        })?;
        if bytes > DIRECTORY_BYTES_MAX {
            return Err(wrong("its central directory is too large"));
        }
        let this = Archive { path, file, directory };
        let records = this.part(directory, bytes)?;
        let entries =
            entries(&records, count).ok_or_else(|| wrong("its central directory is damaged"))?;
        let mut names: Vec<_> = entries.iter().map(|entry| entry.name.as_slice()).collect();
        names.sort_unstable();
        if names != limits().map(|(name, _)| name.as_bytes()) {
            let shown = names.iter().take(NAMED_MAX).map(|name| {
                let name = String::from_utf8_lossy(name);
                name.chars().take(NAME_CHARS_MAX).flat_map(char::escape_debug).collect::<String>()
            });
            let all = shown.collect::<Vec<_>>().join(", ");
            let found = if all.is_empty() { "nothing".to_owned() } else { all };
            return Err(ModelFileError::OtherFiles { path: path.to_owned(), found });
        }
        let [manifest, model, weights] = limits().map(|(name, limit)| {
            let entry = entries.iter().find(|entry| entry.name == name.as_bytes());
            let entry = entry.ok_or_else(|| wrong("its central directory is damaged"))?;
            this.whole(entry, (name, limit))
        });
        Ok([manifest?, model?, weights?])
    }

    /// All bytes of an entry.
    fn whole(
        &self,
        entry: &Entry,
        (name, limit): (&'static str, u64),
    ) -> Result<Vec<u8>, ModelFileError> {
        let path = || self.path.to_owned();
        let wrong = |problem: &str| not_one(path(), &format!("{name}: {problem}"));
        if entry.method != 0 {
            return Err(ModelFileError::Compressed { path: path(), name });
        }
        if entry.flags & ENCRYPTED != 0 {
            return Err(wrong("it is encrypted"));
        }
        let (bytes, limit) = (entry.bytes, limit.min(self.directory));
        if bytes > limit {
            return Err(ModelFileError::TooLarge { path: path(), name, bytes, limit });
        }
        if entry.packed != bytes {
            return Err(wrong("its compressed and uncompressed lengths differ"));
        }
        let header = self.part(entry.offset, HEADER_BYTES as u64)?;
        let mut fields = Fields(&header);
        let is_header = fields.take(4) == b"PK\x03\x04";
        fields.take(22);
        let (name_bytes, more) = (fields.short(), fields.short());
        let names = entry.offset + HEADER_BYTES as u64;
        if !is_header || self.part(names, u64::from(name_bytes))? != entry.name {
            return Err(wrong("its header is not at the offset in the central directory"));
        }
        self.part(names + u64::from(name_bytes) + u64::from(more), bytes)
    }

    /// Bytes before the directory, or of it.
    fn part(&self, offset: u64, bytes: u64) -> Result<Vec<u8>, ModelFileError> {
        let outside = || not_one(self.path.to_owned(), "it is truncated");
        let end = offset.checked_add(bytes).ok_or_else(outside)?;
        let is_inside = end <= self.directory || offset == self.directory;
        let len = usize::try_from(bytes).ok().filter(|_| is_inside).ok_or_else(outside)?;
        let mut part = vec![0; len];
        self.file.read_exact_at(offset, &mut part)?;
        Ok(part)
    }
}

fn not_one(path: PathBuf, problem: &str) -> ModelFileError {
    ModelFileError::NotAnArchive { path, problem: problem.to_owned() }
}

/// How many entries there are, the bytes of the directory, and where it begins. Errors are a
/// problem of the archive, or of reading it.
fn find_directory(
    file: &SourceFile,
    len: u64,
) -> Result<(u64, u64, u64), Result<&'static str, SourceError>> {
    let read = |offset: u64, bytes: u64| {
        let mut part = vec![0; bytes as usize];
        file.read_exact_at(offset, &mut part).map(|()| part).map_err(Err)
    };
    let tail_bytes = len.min((END_BYTES + COMMENT_BYTES_MAX) as u64);
    let tail = read(len - tail_bytes, tail_bytes)?;
    let is_end = |at: &usize| {
        let record = &tail[*at..];
        let comment = record.get(20..END_BYTES).map(|bytes| Fields(bytes).short());
        let has = comment.map(|comment| END_BYTES + usize::from(comment));
        record.starts_with(b"PK\x05\x06") && has == Some(record.len())
    };
    let at = (0..tail.len()).rev().find(is_end);
    let at = at.ok_or(Ok("the end record of a ZIP archive is missing"))?;
    let mut fields = Fields(&tail[at + 10..]);
    let (mut count, mut bytes, mut first) = (fields.number(2), fields.number(4), fields.number(4));
    let mut end = len - tail_bytes + at as u64;
    let is_wide = count == u64::from(u16::MAX) || bytes == IS_WIDE || first == IS_WIDE;
    if is_wide && end >= WIDE_LOCATOR_BYTES {
        let locator = read(end - WIDE_LOCATOR_BYTES, WIDE_LOCATOR_BYTES)?;
        let mut fields = Fields(&locator);
        if fields.take(4) == b"PK\x06\x07" {
            fields.take(4);
            end = fields.number(8);
            let fits = end.checked_add(WIDE_END_BYTES).is_some_and(|end| end <= len);
            let record = if fits { read(end, WIDE_END_BYTES)? } else { Vec::new() };
            let mut fields = Fields(&record);
            if fields.take(4) != b"PK\x06\x06" {
                return Err(Ok("its ZIP64 end record is missing"));
            }
            fields.take(28);
            (count, bytes, first) = (fields.number(8), fields.number(8), fields.number(8));
        }
    }
    // Nothing else stands there: what was put before an archive would move all places.
    if first.checked_add(bytes) != Some(end) {
        return Err(Ok("its central directory is not at the recorded offset"));
    }
    Ok((count, bytes, first))
}

/// The entries of a directory; `None` if it is no whole number of them.
fn entries(records: &[u8], count: u64) -> Option<Vec<Entry>> {
    let mut rest = Fields(records);
    let mut all = Vec::new();
    while !rest.0.is_empty() {
        let mut fields = Fields(rest.0.get(..ENTRY_BYTES)?);
        rest.take(ENTRY_BYTES);
        if fields.take(4) != b"PK\x01\x02" {
            return None;
        }
        fields.take(4);
        let (flags, method) = (fields.short(), fields.short());
        fields.take(8);
        let (mut packed, mut bytes) = (fields.number(4), fields.number(4));
        let lens = [fields.short(), fields.short(), fields.short()].map(usize::from);
        fields.take(8);
        let mut offset = fields.number(4);
        if rest.0.len() < lens.iter().sum() {
            return None;
        }
        let [name, more, _] = lens.map(|len| rest.take(len));
        let mut more = Fields(more);
        while !more.0.is_empty() {
            let (kind, len) = (more.short(), more.short());
            let mut wide = Fields(more.take(usize::from(len)));
            if kind == WIDE_FIELD {
                for number in [&mut bytes, &mut packed, &mut offset] {
                    if *number == IS_WIDE {
                        *number = wide.number(8);
                    }
                }
            }
        }
        all.push(Entry { name: name.to_vec(), method, flags, packed, bytes, offset });
    }
    (all.len() as u64 == count).then_some(all)
}
