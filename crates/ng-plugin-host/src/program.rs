//! HolisticGNN's `Program()`: the accelerator is replaced while graphs run.
//!
//! What must not live here: how graphs follow, which [`SharedDevices`] sees to. The invariant: a
//! swap that fails changes nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ng_infer::run::{RunError, SharedDevices};
use ng_ssdsim::{Config, ConfigError};
use ng_types::explain;
use thiserror::Error;

use crate::bundle::Bundle;

/// Errors of activating a bundle.
#[derive(Debug, Error)]
pub enum ProgramError {
    /// Its configuration is not valid for the simulator.
    #[error("bundle {name:?}: {source}")]
    Accelerator {
        /// The bundle.
        name: String,
        /// What is wrong.
        source: ConfigError,
    },
    /// A served graph cannot run on it.
    #[error("bundle {name:?} cannot run a served graph: {source}")]
    Graph {
        /// The bundle.
        name: String,
        /// Why.
        source: RunError,
    },
}

explain! {
    ProgramError {
        Accelerator | Graph => UnsupportedArgument,
    }
}

/// The accelerator that graphs run on.
pub struct Program {
    bundle: Mutex<Arc<Bundle>>,
    devices: Arc<SharedDevices>,
}

impl Program {
    /// With a bundle in force.
    ///
    /// # Errors
    ///
    /// Its configuration is not valid for the simulator.
    pub fn new(bundle: Bundle) -> Result<Self, ProgramError> {
        check(&bundle)?;
        let devices = Arc::new(SharedDevices::new(bundle.devices.clone()));
        Ok(Self { bundle: Mutex::new(Arc::new(bundle)), devices })
    }

    /// The bundle that is in force.
    pub fn bundle(&self) -> Arc<Bundle> {
        Arc::clone(&self.lock())
    }

    /// Its devices, which graphs are served on.
    pub fn devices(&self) -> &Arc<SharedDevices> {
        &self.devices
    }

    /// Activates the bundle that `change` returns. Running requests finish with the old bundle, and
    /// new ones use the new one. Returns the old one.
    ///
    /// # Errors
    ///
    /// `change` fails, or the new bundle is not valid or cannot run all served graphs. The old one
    /// stays active.
    pub fn swap<E: From<ProgramError>>(
        &self,
        change: impl FnOnce(&Bundle) -> Result<Bundle, E>,
    ) -> Result<Arc<Bundle>, E> {
        let mut bundle = self.lock();
        let new = change(&bundle)?;
        check(&new)?;
        let failed = |source| ProgramError::Graph { name: new.name.clone(), source };
        self.devices.replace(new.devices.clone()).map_err(failed)?;
        Ok(std::mem::replace(&mut *bundle, Arc::new(new)))
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Bundle>> {
        // Whoever panicked with the lock had not begun to change the bundle.
        self.bundle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check(bundle: &Bundle) -> Result<(), ProgramError> {
    let config = Config { accelerator: bundle.accelerator.clone(), ..Config::paper() };
    let wrong = |source| ProgramError::Accelerator { name: bundle.name.clone(), source };
    config.check().map_err(wrong)
}
