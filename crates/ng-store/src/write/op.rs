//! One operation of a commit as the log holds it.
//!
//! Ids that the store gave out stand in the operation, so replaying it gives the same store.
//! Numbers are LEB128; a row stands as it is. What is decoded here is hostile until it was applied.

use ng_types::{EdgeTypeId, NodeTypeId};

use crate::catalog::{Owner, TensorRef};
use crate::error::Damage;
use crate::topology::Entry;
use crate::write::error::UpdateError;

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op<'a> {
    /// A node comes into being, all of its rows 0.
    AddNode { node_type: NodeTypeId, id: u64 },
    /// A node goes, with all of its edges.
    DeleteNode { node_type: NodeTypeId, id: u64 },
    /// An edge comes into being, or on a `unique` type changes.
    AddEdge { edge_type: EdgeTypeId, destination: u64, entry: Entry },
    /// All parallel edges go, or one.
    DeleteEdge { edge_type: EdgeTypeId, source: u64, destination: u64, edge_id: Option<u64> },
    /// A row is replaced.
    SetRow { tensor: TensorRef, row: u64, bytes: &'a [u8] },
    /// The transaction, which becomes commit `lsn`, has a key.
    Keep { lsn: u64, key: &'a [u8], note: &'a [u8] },
}

const ADD_NODE: u8 = 1;
const DELETE_NODE: u8 = 2;
const ADD_EDGE: u8 = 3;
const DELETE_EDGE: u8 = 4;
const DELETE_ONE_EDGE: u8 = 5;
const SET_NODE_ROW: u8 = 6;
const SET_EDGE_ROW: u8 = 7;
const KEEP: u8 = 8;

impl<'a> Op<'a> {
    /// Appends the operation to a record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::AddNode { node_type, id } => numbers(out, ADD_NODE, &[node_type.0.into(), id]),
            Self::DeleteNode { node_type, id } => {
                numbers(out, DELETE_NODE, &[node_type.0.into(), id]);
            }
            Self::AddEdge { edge_type, destination, entry } => {
                let ids = [edge_type.0.into(), destination, entry.source, entry.edge_id];
                numbers(out, ADD_EDGE, &ids);
                // Zigzag, so that times a little below 0 are short, too.
                number(out, ((entry.time << 1) ^ (entry.time >> 63)).cast_unsigned());
                number(out, entry.weight.to_bits().swap_bytes().into());
            }
            Self::DeleteEdge { edge_type, source, destination, edge_id } => {
                let tag = if edge_id.is_some() { DELETE_ONE_EDGE } else { DELETE_EDGE };
                numbers(out, tag, &[edge_type.0.into(), destination, source]);
                if let Some(edge_id) = edge_id {
                    number(out, edge_id);
                }
            }
            Self::SetRow { tensor, row, bytes } => {
                let (tag, owner) = match tensor.owner {
                    Owner::Node(id) => (SET_NODE_ROW, id.0),
                    Owner::Edge(id) => (SET_EDGE_ROW, id.0),
                };
                let len = bytes.len() as u64;
                numbers(out, tag, &[owner.into(), tensor.index.into(), row, len]);
                out.extend_from_slice(bytes);
            }
            Self::Keep { lsn, key, note } => {
                numbers(out, KEEP, &[key.len() as u64, lsn, note.len() as u64]);
                out.extend_from_slice(key);
                out.extend_from_slice(note);
            }
        }
    }

    /// Bytes that the operation carries: 8 for an id, and a row.
    pub fn payload_bytes(&self) -> u64 {
        match self {
            Self::AddNode { .. } | Self::DeleteNode { .. } => 8,
            Self::AddEdge { .. } | Self::DeleteEdge { .. } => 16,
            Self::SetRow { bytes, .. } => 8 + bytes.len() as u64,
            Self::Keep { key, note, .. } => (key.len() + note.len()) as u64,
        }
    }

    /// Takes the next operation from the front of `bytes`.
    pub fn decode(bytes: &mut &'a [u8]) -> Result<Self, Damage> {
        let (tag, rest) = bytes.split_first().ok_or_else(cut)?;
        *bytes = rest;
        let owner = take_u16(bytes)?;
        let (node_type, edge_type) = (NodeTypeId(owner), EdgeTypeId(owner));
        Ok(match *tag {
            ADD_NODE => Self::AddNode { node_type, id: take(bytes)? },
            DELETE_NODE => Self::DeleteNode { node_type, id: take(bytes)? },
            ADD_EDGE => {
                let (destination, source, edge_id) = (take(bytes)?, take(bytes)?, take(bytes)?);
                let time = take(bytes)?;
                let time = (time >> 1).cast_signed() ^ -(time & 1).cast_signed();
                let weight = u32::try_from(take(bytes)?).map_err(|_| wide())?;
                let weight = f32::from_bits(weight.swap_bytes());
                let entry = Entry { source, edge_id, time, weight };
                Self::AddEdge { edge_type, destination, entry }
            }
            DELETE_EDGE | DELETE_ONE_EDGE => {
                let (destination, source) = (take(bytes)?, take(bytes)?);
                let edge_id = (*tag == DELETE_ONE_EDGE).then(|| take(bytes)).transpose()?;
                Self::DeleteEdge { edge_type, source, destination, edge_id }
            }
            SET_NODE_ROW | SET_EDGE_ROW => {
                let node = *tag == SET_NODE_ROW;
                let owner = if node { Owner::Node(node_type) } else { Owner::Edge(edge_type) };
                let tensor = TensorRef { owner, index: take_u16(bytes)? };
                let (row, len) = (take(bytes)?, take(bytes)?);
                Self::SetRow { tensor, row, bytes: take_bytes(bytes, len)? }
            }
            KEEP => {
                let (lsn, len) = (take(bytes)?, take(bytes)?);
                let key = take_bytes(bytes, owner.into())?;
                Self::Keep { lsn, key, note: take_bytes(bytes, len)? }
            }
            other => {
                return Err(Damage::new(format!(
                    "log record: {other} is not a valid tag of an operation"
                )));
            }
        })
    }
}

