//! The tests of ng-infer in one program: one for each file would be linked for minutes.
#![allow(clippy::expect_used)]

mod common;
mod convert;
mod cpu_kernels;
mod cpu_support;
mod levels;
mod messages;
mod narrow_kernels;
mod onnx_accepts;
mod onnx_external;
mod onnx_fuzz;
mod onnx_refuses_functions;
mod onnx_refuses_graphs;
mod onnx_refuses_tensors;
mod onnx_support;
mod plan_folding;
mod plan_fusion;
mod plan_memory;
mod plan_support;
mod plan_trimming;
mod programs;
mod quantise;
mod save;
mod scalar_kernels;
mod served;
mod text_form;
mod types;
