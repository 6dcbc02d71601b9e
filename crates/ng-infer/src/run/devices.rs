//! HolisticGNN's device table and operation table (section 4.2): which devices there are, how much
//! each is preferred, and which operations each has kernels for.

use std::collections::HashMap;
use std::sync::Arc;

use ng_types::explain;
use thiserror::Error;

use crate::dfg::Op;
use crate::kernel::{Cpu, Kernel, Scalar};

/// Why something cannot be registered.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum RegisterError {
    /// The device of a kernel is not registered.
    #[error("device {device:?} does not exist; register it first")]
    NoDevice {
        /// The device's name.
        device: String,
    },
    /// The operation of a kernel does not exist.
    #[error("unknown operation {op:?}")]
    NoOp {
        /// The operation's name.
        op: String,
    },
}

explain! {
    RegisterError {
        NoDevice | NoOp => UnsupportedArgument,
    }
}

/// A kernel for an operation, and the device that it is of.
#[derive(Clone)]
pub struct Binding {
    /// The device's name.
    pub device: Arc<str>,
    /// What computes it.
    pub kernel: Arc<dyn Kernel>,
}

/// The device table and the operation table. Copies share the kernels.
///
/// ```
/// use std::sync::Arc;
/// use ng_infer::dfg::{Op, Reduction};
/// use ng_infer::kernel::Scalar;
/// use ng_infer::run::Devices;
/// let mut devices = Devices::default();
/// devices.register_device("quick", 10);
/// devices.register_op_definition("SpMM_Mean", "quick", Arc::new(Scalar))?;
/// let device = |op: &Op| devices.choose(op).map(|binding| binding.device.to_string());
/// assert_eq!(device(&Op::Spmm(Reduction::Mean)).as_deref(), Some("quick"));
/// assert_eq!(device(&Op::MatMul).as_deref(), Some("cpu-scalar"));
/// # Ok::<(), ng_infer::run::RegisterError>(())
/// ```
#[derive(Clone)]
pub struct Devices {
    priorities: HashMap<Arc<str>, i32>,
    /// By operation, all that do it, in the order in which they came.
    kernels: HashMap<String, Vec<Binding>>,
    /// What tells one build of a device from another.
    builds: HashMap<Arc<str>, String>,
}

impl Default for Devices {
    /// The reference device, `cpu-scalar`, with priority 0.
    fn default() -> Self {
        let mut this =
            Self { priorities: HashMap::new(), kernels: HashMap::new(), builds: HashMap::new() };
        let device: Arc<str> = Arc::from("cpu-scalar");
        let kernel: Arc<dyn Kernel> = Arc::new(Scalar);
        for op in Op::names().filter(|name| name != "BatchPre") {
            let (device, kernel) = (Arc::clone(&device), Arc::clone(&kernel));
            this.kernels.entry(op).or_default().push(Binding { device, kernel });
        }
        this.priorities.insert(device, 0);
        this
    }
}

impl Devices {
    /// The reference device, and the device `cpu` with priority 10 for all that it has kernels for.
    pub fn with_cpu() -> Self {
        let mut this = Self::default();
        this.add_cpu("cpu", 10, Cpu::default());
        this
    }

    /// Registers `cpu` under a name, with a priority.
    pub fn add_cpu(&mut self, name: &str, priority: i32, cpu: Cpu) {
        self.register_device(name, priority);
        let (device, kernel): (Arc<str>, Arc<dyn Kernel>) = (Arc::from(name), Arc::new(cpu));
        for op in Cpu::op_names() {
            let all = self.kernels.entry(op).or_default();
            all.retain(|binding| binding.device != device);
            all.push(Binding { device: Arc::clone(&device), kernel: Arc::clone(&kernel) });
        }
    }

    /// HolisticGNN's `RegisterDevice`: adds a device, or gives it another priority.
    pub fn register_device(&mut self, name: &str, priority: i32) {
        self.priorities.insert(Arc::from(name), priority);
    }

    /// Says which build of a device this is, such as a hash of its code.
    pub fn note_build(&mut self, device: &str, build: &str) {
        self.builds.insert(Arc::from(device), build.to_owned());
    }

    /// Tells tables apart that may round differently: devices, priorities, and builds.
    pub fn identity(&self) -> String {
        let build = |name: &str| self.builds.get(name).map_or("", String::as_str);
        let devices = self.priorities().into_iter();
        devices.map(|(name, n)| format!("{name:?} {n} {}\n", build(name))).collect()
    }

    /// HolisticGNN's `RegisterOpDefinition`: adds the kernel of a device for an operation, in place
    /// of the one that it has.
    ///
    /// # Errors
    ///
    /// There is no such device or operation.
    pub fn register_op_definition(
        &mut self,
        op: &str,
        device: &str,
        kernel: Arc<dyn Kernel>,
    ) -> Result<(), RegisterError> {
        let Some((device, _)) = self.priorities.get_key_value(device) else {
            return Err(RegisterError::NoDevice { device: device.to_owned() });
        };
        let plain = |name: &str| name.replace('_', "").to_lowercase();
        let known = Op::names().find(|name| plain(name) == plain(op));
        let name = known.ok_or_else(|| RegisterError::NoOp { op: op.to_owned() })?;
        let all = self.kernels.entry(name).or_default();
        all.retain(|binding| binding.device != *device);
        all.push(Binding { device: Arc::clone(device), kernel });
        Ok(())
    }

    /// The devices and their priorities, by name.
    pub fn priorities(&self) -> Vec<(&str, i32)> {
        let mut all: Vec<_> = self.priorities.iter().map(|(name, n)| (&**name, *n)).collect();
        all.sort_unstable();
        all
    }

    /// Whether any kernel is of a device.
    pub fn has_kernels_of(&self, device: &str) -> bool {
        self.kernels.values().flatten().any(|binding| &*binding.device == device)
    }

    /// Takes a device and all its kernels out.
    pub fn remove_device(&mut self, device: &str) {
        self.priorities.remove(device);
        self.builds.remove(device);
        self.kernels.values_mut().for_each(|all| all.retain(|of| &*of.device != device));
    }

    /// All kernels of an operation, in the order in which they came.
    pub fn kernels(&self, op: &str) -> &[Binding] {
        self.kernels.get(op).map_or(&[], Vec::as_slice)
    }

    /// Whether `op` may be done in place of `others`: no device that is preferred for one of them
    /// is passed over.
    pub(crate) fn may_replace(&self, others: &[&Op], op: &Op) -> bool {
        let priority = |op: &Op| {
            let binding = self.choose(op)?;
            self.priorities.get(&binding.device).copied()
        };
        let own = priority(op);
        own.is_some() && others.iter().all(|other| priority(other) <= own)
    }

    /// The kernel of the device with the highest priority; of equal ones, of the one that came
    /// first. `None` if no device has one.
    pub fn choose(&self, op: &Op) -> Option<&Binding> {
        let all = self.kernels.get(&op.name())?;
        let priority = |binding: &&Binding| self.priorities.get(&binding.device);
        // The last of equal ones is the largest, so the first has to be.
        all.iter().rev().max_by_key(priority)
    }
}
