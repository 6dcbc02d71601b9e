//! A mini-batch as a message.

use std::collections::HashMap;
use std::sync::Arc;

use ng_rpc::{Problem, v1};
use ng_sample::{Column, MiniBatch, SeedPlan};
use ng_store::{Owner, Snapshot};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

use crate::graph::named;

/// What all batches of a stream have in common.
pub struct Message {
    snapshot: Arc<Snapshot>,
    plan: SeedPlan,
}

impl Message {
    pub fn new(snapshot: Arc<Snapshot>, plan: SeedPlan) -> Self {
        Self { snapshot, plan }
    }

    /// The batch of a number. Its rows are copied once, so that its memory can serve the next one.
    pub fn of(&self, number: u64, batch: &MiniBatch) -> Result<v1::SampleResponse, Problem> {
        let catalog = self.snapshot.catalog();
        let mut nodes = Vec::new();
        for ((at, block), meta) in batch.nodes.iter().enumerate().zip(&catalog.node_types) {
            let owner = Owner::Node(NodeTypeId(at as u16));
            let own = batch.columns.iter().filter(|column| column.tensor.owner == owner);
            let tensors = own.map(|column| self.tensor(column, block.ids.len()));
            nodes.push(v1::NodeBatch {
                node_type: meta.name.clone(),
                ids: block.ids.iter().map(|id| *id as u64).collect(),
                tensors: tensors.collect::<Result<HashMap<_, _>, _>>()?,
                per_hop: block.per_hop.iter().map(|count| *count as u64).collect(),
            });
        }
        let name = |id: NodeTypeId| catalog.node_types[usize::from(id.0)].name.as_str();
        let edges = batch.edges.iter().enumerate().zip(&catalog.edge_types);
        let edges = edges.filter(|((at, _), _)| !catalog.is_reverse_index(EdgeTypeId(*at as u16)));
        let edges = edges.map(|((_, block), meta)| v1::EdgeBatch {
            edge_type: [name(meta.source), &meta.relation, name(meta.destination)].join(","),
            sources: block.rows.iter().map(|place| *place as u32).collect(),
            destinations: block.cols.iter().map(|place| *place as u32).collect(),
            edge_ids: block.edge_ids.iter().map(|id| *id as u64).collect(),
            per_hop: block.per_hop.iter().map(|count| *count as u64).collect(),
            times: block.times.clone(),
            weights: block.weights.clone(),
        });
        Ok(v1::SampleResponse {
            batch: number,
            num_batches: self.plan.steps(),
            num_padding: self.plan.padding(number),
            num_seeds: batch.num_seeds() as u64,
            nodes,
            edges: edges.collect(),
            snapshot: Some(named(&self.snapshot)),
        })
    }

    fn tensor(&self, column: &Column, rows: usize) -> Result<(String, v1::Tensor), Problem> {
        let meta = self.snapshot.catalog().tensor(column.tensor);
        let meta = meta.ok_or_else(|| Problem::argument("tensors", "a tensor no longer exists"))?;
        let dtype = match column.dtype {
            Dtype::F32 => v1::Dtype::F32,
            Dtype::F16 => v1::Dtype::F16,
            Dtype::Bf16 => v1::Dtype::Bf16,
            Dtype::I8 => v1::Dtype::I8,
            Dtype::I16 => v1::Dtype::I16,
            Dtype::I32 => v1::Dtype::I32,
            Dtype::I64 => v1::Dtype::I64,
            Dtype::U8 => v1::Dtype::U8,
            Dtype::Bool => v1::Dtype::Bool,
            Dtype::F64 => v1::Dtype::F64,
        };
        let shape = std::iter::once(rows as u64).chain(meta.shape.iter().copied()).collect();
        let data = column.bytes.as_slice().to_vec().into();
        Ok((meta.name.clone(), v1::Tensor { dtype: dtype.into(), shape, data }))
    }
}
