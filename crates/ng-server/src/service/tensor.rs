//! Arrays as messages.

use ng_engine::Answer;
use ng_infer::dfg::Elements;
use ng_rpc::v1;

/// An answer as a message.
pub fn tensor(answer: &Answer) -> v1::Tensor {
    fn bytes<const N: usize, T: Copy>(all: &[T], to: impl Fn(T) -> [u8; N]) -> Vec<u8> {
        let mut out = Vec::with_capacity(N * all.len());
        out.extend(all.iter().flat_map(|one| to(*one)));
        out
    }
    let (dtype, data) = match &answer.elements {
        Elements::F32(all) => (v1::Dtype::F32, bytes(all, f32::to_le_bytes)),
        Elements::I64(all) => (v1::Dtype::I64, bytes(all, i64::to_le_bytes)),
        Elements::Bool(all) => (v1::Dtype::Bool, bytes(all, |flag| [u8::from(flag)])),
        Elements::F16(all) => (v1::Dtype::F16, bytes(all, u16::to_le_bytes)),
        Elements::I8(all) => (v1::Dtype::I8, bytes(all, i8::to_le_bytes)),
    };
    let shape = answer.dims.iter().map(|len| *len as u64).collect();
    v1::Tensor { dtype: dtype.into(), shape, data: data.into() }
}
