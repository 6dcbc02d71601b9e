//! The compiled part of the Python package, `neargraph._core`: converts arguments, releases the
//! GIL, maps errors. No logic lives here; `python/neargraph/_core.pyi` is the interface.

mod add_tensor;
mod arrays;
mod backup;
mod catalog;
mod client;
mod compiled;
mod computing;
mod dfg;
mod direct;
mod engine;
mod errors;
mod host;
mod importer;
mod layerwise;
mod loader;
mod lock;
mod method;
mod notes;
mod onnxruntime;
mod plugins;
mod progress;
mod reorganize;
mod sampler;
mod server;
mod sim;
mod snapshot;
mod store;
mod update;

use pyo3::prelude::*;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("PAGE_SIZES", ng_store::PAGE_SIZES)?;
    module.add_class::<store::Store>()?;
    module.add_class::<snapshot::Snapshot>()?;
    module.add_class::<update::WriteBatch>()?;
    module.add_class::<method::Method>()?;
    module.add_class::<sampler::Sampler>()?;
    module.add_class::<sampler::MiniBatch>()?;
    module.add_class::<loader::SeedPlan>()?;
    module.add_class::<loader::Inputs>()?;
    module.add_class::<loader::Epochs>()?;
    module.add_class::<loader::Loader>()?;
    module.add_class::<loader::Run>()?;
    module.add_class::<compiled::Survey>()?;
    module.add_class::<compiled::HotSet>()?;
    module.add_class::<compiled::EpochWriter>()?;
    module.add_class::<compiled::EpochFile>()?;
    module.add_class::<dfg::Dfg>()?;
    module.add_class::<dfg::PyPlan>()?;
    module.add_class::<engine::Engine>()?;
    module.add_class::<layerwise::Layerwise>()?;
    module.add_class::<layerwise::Inferred>()?;
    module.add_class::<plugins::Devices>()?;
    module.add_class::<client::Client>()?;
    module.add_class::<client::Stream>()?;
    module.add_class::<client::Upload>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<plugins::Served>()?;
    module.add_class::<onnxruntime::OnnxRuntime>()?;
    module.add_class::<direct::DirectPlan>()?;
    module.add_class::<sim::Trace>()?;
    module.add_class::<importer::Importer>()?;
    module.add_class::<importer::SparseProbe>()?;
    module.add_function(wrap_pyfunction!(errors::format_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(dfg::quantise::quantise_steps, module)?)?;
    module.add_function(wrap_pyfunction!(dfg::quantise::quantise_half, module)?)?;
    module.add_function(wrap_pyfunction!(dfg::quantise::fixed_point_graph, module)?)?;
    module.add_function(wrap_pyfunction!(dfg::quantise::search_formats, module)?)?;
    module.add_function(wrap_pyfunction!(store::open_store, module)?)?;
    module.add_function(wrap_pyfunction!(store::verify, module)?)?;
    module.add_function(wrap_pyfunction!(store::compact, module)?)?;
    module.add_function(wrap_pyfunction!(backup::restore_backup, module)?)?;
    module.add_function(wrap_pyfunction!(backup::verify_backup, module)?)?;
    module.add_function(wrap_pyfunction!(backup::is_backup, module)?)?;
    module.add_function(wrap_pyfunction!(plugins::plugin_sha256, module)?)?;
    module.add_function(wrap_pyfunction!(plugins::run_plugin_probe, module)?)?;
    module.add_function(wrap_pyfunction!(direct::describe_direct, module)?)?;
    module.add_function(wrap_pyfunction!(direct::find_direct, module)?)?;
    module.add_function(wrap_pyfunction!(direct::verify_direct, module)?)?;
    module.add_function(wrap_pyfunction!(reorganize::reorganize, module)?)?;
    module.add_function(wrap_pyfunction!(store::probe, module)?)?;
    module.add_function(wrap_pyfunction!(store::load_file, module)?)?;
    module.add_function(wrap_pyfunction!(method::sampling_methods, module)?)?;
    module.add_function(wrap_pyfunction!(host::measure_host, module)?)?;
    module.add_function(wrap_pyfunction!(host::simulate_host, module)?)?;
    module.add_function(wrap_pyfunction!(host::replay_on_host, module)?)?;
    module.add_function(wrap_pyfunction!(sim::sim_config, module)?)?;
    module.add_function(wrap_pyfunction!(sim::sim_names, module)?)?;
    module.add_function(wrap_pyfunction!(sim::sim_switched, module)?)?;
    module.add_function(wrap_pyfunction!(sim::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(server::run_server, module)?)?;
    module.add_function(wrap_pyfunction!(server::run_load, module)?)?;
    Ok(())
}
