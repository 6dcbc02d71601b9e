//! Tensors of narrow rows that are small beside the budget, such as labels: read once, whole, and
//! kept in the order of ids.

use ng_io::AnonMap;
use ng_simd::{RowDecoder, prefetch_at};
use ng_store::{Owner, ReadError, Snapshot, TensorRef};
use ng_types::Reservation;

use crate::buffer::region;
use crate::ids::Id;
use crate::{Ids, SampleError};

/// So many places ahead memory is fetched.
const NEAR: usize = 16;

/// A tensor in memory.
#[derive(Debug)]
pub(crate) struct ResidentTensor {
    width: usize,
    bytes: AnonMap,
    _held: Reservation,
}

impl ResidentTensor {
    /// Reads all of `tensor`.
    pub fn load(snapshot: &Snapshot, tensor: TensorRef) -> Result<Self, SampleError> {
        let meta = snapshot.catalog().tensor(tensor);
        let (rows, width) = meta.map_or((0, 0), |meta| (meta.num_rows, meta.row_bytes() as usize));
        let len = rows as usize * width;
        let held = snapshot.reserve(len as u64)?;
        let mut bytes = region(len)?;
        let nodes = match tensor.owner {
            Owner::Node(node_type) => snapshot.load_nodes_of_rows(node_type)?,
            Owner::Edge(_) => None,
        };
        let out = bytes.as_mut_slice();
        snapshot.scan_tensor::<ReadError>(tensor, &mut |first, rows| {
            let Some(nodes) = &nodes else {
                out[first as usize * width..][..rows.len()].copy_from_slice(rows);
                return Ok(());
            };
            for (row, bytes) in (first..).zip(rows.chunks_exact(width.max(1))) {
                out[nodes.row(row) as usize * width..][..width].copy_from_slice(bytes);
            }
            Ok(())
        })?;
        Ok(Self { width, bytes, _held: held })
    }

    /// Decodes rows to `out`, one after the other.
    pub fn gather(&self, ids: &Ids, decoder: &RowDecoder, out: &mut [u8]) {
        match ids {
            Ids::Narrow(ids) => self.gather_of(ids, decoder, out),
            Ids::Wide(ids) => self.gather_of(ids, decoder, out),
        }
    }

    fn gather_of<I: Id>(&self, ids: &[I], decoder: &RowDecoder, out: &mut [u8]) {
        let all = self.bytes.as_slice();
        let out = out.chunks_exact_mut(decoder.out_bytes().max(1));
        for ((place, id), out) in ids.iter().enumerate().zip(out) {
            if let Some(later) = ids.get(place + NEAR) {
                prefetch_at(all, later.get() as usize * self.width);
            }
            let at = id.get() as usize * self.width;
            decoder.decode(&all[at..at + self.width], out);
        }
    }
}
