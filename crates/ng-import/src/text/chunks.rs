//! A text file as chunks of whole lines, in order. Compressed files are recognised by their first
//! bytes. A line longer than [`LINE_BYTES_MAX`] is an error, which bounds the memory.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;

use super::number::PADDING;

/// The longest line.
pub(super) const LINE_BYTES_MAX: usize = 4 << 20;
pub(super) const GZIP_MAGIC: [u8; 2] = [0x1F, 0x8B];
const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// Whole lines: the last one ends in a newline, and [`PADDING`] newlines follow the text.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// The place among the chunks of the file.
    pub(super) index: u64,
    bytes: Vec<u8>,
    len: usize,
}

impl Chunk {
    /// The lines.
    pub(super) fn text(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The lines and the padding.
    pub(super) fn padded(&self) -> &[u8] {
        &self.bytes[..self.len + PADDING]
    }

    /// Overwrites a part of a line by spaces, which leaves an empty line to be skipped.
    pub(super) fn blank(&mut self, start: usize, end: usize) {
        self.bytes[start..end].fill(b' ');
    }
}

/// Cuts a stream into chunks.
pub(super) struct Chunks {
    stream: Box<dyn Read + Send>,
    carried: Vec<u8>,
    chunk_bytes: usize,
    next_index: u64,
    ended: bool,
}

impl Chunks {
    pub(super) fn new(mut file: Box<dyn Read + Send>, chunk_bytes: usize) -> io::Result<Self> {
        let mut head = Vec::new();
        file.by_ref().take(3).read_to_end(&mut head)?;
        let stream: Box<dyn Read + Send> = if head.starts_with(&GZIP_MAGIC) {
            let whole = io::Cursor::new(std::mem::take(&mut head)).chain(file);
            Box::new(MultiGzDecoder::new(io::BufReader::with_capacity(128 << 10, whole)))
        } else {
            file
        };
        let mut chunks = Self { stream, carried: head, chunk_bytes, next_index: 0, ended: false };
        let missing = BYTE_ORDER_MARK.len().saturating_sub(chunks.carried.len()) as u64;
        chunks.stream.by_ref().take(missing).read_to_end(&mut chunks.carried)?;
        if chunks.carried.starts_with(&BYTE_ORDER_MARK) {
            chunks.carried.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(chunks)
    }

    /// Fills `chunk`; `false` at the end of the file.
    pub(super) fn next(&mut self, chunk: &mut Chunk) -> io::Result<bool> {
        let mut len = self.carried.len();
        let mut wanted = self.chunk_bytes.max(len + 1);
        let bytes = &mut chunk.bytes;
        grow(bytes, wanted + 1 + PADDING);
        bytes[..len].copy_from_slice(&self.carried);
        self.carried.clear();
        let mut searched = 0;
        let end = loop {
            while len < wanted && !self.ended {
                match self.stream.read(&mut bytes[len..wanted]) {
                    Ok(0) => self.ended = true,
                    Ok(count) => len += count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            if self.ended {
                if len > 0 && bytes[len - 1] != b'\n' {
                    bytes[len] = b'\n';
                    len += 1;
                }
                break len;
            }
            if let Some(newline) = memchr::memrchr(b'\n', &bytes[searched..len]) {
                break searched + newline + 1;
            }
            if len > LINE_BYTES_MAX {
                let what =
                    format!("a line has more than {LINE_BYTES_MAX} bytes, which is the limit");
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            searched = len;
            wanted = len * 2;
            grow(bytes, wanted + 1 + PADDING);
        };
        self.carried.extend_from_slice(&bytes[end..len]);
        grow(bytes, end + PADDING);
        bytes[end..end + PADDING].fill(b'\n');
        chunk.len = end;
        chunk.index = self.next_index;
        self.next_index += 1;
        Ok(end > 0)
    }
}

fn grow(bytes: &mut Vec<u8>, len: usize) {
    if bytes.len() < len {
        bytes.resize(len, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn lines(bytes: Vec<u8>, chunk_bytes: usize) -> io::Result<Vec<u8>> {
        let mut chunks = Chunks::new(Box::new(io::Cursor::new(bytes)), chunk_bytes)?;
        let (mut chunk, mut all) = (Chunk::default(), Vec::new());
        while chunks.next(&mut chunk)? {
            assert!(chunk.text().ends_with(b"\n"));
            assert!(chunk.padded().ends_with(&[b'\n'; PADDING]));
            all.extend_from_slice(chunk.text());
        }
        Ok(all)
    }

    #[test]
    fn chunks_of_any_size_give_the_same_lines() {
        let text: Vec<u8> =
            (0..500).flat_map(|i| format!("{i} {}\n", i * i).into_bytes()).collect();
        for chunk_bytes in [1, 7, 64, 1000, 1 << 20] {
            assert_eq!(lines(text.clone(), chunk_bytes).unwrap(), text);
            let unended = text[..text.len() - 1].to_vec();
            assert_eq!(lines(unended, chunk_bytes).unwrap(), text);
        }
        assert_eq!(lines(Vec::new(), 10).unwrap(), b"");
        assert_eq!(lines(b"\xEF\xBB\xBF1 2".to_vec(), 10).unwrap(), b"1 2\n");
    }

    #[test]
    fn gzip_members_are_read_one_after_the_other() {
        let member = |text: &[u8]| {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        };
        let bytes = [member(b"1 2\n3"), member(b" 4\n")].concat();
        assert_eq!(lines(bytes.clone(), 3).unwrap(), b"1 2\n3 4\n");
        assert!(lines(bytes[..bytes.len() - 4].to_vec(), 3).is_err());
    }

    #[test]
    fn an_endless_line_is_an_error() {
        let error = lines(vec![b'1'; LINE_BYTES_MAX * 3], 1000).unwrap_err();
        assert!(error.to_string().contains("a line has more than"));
    }
}