/// Shows `visit` the operations of a transaction.
pub(crate) fn for_each(
    mut ops: &[u8],
    visit: &mut dyn FnMut(&Op<'_>) -> Result<(), UpdateError>,
) -> Result<(), UpdateError> {
    while !ops.is_empty() {
        let op = Op::decode(&mut ops);
        visit(&op.map_err(|damage| UpdateError::Unsupported { what: damage.to_string() })?)?;
    }
    Ok(())
}

fn cut() -> Damage {
    Damage::new("log record: an operation is truncated")
}

fn wide() -> Damage {
    Damage::new("log record: a number is too large")
}

fn numbers(out: &mut Vec<u8>, tag: u8, values: &[u64]) {
    out.push(tag);
    for value in values {
        number(out, *value);
    }
}

fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
fn take(bytes: &mut &[u8]) -> Result<u64, Damage> {
    // Most numbers are one or two bytes.
    match **bytes {
        [low @ 0..0x80, ref rest @ ..] => {
            *bytes = rest;
            Ok(low.into())
        }
        [low, high @ 0..0x80, ref rest @ ..] => {
            *bytes = rest;
            Ok(u64::from(low & 0x7f) | u64::from(high) << 7)
        }
        _ => take_long(bytes),
    }
}

fn take_long(bytes: &mut &[u8]) -> Result<u64, Damage> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or_else(cut)?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            return Err(wide());
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(wide())
}

fn take_bytes<'a>(bytes: &mut &'a [u8], len: u64) -> Result<&'a [u8], Damage> {
    let len = usize::try_from(len).map_err(|_| wide())?;
    let (taken, rest) = bytes.split_at_checked(len).ok_or_else(cut)?;
    *bytes = rest;
    Ok(taken)
}

fn take_u16(bytes: &mut &[u8]) -> Result<u16, Damage> {
    u16::try_from(take(bytes)?).map_err(|_| wide())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_comes_back_and_every_cut_is_an_error() {
        let entry = Entry { source: 1 << 39, edge_id: 300, time: i64::MIN, weight: -0.5 };
        let tensor = TensorRef { owner: Owner::Edge(EdgeTypeId(2)), index: 700 };
        let (node_type, edge_type) = (NodeTypeId(9), EdgeTypeId(u16::MAX));
        let ops = [
            Op::AddNode { node_type, id: u64::MAX },
            Op::DeleteNode { node_type, id: 0 },
            Op::AddEdge { edge_type, destination: 127, entry },
            Op::AddEdge { edge_type, destination: 128, entry: Entry { time: -1, ..entry } },
            Op::DeleteEdge { edge_type, source: 5, destination: 6, edge_id: None },
            Op::DeleteEdge { edge_type, source: 5, destination: 6, edge_id: Some(1 << 35) },
            Op::SetRow { tensor, row: 77, bytes: &[1, 2, 3] },
            Op::SetRow { tensor, row: 77, bytes: &[] },
            Op::Keep { lsn: 1 << 40, key: &[5; 64], note: &[6, 7] },
            Op::Keep { lsn: 3, key: &[5], note: &[] },
        ];
        for op in ops {
            let mut out = Vec::new();
            op.encode(&mut out);
            let mut rest = out.as_slice();
            assert_eq!(Op::decode(&mut rest), Ok(op));
            assert!(rest.is_empty());
            for cut in 0..out.len() {
                assert!(Op::decode(&mut &out[..cut]).is_err(), "{op:?} at {cut}");
            }
        }
        assert!(Op::decode(&mut [99, 0].as_slice()).is_err());
        assert!(Op::decode(&mut [1, 0x80, 0x80, 0x80, 1, 1].as_slice()).is_err());
    }
}
