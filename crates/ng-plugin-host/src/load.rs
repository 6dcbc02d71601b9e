//! Loading a plug-in: checked, tried in another process, then loaded and registered here.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ng_infer::run::Devices;
use ng_plugin_abi::NG_TRAIT_DETERMINISTIC;

use crate::error::PluginError;
use crate::file::{AllowList, Image};
use crate::kernel::PluginKernel;
use crate::library::Library;
use crate::probe::Probe;
use crate::register::registration;

/// Plug-ins of this process by SHA-256: none is loaded twice.
static LOADED: Mutex<Option<HashMap<String, Arc<Plugin>>>> = Mutex::new(None);

/// A plug-in that passed and is loaded, for as long as the process lives.
#[derive(Debug)]
pub struct Plugin {
    path: PathBuf,
    sha256: String,
    name: String,
    version: String,
    cases: usize,
    devices: Vec<(String, i32)>,
    kernels: Vec<Arc<PluginKernel>>,
}

/// A kernel of a plug-in, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelInfo {
    /// Its operation.
    pub op: String,
    /// Its device.
    pub device: String,
    /// Whether several threads may call it at once.
    pub is_thread_safe: bool,
    /// Whether it returns the same bytes each time.
    pub is_deterministic: bool,
    /// How many calls the reference device did in its place, because it does not serve them.
    pub left_to_reference: u64,
}

impl Plugin {
    /// Checks and loads the file at `path`: it has to be allowed, safe where it lies, and to pass
    /// its trial. A file that this process has loaded already is not tried again.
    ///
    /// # Errors
    ///
    /// It is refused; nothing of it is registered.
    pub fn load(path: &Path, allow: &AllowList, probe: &Probe) -> Result<Arc<Self>, PluginError> {
        let image = Image::read(path, allow)?;
        // Whoever panicked with the lock had not added anything.
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = loaded.get_or_insert_default();
        if let Some(known) = loaded.get(&image.sha256) {
            return Ok(Arc::clone(known));
        }
        let passed = probe.run(&image)?;
        let Image { path, sha256, memory } = image;
        let changed = |problem| PluginError::Changed { path: path.clone(), problem };
        let library = Library::of_descriptor(memory).map_err(changed)?;
        let found = registration(library).map_err(changed)?;
        if !passed.covers(&found.definitions) {
            return Err(changed("it registers different kernels than in its trial".to_owned()));
        }
        let turn = Arc::new(Mutex::new(()));
        let kernel = |definition| {
            let (turn, left_to_reference) = (Arc::clone(&turn), AtomicU64::new(0));
            Arc::new(PluginKernel { definition, turn, left_to_reference })
        };
        let plugin = Arc::new(Self {
            path,
            sha256: sha256.clone(),
            name: found.name,
            version: found.version,
            cases: passed.cases,
            devices: found.devices,
            kernels: found.definitions.into_iter().map(kernel).collect(),
        });
        loaded.insert(sha256, Arc::clone(&plugin));
        Ok(plugin)
    }

    /// Adds its devices and kernels to a table, in place of those that have the same names.
    pub fn register(&self, devices: &mut Devices) {
        for (name, priority) in &self.devices {
            devices.register_device(name, *priority);
            devices.note_build(name, &self.sha256);
        }
        for kernel in &self.kernels {
            let (op, device) = (&kernel.definition.op, &kernel.definition.device);
            let kernel = Arc::clone(kernel);
            // Both names were checked when the plug-in registered.
            let added = devices.register_op_definition(op, device, kernel);
            debug_assert!(added.is_ok(), "{added:?}");
        }
    }

    /// Where it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Of its file.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// As it calls itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As it calls it.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// How many cases its kernels passed in the trial.
    pub fn cases(&self) -> usize {
        self.cases
    }

    /// Its devices and their priorities.
    pub fn devices(&self) -> &[(String, i32)] {
        &self.devices
    }

    /// Its kernels.
    pub fn kernels(&self) -> impl Iterator<Item = KernelInfo> {
        self.kernels.iter().map(|kernel| KernelInfo {
            op: kernel.definition.op.clone(),
            device: kernel.definition.device.clone(),
            is_thread_safe: kernel.definition.is_thread_safe(),
            is_deterministic: kernel.definition.traits & NG_TRAIT_DETERMINISTIC != 0,
            left_to_reference: kernel.left_to_reference.load(Ordering::Relaxed),
        })
    }
}
