//! Dataflow graphs (DFGs) of graph neural networks: what a trained model computes for a batch.
//!
//! What must not live here: sampling, reading rows, serving.

#![forbid(unsafe_code)]

pub mod onnx;
