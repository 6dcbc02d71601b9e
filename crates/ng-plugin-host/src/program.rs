//! HolisticGNN's `Program()`: the accelerator is replaced while graphs run.
//!
//! The invariants: a run sees one bundle from its begin to its end, because it holds the plan that
//! was bound to it; a run that begins after a swap has returned sees the new one; and a swap that
//! fails changes nothing.

use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use ng_infer::dfg::Dfg;
use ng_infer::plan::{Options, Plan};
use ng_infer::run::RunError;
use ng_ssdsim::{Config, ConfigError};
use ng_types::explain;
use thiserror::Error;

use crate::bundle::Bundle;

/// Why a bundle is not put into force.
#[derive(Debug, Error)]
pub enum ProgramError {
    /// The simulator does not take its configuration.
    #[error("bundle {name:?}: {source}")]
    Accelerator {
        /// The bundle.
        name: String,
        /// What is wrong.
        source: ConfigError,
    },
    /// A graph that is served does not run on it.
    #[error("bundle {name:?} does not run a graph that is served: {source}")]
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
    state: Mutex<State>,
}

struct State {
    bundle: Arc<Bundle>,
    served: Vec<Weak<Served>>,
}

/// A graph that runs on whatever a [`Program`] has.
pub struct Served {
    dfg: Arc<Dfg>,
    options: Options,
    plan: RwLock<Arc<Plan>>,
}

impl Served {
    /// The plan for the bundle that is in force. A run that holds it ends with its kernels.
    pub fn plan(&self) -> Arc<Plan> {
        // Whoever panicked with the lock had not begun to write.
        Arc::clone(&self.plan.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Program {
    /// With a bundle in force.
    ///
    /// # Errors
    ///
    /// The simulator does not take its configuration.
    pub fn new(bundle: Bundle) -> Result<Self, ProgramError> {
        check(&bundle)?;
        let state = State { bundle: Arc::new(bundle), served: Vec::new() };
        Ok(Self { state: Mutex::new(state) })
    }

    /// The bundle that is in force.
    pub fn bundle(&self) -> Arc<Bundle> {
        Arc::clone(&self.lock().bundle)
    }

    /// Makes a graph ready to run, now and after each swap.
    ///
    /// # Errors
    ///
    /// It does not run on the bundle that is in force.
    pub fn serve(&self, dfg: Arc<Dfg>, options: Options) -> Result<Arc<Served>, RunError> {
        let mut state = self.lock();
        let plan = RwLock::new(Arc::new(Plan::new(&dfg, &state.bundle.devices, &options)?));
        let served = Arc::new(Served { dfg, options, plan });
        state.served.retain(|known| known.strong_count() > 0);
        state.served.push(Arc::downgrade(&served));
        Ok(served)
    }

    /// Puts what `change` makes of the bundle into force: runs go on with the old one, and those
    /// that begin later take the new one. Returns the old one.
    ///
    /// # Errors
    ///
    /// `change` fails, or the new bundle is not valid or does not run all graphs that are served.
    /// The old one stays in force.
    pub fn swap<E: From<ProgramError>>(
        &self,
        change: impl FnOnce(&Bundle) -> Result<Bundle, E>,
    ) -> Result<Arc<Bundle>, E> {
        let mut state = self.lock();
        let bundle = change(&state.bundle)?;
        check(&bundle)?;
        let mut plans = Vec::new();
        for served in state.served.iter().filter_map(Weak::upgrade) {
            let plan = Plan::new(&served.dfg, &bundle.devices, &served.options);
            let failed = |source| ProgramError::Graph { name: bundle.name.clone(), source };
            plans.push((Arc::new(plan.map_err(failed)?), served));
        }
        for (plan, served) in plans {
            *served.plan.write().unwrap_or_else(PoisonError::into_inner) = plan;
        }
        Ok(std::mem::replace(&mut state.bundle, Arc::new(bundle)))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Whoever panicked with the lock had not begun to change the state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check(bundle: &Bundle) -> Result<(), ProgramError> {
    let config = Config { accelerator: bundle.accelerator.clone(), ..Config::paper() };
    let wrong = |source| ProgramError::Accelerator { name: bundle.name.clone(), source };
    config.check().map_err(wrong)
}
