//! The address of each node's primary section while a file is compiled: in memory if the budget has
//! room, else in a file without a name.
//!
//! The invariant: no more memory than was reserved, however many nodes there are.

use std::path::Path;

use ng_io::ScratchFile;
use ng_types::{MemoryUser, Reservation};

use super::error::DirectError;
use super::format::WIDTH_MAX;
use crate::io::AnonMap;
use crate::store::Snapshot;

/// Memory for a part of addresses that lie in a file.
const WINDOW_BYTES: usize = 1 << 20;

enum Place {
    Memory(AnonMap),
    File { file: ScratchFile, window: Vec<u8> },
}

/// Addresses by node id.
pub(crate) struct Addresses {
    width: usize,
    place: Place,
    _held: Reservation,
}

impl Addresses {
    /// Room for `num_nodes` addresses; a file for them would be in `directory`.
    pub fn new(
        snapshot: &Snapshot,
        directory: &Path,
        num_nodes: u64,
        width: usize,
    ) -> Result<Self, DirectError> {
        let bytes = num_nodes.saturating_mul(width as u64);
        if bytes <= snapshot.budget().share(MemoryUser::Addresses)
            && let Ok(held) = snapshot.reserve(bytes)
        {
            let no_memory = |source| crate::error::ReadError::NoMemory { bytes, source };
            let region = AnonMap::new(bytes as usize).map_err(no_memory)?;
            return Ok(Self { width, place: Place::Memory(region), _held: held });
        }
        let held = snapshot.reserve(WINDOW_BYTES as u64)?;
        Self::on_disk(directory, num_nodes, width, held)
    }

    fn on_disk(
        directory: &Path,
        num_nodes: u64,
        width: usize,
        held: Reservation,
    ) -> Result<Self, DirectError> {
        let file = ScratchFile::create_in(directory)?;
        file.write_all_at((num_nodes * width as u64).saturating_sub(1), &[0])?;
        let window = vec![0; held.bytes() as usize / WIDTH_MAX * width];
        Ok(Self { width, place: Place::File { file, window }, _held: held })
    }

    /// Whether they lie in a file.
    pub fn is_on_disk(&self) -> bool {
        matches!(self.place, Place::File { .. })
    }

    /// Notes the addresses of nodes.
    pub fn set(&mut self, nodes: &[u64], addresses: &[u64]) -> Result<(), DirectError> {
        let width = self.width;
        match &mut self.place {
            Place::Memory(region) => {
                for (node, address) in nodes.iter().zip(addresses) {
                    let at = *node as usize * width;
                    crate::bytes::put(region.as_mut_slice(), at, &address.to_le_bytes()[..width]);
                }
            }
            Place::File { file, window } => {
                let pairs: Vec<(u64, u64)> =
                    nodes.iter().copied().zip(addresses.iter().copied()).collect();
                for run in pairs.chunk_by(|a, b| b.0 == a.0 + 1) {
                    for part in run.chunks(window.len() / width) {
                        let places = window.chunks_exact_mut(width);
                        for (place, (_, address)) in places.zip(part) {
                            place.copy_from_slice(&address.to_le_bytes()[..width]);
                        }
                        let first = part[0].0;
                        file.write_all_at(first * width as u64, &window[..part.len() * width])?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Replaces nodes by their addresses.
    pub fn translate(&mut self, nodes: &mut [u64]) -> Result<(), DirectError> {
        let width = self.width;
        match &mut self.place {
            Place::Memory(region) => {
                let bytes = region.as_slice();
                nodes.iter_mut().for_each(|node| *node = number(bytes, *node as usize, width));
            }
            Place::File { file, window } => {
                let mut order: Vec<u32> = (0..nodes.len() as u32).collect();
                order.sort_unstable_by_key(|at| nodes[*at as usize]);
                let per_window = (window.len() / width) as u64;
                let (mut first, mut end) = (0, 0);
                for at in order {
                    let node = &mut nodes[at as usize];
                    if *node >= end {
                        (first, end) = (*node, *node + per_window);
                        let read = file.read_at(first * width as u64, window)?;
                        end = end.min(first + (read / width) as u64);
                        assert!(*node < end, "the file lacks the address of node {node}");
                    }
                    *node = number(window, (*node - first) as usize, width);
                }
            }
        }
        Ok(())
    }
}

fn number(bytes: &[u8], index: usize, width: usize) -> u64 {
    let bytes = &bytes[index * width..(index + 1) * width];
    bytes.iter().rev().fold(0, |high, byte| high << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ng_types::Budget;

    #[test]
    fn addresses_on_disk_are_those_that_were_set_whatever_the_window() {
        const NODES: u64 = 5000;
        let dir = tempfile::tempdir().expect("dir");
        let address = |node: u64| node * 977 % 65_521;
        for (width, window) in [(4, 64), (5, 800), (8, 1 << 20)] {
            let held = Budget::new(1 << 21).reserve(window).expect("fits");
            let mut all = Addresses::on_disk(dir.path(), NODES, width, held).expect("made");
            assert!(all.is_on_disk());
            let order: Vec<u64> = (0..NODES / 2).chain((NODES / 2..NODES).rev()).collect();
            for part in order.chunks(700) {
                let addresses: Vec<u64> = part.iter().map(|node| address(*node)).collect();
                all.set(part, &addresses).expect("set");
            }
            let wanted: Vec<u64> = (0..9000).map(|step| step * 7919 % NODES).collect();
            let mut found = wanted.clone();
            all.translate(&mut found).expect("read");
            assert!(wanted.iter().zip(&found).all(|(node, found)| address(*node) == *found));
        }
    }
}
