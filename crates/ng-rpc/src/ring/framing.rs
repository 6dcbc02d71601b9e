//! Messages behind the five bytes of gRPC, as bodies of HTTP carry them.

use tonic::Status;
use tonic::codegen::Bytes;

/// A flag that says whether it is compressed, and the length.
pub(super) const PREFIX_BYTES: usize = 5;

/// The bytes before a message.
pub(super) fn prefix(len: usize) -> [u8; PREFIX_BYTES] {
    let [a, b, c, d] = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    [0, a, b, c, d]
}

/// Cuts what a body yields, which may end anywhere, into pieces of messages.
#[derive(Default)]
pub(super) struct Cutter {
    prefix: [u8; PREFIX_BYTES],
    filled: usize,
    /// Bytes of the message that are still to come.
    left: usize,
}

impl Cutter {
    /// The next piece in `chunk` and whether the message ends with it; `None` if all was taken.
    pub fn next(&mut self, chunk: &mut Bytes) -> Result<Option<(Bytes, bool)>, Status> {
        if self.left == 0 {
            let taken = chunk.len().min(PREFIX_BYTES - self.filled);
            self.prefix[self.filled..self.filled + taken].copy_from_slice(&chunk.split_to(taken));
            self.filled += taken;
            if self.filled < PREFIX_BYTES {
                return Ok(None);
            }
            let [flag, len @ ..] = self.prefix;
            if flag != 0 {
                return Err(Status::unimplemented(
                    "this transport does not support compressed messages",
                ));
            }
            (self.filled, self.left) = (0, u32::from_be_bytes(len) as usize);
            if self.left == 0 {
                return Ok(Some((Bytes::new(), true)));
            }
        }
        if chunk.is_empty() {
            return Ok(None);
        }
        let piece = chunk.split_to(chunk.len().min(self.left));
        self.left -= piece.len();
        Ok(Some((piece, self.left == 0)))
    }

    /// Whether nothing is begun.
    pub fn is_between(&self) -> bool {
        self.left == 0 && self.filled == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_wherever_a_body_is_cut() {
        let mut all = Vec::new();
        for message in [&b"first"[..], b"", b"the second"] {
            all.extend(prefix(message.len()));
            all.extend(message);
        }
        for step in 1..=all.len() {
            let (mut cutter, mut found) = (Cutter::default(), vec![Vec::new()]);
            for chunk in all.chunks(step) {
                let mut chunk = Bytes::copy_from_slice(chunk);
                while let Some((piece, last)) = cutter.next(&mut chunk).expect("valid") {
                    found.last_mut().expect("one").extend(piece);
                    if last {
                        found.push(Vec::new());
                    }
                }
            }
            assert!(cutter.is_between());
            assert_eq!(found, [&b"first"[..], b"", b"the second", b""], "cut each {step} bytes");
        }
        let mut chunk = Bytes::from_static(&[1, 0, 0, 0, 0]);
        assert!(Cutter::default().next(&mut chunk).is_err());
    }
}
