//! Dataflow graphs (DFGs) of graph neural networks: what a trained model computes for a batch.
//!
//! - [`dfg`]: the graph, its operations, its text form, its checks;
//! - [`kernel`]: what computes an operation, and the reference device;
//! - [`onnx`]: the reader of model files;
//! - [`quantise`]: the same graph in fewer bits;
//! - [`run`]: devices, the choice of kernels, and one run.
//!
//! What must not live here: sampling, reading rows, serving.

#![forbid(unsafe_code)]

pub mod convert;
pub mod dfg;
pub mod kernel;
pub mod onnx;
pub mod plan;
pub mod quantise;
pub mod run;
