//! Devices of plug-ins: the tables that they are registered in, and graphs that run on them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ng_infer::dfg::{Constant, Op};
use ng_infer::kernel::{Context, View};
use ng_infer::plan::Options;
use ng_infer::run::SharedDevices;
use ng_plugin_host::{AllowList, Bundle, Plugin, PluginError, Probe, Program, ProgramError};
use ng_types::{ErrorKind, Explain, Remedy};
use pyo3::prelude::*;
use serde::Serialize;

use crate::dfg::Dfg;
use crate::dfg::tensors::flat;
use crate::errors::{detached, plain, raised};
use crate::onnxruntime::named_tensor;

/// Returns the SHA-256 of a plug-in file, for the allow-list.
#[pyfunction]
pub fn plugin_sha256(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    detached(py, || ng_plugin_host::digest(&path))
}

/// Runs the trial of the plug-in given as standard input, and ends the process.
#[pyfunction]
pub fn run_plugin_probe(py: Python<'_>, seconds: u64) {
    py.detach(|| ng_plugin_host::run_probe(seconds))
}

/// How plug-ins are checked: digests that are allowed, the program that tries them, seconds.
type Checks = (Vec<String>, Vec<String>, f64);

/// A change of a bundle: its name, plug-ins, priorities, and the simulator's array as JSON.
type Change = (String, Vec<PathBuf>, Vec<(String, i32)>, Option<String>);

/// The devices that graphs run on; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Devices {
    program: Program,
}

/// Why a bundle is not changed.
#[derive(Debug)]
enum Failed {
    Plugin(PluginError),
    Program(ProgramError),
    Other(String),
}

impl From<ProgramError> for Failed {
    fn from(error: ProgramError) -> Self {
        Self::Program(error)
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plugin(error) => error.fmt(f),
            Self::Program(error) => error.fmt(f),
            Self::Other(problem) => f.write_str(problem),
        }
    }
}

impl std::error::Error for Failed {}

impl Explain for Failed {
    fn explain(&self) -> (ErrorKind, Vec<Remedy>) {
        match self {
            Self::Plugin(error) => error.explain(),
            Self::Program(error) => error.explain(),
            Self::Other(_) => (ErrorKind::UnsupportedArgument, Vec::new()),
        }
    }
}

fn load(path: &Path, (allow, probe, seconds): &Checks) -> Result<Arc<Plugin>, Failed> {
    let allow = AllowList::new(allow).map_err(Failed::Plugin)?;
    let (program, args) = probe
        .split_first()
        .ok_or_else(|| Failed::Other("no program is configured for trials of plug-ins".into()))?;
    let limit = Duration::try_from_secs_f64(*seconds);
    let limit =
        limit.map_err(|_| Failed::Other(format!("{seconds} is not a valid number of seconds")))?;
    let probe = Probe::new(program, args.iter().map(Into::into).collect()).with_limit(limit);
    Plugin::load(path, &allow, &probe).map_err(Failed::Plugin)
}

/// A plug-in, for people.
#[derive(Serialize)]
struct Shown {
    name: String,
    version: String,
    path: PathBuf,
    sha256: String,
    cases: usize,
    devices: HashMap<String, i32>,
    kernels: Vec<ShownKernel>,
}

#[derive(Serialize)]
struct ShownKernel {
    op: String,
    device: String,
    thread_safe: bool,
    deterministic: bool,
    left_to_reference: u64,
}

fn shown(plugin: &Plugin) -> Shown {
    let kernels = plugin.kernels().map(|kernel| ShownKernel {
        op: kernel.op,
        device: kernel.device,
        thread_safe: kernel.is_thread_safe,
        deterministic: kernel.is_deterministic,
        left_to_reference: kernel.left_to_reference,
    });
    Shown {
        name: plugin.name().to_owned(),
        version: plugin.version().to_owned(),
        path: plugin.path().to_owned(),
        sha256: plugin.sha256().to_owned(),
        cases: plugin.cases(),
        devices: plugin.devices().iter().cloned().collect(),
        kernels: kernels.collect(),
    }
}

fn preset(name: &str) -> Result<Bundle, Failed> {
    let known = Bundle::PRESETS.map(|name| format!("{name:?}")).join(", ");
    let none = || Failed::Other(format!("unknown bundle {name:?}; known: {known}"));
    Bundle::preset(name).ok_or_else(none)
}

/// Changes a bundle: plug-ins first, so that their devices may get priorities.
fn changed(mut bundle: Bundle, change: Change, checks: &Checks) -> Result<Bundle, Failed> {
    let (name, plugins, priorities, accelerator) = change;
    bundle.name = name;
    for path in plugins {
        bundle.add(load(&path, checks)?).map_err(Failed::Plugin)?;
    }
    for (device, priority) in priorities {
        if !bundle.devices.priorities().iter().any(|(known, _)| *known == device) {
            return Err(Failed::Other(format!("device {device:?} does not exist")));
        }
        bundle.devices.register_device(&device, priority);
    }
    if let Some(json) = accelerator {
        let wrong = |error| {
            Failed::Other(format!("the configuration of the accelerator is not valid: {error}"))
        };
        bundle.accelerator = serde_json::from_str(&json).map_err(wrong)?;
    }
    Ok(bundle)
}

impl Devices {
    /// The device table and the operation table as they are now.
    pub fn table(&self) -> ng_infer::run::Devices {
        self.program.bundle().devices.clone()
    }

    /// The tables, for graphs that are served while they change.
    pub fn shared(&self) -> Arc<SharedDevices> {
        Arc::clone(self.program.devices())
    }
}

