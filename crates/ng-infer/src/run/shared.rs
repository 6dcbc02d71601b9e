//! Devices that graphs are served on: tables that change while graphs run.
//!
//! The invariants: a run sees one table from its begin to its end, because it holds the plan that
//! was made with it; a run that begins after a change has returned sees the new one; and a change
//! that fails changes nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use super::devices::Devices;
use super::error::RunError;
use crate::dfg::Dfg;
use crate::plan::{Options, Plan, WholeModel};

/// A table of devices that many graphs are served on.
pub struct SharedDevices {
    state: Mutex<State>,
}

struct State {
    devices: Arc<Devices>,
    served: Vec<Weak<Served>>,
}

/// A graph with the plan that later runs take.
pub struct Served {
    dfg: Arc<Dfg>,
    options: Options,
    plan: RwLock<Arc<Plan>>,
}

impl Served {
    /// The plan for the devices that are in force. A run that holds it ends with its kernels.
    pub fn plan(&self) -> Arc<Plan> {
        // Whoever panicked with the lock had not begun to write.
        Arc::clone(&self.plan.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SharedDevices {
    /// With a table in force.
    pub fn new(devices: Devices) -> Self {
        Self { state: Mutex::new(State { devices: Arc::new(devices), served: Vec::new() }) }
    }

    /// The table that is in force.
    pub fn devices(&self) -> Arc<Devices> {
        Arc::clone(&self.lock().devices)
    }

    /// Makes a graph ready to run, now and after each change.
    ///
    /// # Errors
    ///
    /// It does not run on the table that is in force.
    pub fn serve(&self, dfg: Arc<Dfg>, options: Options) -> Result<Arc<Served>, RunError> {
        let mut state = self.lock();
        let plan = RwLock::new(Arc::new(Plan::new(&dfg, &state.devices, &options)?));
        let served = Arc::new(Served { dfg, options, plan });
        state.served.retain(|known| known.strong_count() > 0);
        state.served.push(Arc::downgrade(&served));
        Ok(served)
    }

    /// Puts another table into force: runs go on with the old one, and those that begin later take
    /// the new one.
    ///
    /// # Errors
    ///
    /// A graph that is served does not run on the new table. The old one stays in force.
    pub fn replace(&self, devices: Devices) -> Result<(), RunError> {
        let mut state = self.lock();
        let mut plans = Vec::new();
        for served in state.served.iter().filter_map(Weak::upgrade) {
            let plan = Arc::new(Plan::new(&served.dfg, &devices, &served.options)?);
            plans.push((plan, served));
        }
        for (plan, served) in plans {
            *served.plan.write().unwrap_or_else(PoisonError::into_inner) = plan;
        }
        state.devices = Arc::new(devices);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked with the lock had not begun to change the state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What computes a graph that is served.
#[derive(Clone)]
pub enum Compute {
    /// Kernels of devices.
    Devices(Arc<SharedDevices>),
    /// Another program, which has the model already.
    Model(WholeModel),
}

impl From<Devices> for Compute {
    fn from(devices: Devices) -> Self {
        Self::Devices(Arc::new(SharedDevices::new(devices)))
    }
}

impl Compute {
    /// Makes a graph ready to run.
    ///
    /// # Errors
    ///
    /// It does not run on the devices, or the model is another one.
    pub fn serve(&self, dfg: Arc<Dfg>, options: Options) -> Result<Arc<Served>, RunError> {
        match self {
            Self::Devices(devices) => devices.serve(dfg, options),
            Self::Model(model) => {
                let plan = RwLock::new(Arc::new(Plan::of_model(&dfg, model, &options)?));
                Ok(Arc::new(Served { dfg, options, plan }))
            }
        }
    }
}
