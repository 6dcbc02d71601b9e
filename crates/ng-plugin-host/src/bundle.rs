//! Accelerators: devices with priorities, and what the simulator knows of them.
//!
//! What must not live here: which bundle runs now. The three presets are those of HolisticGNN's
//! section 5; what the simulator takes them for, it says itself ([`Accelerator::PUBLISHED`]).

use std::sync::Arc;

use ng_infer::dfg::Op;
use ng_infer::kernel::{Cpu, Kernel};
use ng_infer::run::Devices;
use ng_ssdsim::{Accelerator, Model, Work};

use crate::cores::Cores;
use crate::error::PluginError;
use crate::load::Plugin;

/// Operations that a systolic array does.
const PRODUCTS: [&str; 4] = ["GEMM", "Linear", "MatMul", "SegmentMatmul"];

/// Table 3 of the publication.
const CPU_PRIORITY: i32 = 50;
const VECTOR_PRIORITY: i32 = 150;
const ARRAY: (&str, i32) = ("Systolic array", 300);

/// An accelerator: its devices, and its configuration in the simulator.
#[derive(Clone)]
pub struct Bundle {
    /// Its name.
    pub name: String,
    /// The device table and the operation table.
    pub devices: Devices,
    /// The simulator's array and vector unit.
    pub accelerator: Accelerator,
    /// Those that brought some of the devices.
    plugins: Vec<Arc<Plugin>>,
}

impl std::fmt::Debug for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, accelerator) = (&self.name, &self.accelerator);
        f.debug_struct("Bundle")
            .field("name", name)
            .field("accelerator", accelerator)
            .finish_non_exhaustive()
    }
}

impl Bundle {
    /// The names of the presets.
    pub const PRESETS: [&str; 4] = ["cpu", "octa", "lsap", "hetero"];

    /// The preset of a name.
    pub fn preset(name: &str) -> Option<Self> {
        match name {
            "cpu" => Some(Self::cpu()),
            "octa" => Some(Self::octa()),
            "lsap" => Some(Self::lsap()),
            "hetero" => Some(Self::hetero()),
            _ => None,
        }
    }

    /// Adds the devices and kernels of a plug-in. They replace those of another build with the same
    /// name.
    ///
    /// # Errors
    ///
    /// One of its devices is already registered by another plug-in. Nothing is added then.
    pub fn add(&mut self, plugin: Arc<Plugin>) -> Result<(), PluginError> {
        let is_before = |known: &&Arc<Plugin>| known.name() == plugin.name();
        let before: Vec<_> = self.plugins.iter().filter(is_before).cloned().collect();
        let has = |of: &Plugin, device: &str| of.devices().iter().any(|(name, _)| name == device);
        for (device, _) in plugin.devices() {
            let is_own = before.iter().any(|known| has(known, device));
            if is_own || !self.devices.has_kernels_of(device) {
                continue;
            }
            let owner = self.plugins.iter().find(|known| has(known, device));
            return Err(PluginError::Taken {
                path: plugin.path().to_owned(),
                device: device.clone(),
                owner: owner.map_or_else(
                    || format!("bundle {:?}", self.name),
                    |owner| format!("plug-in {:?} ({})", owner.name(), owner.path().display()),
                ),
            });
        }
        for (device, _) in before.iter().flat_map(|known| known.devices()) {
            self.devices.remove_device(device);
        }
        self.plugins.retain(|known| known.name() != plugin.name());
        plugin.register(&mut self.devices);
        self.plugins.push(plugin);
        Ok(())
    }

    /// Those that brought some of the devices.
    pub fn plugins(&self) -> &[Arc<Plugin>] {
        &self.plugins
    }

    /// How many seconds the simulated accelerator takes for the products and for the sums of a
    /// batch; `visits` counts the nodes of each hop. Rows are there already.
    pub fn simulated(&self, model: &Model, visits: &[u64]) -> (f64, f64) {
        let array = &self.accelerator;
        let (products, sums) = array.cycles_of(&Work::of_batch(model, visits));
        (products as f64 / array.hertz, sums as f64 / array.hertz)
    }

    fn of(name: &str, devices: Devices, accelerator: Accelerator) -> Self {
        Self { name: name.to_owned(), devices, accelerator, plugins: Vec::new() }
    }

    /// All that this processor has, as one device. Simulated: what Hetero-HGNN has.
    fn cpu() -> Self {
        Self::of("cpu", Devices::with_cpu(), Accelerator::hetero())
    }

    /// Octa-HGNN: eight cores and software that uses them. Here: what `cpu-scalar` does, on all
    /// threads of the run.
    fn octa() -> Self {
        let mut devices = Devices::default();
        let all: Vec<String> = Op::names().filter(|name| name != "BatchPre").collect();
        let names: Vec<&str> = all.iter().map(String::as_str).collect();
        add(&mut devices, ("CPU", CPU_PRIORITY), &names, Arc::new(Cores));
        Self::of("octa", devices, Accelerator::octa())
    }

    /// Lsap-HGNN: large systolic arrays, which do products of matrices alone; the core of the shell
    /// does everything else.
    fn lsap() -> Self {
        let mut devices = Devices::default();
        add(&mut devices, ARRAY, &PRODUCTS, Arc::new(Cpu::default()));
        Self::of("lsap", devices, Accelerator::lsap())
    }

    /// Hetero-HGNN: a vector processor and a systolic array.
    fn hetero() -> Self {
        let mut devices = Devices::default();
        devices.add_cpu("Vector processor", VECTOR_PRIORITY, Cpu::default());
        add(&mut devices, ARRAY, &PRODUCTS, Arc::new(Cpu::default()));
        Self::of("hetero", devices, Accelerator::hetero())
    }
}

/// Registers a device, and a kernel of it for some operations.
fn add(
    devices: &mut Devices,
    (name, priority): (&str, i32),
    ops: &[&str],
    kernel: Arc<dyn Kernel>,
) {
    devices.register_device(name, priority);
    for op in ops {
        let added = devices.register_op_definition(op, name, Arc::clone(&kernel));
        // The device is registered, and the names are those of operations.
        debug_assert!(added.is_ok(), "{added:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ng_infer::dfg::{Op, Reduction};

    #[test]
    fn simulated_times_are_those_of_the_simulator() {
        let bundle = Bundle::preset("hetero").expect("a preset");
        let layer = ng_ssdsim::Layer::Gin;
        let model = Model { columns: 300, hidden: 128, outputs: 7, backward: false, layer };
        let (products, sums) = bundle.simulated(&model, &[10, 50, 200]);
        assert!(products > 0.0 && sums > 0.0);
        let whole = bundle.accelerator.time_of(&Work::of_batch(&model, &[10, 50, 200]));
        assert!((products + sums - ng_ssdsim::to_seconds(whole)).abs() < 1e-12);
    }

    #[test]
    fn presets_bind_products_and_aggregation_as_the_publication_says() {
        let bound = |name: &str, op: &Op| {
            let bundle = Bundle::preset(name).expect("a preset");
            bundle.devices.choose(op).map(|binding| binding.device.to_string())
        };
        let (sum, product) = (Op::Spmm(Reduction::Sum), Op::MatMul);
        for (name, of_sum, of_product) in [
            ("octa", "CPU", "CPU"),
            ("lsap", "cpu-scalar", "Systolic array"),
            ("hetero", "Vector processor", "Systolic array"),
        ] {
            assert_eq!(bound(name, &sum).as_deref(), Some(of_sum), "{name}");
            assert_eq!(bound(name, &product).as_deref(), Some(of_product), "{name}");
        }
        assert!(Bundle::preset("none").is_none());
    }
}