#[pymethods]
impl Devices {
    #[new]
    fn new(bundle: &str) -> PyResult<Self> {
        let program = Program::new(preset(bundle).map_err(raised)?).map_err(raised)?;
        Ok(Self { program })
    }

    /// Loads and registers a plug-in. Returns its description.
    fn load_plugin<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        checks: Checks,
    ) -> PyResult<Bound<'py, PyAny>> {
        let plugin = detached(py, || {
            let plugin = load(&path, &checks)?;
            self.program.swap(|bundle| {
                let mut bundle = bundle.clone();
                bundle.add(Arc::clone(&plugin)).map_err(Failed::Plugin)?;
                Ok::<_, Failed>(bundle)
            })?;
            Ok::<_, Failed>(plugin)
        })?;
        plain(py, &shown(&plugin))
    }

    /// Adds a device, or changes its priority.
    fn register_device(&self, py: Python<'_>, name: &str, priority: i32) -> PyResult<()> {
        let change = |bundle: &Bundle| {
            let mut bundle = bundle.clone();
            bundle.devices.register_device(name, priority);
            Ok::<_, Failed>(bundle)
        };
        detached(py, || self.program.swap(change).map(drop))
    }

    /// Activates another bundle. If that fails, the current one remains active.
    fn program(&self, py: Python<'_>, base: &str, change: Change, checks: Checks) -> PyResult<()> {
        detached(py, || {
            // Trials take seconds, and others may look at the bundle meanwhile.
            let bundle = changed(preset(base)?, change, &checks)?;
            self.program.swap(|_| Ok::<_, Failed>(bundle)).map(drop)
        })
    }

    /// Returns the name of the bundle, and its configuration of the simulated accelerator.
    fn bundle<'py>(&self, py: Python<'py>) -> PyResult<(String, Bound<'py, PyAny>)> {
        let bundle = py.detach(|| self.program.bundle());
        Ok((bundle.name.clone(), plain(py, &bundle.accelerator)?))
    }

    /// Returns the devices with their priorities, and for each operation the devices with a kernel
    /// for it.
    #[allow(clippy::type_complexity)]
    fn tables(&self, py: Python<'_>) -> (Vec<(String, i32)>, Vec<(String, Vec<String>)>) {
        let devices = py.detach(|| self.table());
        let priorities = devices.priorities().into_iter();
        let priorities = priorities.map(|(name, n)| (name.to_owned(), n)).collect();
        let of = |op: String| {
            let all = devices.kernels(&op).iter().map(|binding| binding.device.to_string());
            let all = all.collect();
            (op, all)
        };
        (priorities, Op::names().map(of).collect())
    }

    /// Returns the seconds that the simulated accelerator takes for products and for sums.
    fn simulated(&self, py: Python<'_>, model: &str, visits: Vec<u64>) -> PyResult<(f64, f64)> {
        let wrong = |error| {
            raised(Failed::Other(format!("the description of the model is not valid: {error}")))
        };
        let model = serde_json::from_str(model).map_err(wrong)?;
        // Somebody may be changing the bundle.
        Ok(py.detach(|| self.program.bundle().simulated(&model, &visits)))
    }

    /// Prepares a graph for execution on the active bundle.
    fn serve(&self, py: Python<'_>, dfg: &Dfg, fuse: bool) -> PyResult<Served> {
        let graph = dfg.graph();
        let options = Options { fuse, ..Options::default() };
        let served = py.detach(|| self.program.devices().serve(graph, options));
        Ok(Served { inner: served.map_err(raised)? })
    }
}

/// A graph that is prepared for the devices of `Devices`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Served {
    inner: Arc<ng_infer::run::Served>,
}

/// An output: its name, its shape, and its elements as a flat array.
type Output<'py> = (String, Vec<usize>, Bound<'py, PyAny>);

/// A step: its operation, its device if it has one, seconds and bytes.
type Step = (String, Option<String>, f64, u64);

#[pymethods]
impl Served {
    /// Returns the outputs, and with `profile` the cost of each step.
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: HashMap<String, Bound<'py, PyAny>>,
        threads: usize,
        profile: bool,
    ) -> PyResult<(Vec<Output<'py>>, Vec<Step>)> {
        // Copies, because other threads of Python may write to arrays while the graph runs.
        let tensors = inputs.iter().map(|(name, array)| named_tensor(name, array));
        let tensors = tensors.collect::<PyResult<Vec<_>>>()?;
        let view = |of| View::new(Constant::dims(of), of.elements());
        let views: Vec<(&str, View<'_>)> =
            tensors.iter().map(|(name, of)| (*name, view(of))).collect();
        let plan = self.inner.plan();
        let found = py.detach(|| {
            let context = Context::new(threads);
            if profile {
                plan.profile(&views, &[], &context)
            } else {
                plan.run(&views, &[], &context).map(|answer| (answer, Vec::new()))
            }
        });
        let (answer, costs) = found.map_err(raised)?;
        let outputs = plan.outputs().zip(answer.to_constants()).map(|(name, tensor)| {
            let (dims, array) = flat(py, &tensor)?;
            Ok((name.to_owned(), dims, array))
        });
        let outputs = outputs.collect::<PyResult<_>>()?;
        let steps = plan.explain().steps.into_iter().zip(costs);
        let steps = steps
            .map(|(step, cost)| (step.op, step.device, cost.time.as_secs_f64(), cost.bytes))
            .collect();
        Ok((outputs, steps))
    }
}
