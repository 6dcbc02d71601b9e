//! Trained models that answer from a store: batches are sampled, rows read, the graph run.
//!
//! What must not live here: how operations are computed, formats, Python.

#![forbid(unsafe_code)]
