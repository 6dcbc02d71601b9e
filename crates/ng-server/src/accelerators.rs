//! [`Accelerators`]: the devices that compute all models, and their replacement during service.
//!
//! What must not live here: checks of plug-ins, which `ng-plugin-host` does. The invariants: only
//! files of one folder are loaded, by their SHA-256, after a trial in another process; a change
//! that fails changes nothing; a change that succeeds is durable, and repeated at the next start;
//! after it, no answer comes from the old devices.

use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use ng_infer::dfg::Op;
use ng_infer::run::Compute;
use ng_plugin_host::{
    AllowList, Bundle, Plugin, PluginError, Probe, Program, ProgramError, bytes_of,
};
use ng_rpc::{Code, Problem, problem_of, v1};
use tokio::sync::Semaphore;

use crate::catalogue::{Catalogue, KeptDevices, KeptPlugin, plugin_place};
use crate::config::Config;

/// The time after which a change can be retried that was rejected during another one.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why devices are not changed, as an error of the request.
struct Refused(Problem);

impl From<ProgramError> for Refused {
    fn from(error: ProgramError) -> Self {
        Self(problem_of(&error))
    }
}

impl From<PluginError> for Refused {
    fn from(error: PluginError) -> Self {
        Self(problem_of(&error))
    }
}

/// The devices of all models.
pub struct Accelerators {
    program: Program,
    /// The last published state, which is readable during a change.
    told: RwLock<Arc<v1::ListDevicesResponse>>,
    registered: Mutex<Vec<Registered>>,
    /// Serialises changes.
    turn: Semaphore,
}

/// A plug-in that was registered, and why it is not in force, if it is not.
#[derive(Clone)]
struct Registered {
    kept: KeptPlugin,
    problem: Option<String>,
}

impl Accelerators {
    /// Starts with the recorded devices of the last run, or with the configured bundle. A plug-in
    /// that can no longer be loaded is left out and reported.
    ///
    /// # Errors
    /// The configured bundle does not exist.
    pub fn open(config: &Config, kept: Option<&KeptDevices>) -> Result<Self, Problem> {
        let mut bundle = preset(&config.bundle)?;
        let mut registered = Vec::new();
        if let Some(kept) = kept {
            match preset(&kept.bundle) {
                Ok(found) => bundle = found,
                Err(problem) => tracing::error!(bundle = kept.bundle, "{}", problem.message),
            }
            if bundle.name != config.bundle {
                let (bundle, setting) = (&bundle.name, &config.bundle);
                tracing::info!(
                    bundle,
                    setting,
                    "using the bundle that a client set last, not the configured one"
                );
            }
            for plugin in &kept.plugins {
                let added = again(config, plugin)
                    .and_then(|found| bundle.add(found).map_err(|error| problem_of(&error)));
                let problem = added.err().map(|problem| problem.message);
                if let Some(problem) = &problem {
                    let file = &plugin.file;
                    tracing::error!(file, "a registered plug-in is not loaded: {problem}");
                }
                registered.push(Registered { kept: plugin.clone(), problem });
            }
        }
        let program = Program::new(bundle).map_err(|e| problem_of(&e))?;
        let (told, registered, turn) =
            (RwLock::default(), Mutex::new(registered), Semaphore::new(1));
        let this = Self { program, told, registered, turn };
        this.tell();
        Ok(this)
    }

    /// The devices, for models that are served while they change.
    pub fn compute(&self) -> Compute {
        Compute::Devices(Arc::clone(self.program.devices()))
    }

    /// Whether all kernels are the server's own, whose time is bounded.
    pub fn are_own(&self) -> bool {
        self.told().devices.iter().all(|device| device.plugin.is_empty())
    }

    /// The current devices, and the plug-ins that are left out. Does not wait for a change.
    pub fn told(&self) -> Arc<v1::ListDevicesResponse> {
        Arc::clone(&self.told.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Publishes the current devices.
    fn tell(&self) {
        let (devices, left_out) = (self.devices(), self.left_out());
        let bundle = self.program.bundle().name.clone();
        let told = Arc::new(v1::ListDevicesResponse { devices, bundle, left_out });
        *self.told.write().unwrap_or_else(PoisonError::into_inner) = told;
    }

    /// All devices that are in force.
    fn devices(&self) -> Vec<v1::Device> {
        let bundle = self.program.bundle();
        let kernels: Vec<(String, Vec<String>)> = Op::names()
            .map(|op| {
                let of = bundle.devices.kernels(&op);
                let of = of.iter().map(|binding| binding.device.to_string()).collect();
                (op, of)
            })
            .collect();
        let brought = |device: &str| {
            let has = |plugin: &&Arc<Plugin>| plugin.devices().iter().any(|(own, _)| own == device);
            bundle.plugins().iter().find(has).map(|plugin| plugin.name().to_owned())
        };
        let device = |(name, priority): (&str, i32)| v1::Device {
            name: name.to_owned(),
            priority,
            plugin: brought(name).unwrap_or_default(),
            operations: kernels
                .iter()
                .filter(|(_, devices)| devices.iter().any(|device| device == name))
                .map(|(op, _)| op.clone())
                .collect(),
        };
        bundle.devices.priorities().into_iter().map(device).collect()
    }

    /// Plug-ins that were registered and are not in force, each with the reason.
    fn left_out(&self) -> Vec<String> {
        let registered = self.registered();
        let left = registered.iter().filter_map(|one| {
            let problem = one.problem.as_ref()?;
            Some(format!("plug-in {:?} is not loaded: {problem}", one.kept.file))
        });
        left.collect()
    }

    fn registered(&self) -> Vec<Registered> {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces all devices by those of a bundle. Can take seconds.
    ///
    /// # Errors
    /// The bundle does not exist, a model does not run on it, or it cannot be recorded.
    pub fn program(&self, models: &Catalogue, bundle: &str) -> Result<Vec<v1::Device>, Problem> {
        let _turn = self.turn()?;
        models.check_writable()?;
        let bundle = preset(bundle)?;
        self.swap(models, |_| Ok(bundle), Vec::new())
    }

    /// Adds the devices of a plug-in. Can take seconds.
    ///
    /// # Errors
    /// Plug-ins are disabled, this one is rejected, or it cannot be recorded.
    pub fn add(
        &self,
        (config, models): (&Config, &Catalogue),
        request: &v1::PluginRequest,
    ) -> Result<Vec<v1::Device>, Problem> {
        let (path, probe) = found(config, &request.file)?;
        let allow = AllowList::new([&request.sha256])
            .map_err(|e| Problem::argument("sha256", problem_of(&e).message))?;
        let _turn = self.turn()?;
        models.check_writable()?;
        let refused = |e: PluginError| problem_of(&e).at("file");
        let plugin = Plugin::load(&path, &allow, &probe).map_err(refused)?;
        let bytes = bytes_of(&path, &allow).map_err(refused)?;
        let sha256 = plugin.sha256().to_owned();
        models.keep_plugin(&sha256, &bytes)?;
        let kept = KeptPlugin { file: request.file.clone(), sha256: sha256.clone() };
        let mut registered = self.registered();
        registered.retain(|one| one.kept.file != kept.file && one.kept.sha256 != sha256);
        registered.push(Registered { kept, problem: None });
        let change = |bundle: &Bundle| -> Result<Bundle, Refused> {
            let mut bundle = bundle.clone();
            bundle.add(plugin)?;
            Ok(bundle)
        };
        let swapped = self.swap(models, change, registered);
        if swapped.is_err() && self.registered().iter().all(|one| one.kept.sha256 != sha256) {
            models.forget_plugin(&sha256);
        }
        swapped
    }

    fn turn(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Problem> {
        self.turn.try_acquire().map_err(|_| {
            let message = "another request is changing the devices";
            Problem::new(Code::Aborted, "DEVICES_BUSY", message)
                .retry_about(RETRY_AFTER)
                .remedy("try again after that request has ended")
        })
    }

    fn swap(
        &self,
        models: &Catalogue,
        change: impl FnOnce(&Bundle) -> Result<Bundle, Refused>,
        mut registered: Vec<Registered>,
    ) -> Result<Vec<v1::Device>, Problem> {
        // One that nobody waits for is no reason to keep the devices that it runs on.
        models.close_idle_sent();
        let before = self.program.swap(change).map_err(|refused| refused.0)?;
        let now = self.program.bundle();
        // Another build of a plug-in takes the place of the one before.
        let is_in_force =
            |one: &Registered| now.plugins().iter().any(|p| p.sha256() == one.kept.sha256);
        registered.retain(|one| one.problem.is_some() || is_in_force(one));
        let plugins = registered.iter().map(|one| one.kept.clone()).collect();
        let kept = models.keep_devices(KeptDevices { bundle: now.name.clone(), plugins });
        if kept.is_err() {
            // All models ran on it a moment ago.
            let back = self.program.swap(|_| Ok::<_, ProgramError>(Bundle::clone(&before)));
            if let Err(error) = back {
                tracing::error!(
                    %error,
                    "the devices could not be recorded, so a restart will lose them"
                );
            }
        }
        for model in models.models().into_iter().chain(models.sent_models()) {
            model.renew();
        }
        self.tell();
        kept?;
        let mut known = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = std::mem::replace(&mut *known, registered.clone());
        drop(known);
        self.tell();
        for one in gone {
            if registered.iter().all(|other| other.kept.sha256 != one.kept.sha256) {
                models.forget_plugin(&one.kept.sha256);
            }
        }
        Ok(self.told().devices.clone())
    }
}

fn preset(name: &str) -> Result<Bundle, Problem> {
    Bundle::preset(name).ok_or_else(|| {
        Problem::missing("BUNDLE_NOT_FOUND", format!("bundle {name:?} does not exist"))
            .at("bundle")
            .remedy(format!("use one of {}", Bundle::PRESETS.join(", ")))
    })
}

/// Loads a plug-in that was registered before this start.
fn again(config: &Config, kept: &KeptPlugin) -> Result<Arc<Plugin>, Problem> {
    let (_, probe) = trial(config)?;
    let path = plugin_place(&config.folder, &kept.sha256);
    let allow = AllowList::new([&kept.sha256]).map_err(|e| problem_of(&e))?;
    Plugin::load(&path, &allow, &probe).map_err(|error| {
        let problem = problem_of(&error);
        let PluginError::NotAllowed { path, sha256 } = error else { return problem };
        let message = format!(
            "{} has changed since {:?} was registered: its SHA-256 is {sha256}, not {}; register \
             the plug-in again",
            path.display(),
            kept.file,
            kept.sha256
        );
        Problem { message, ..problem }
    })
}

/// The folder of plug-ins, and the program that tries them.
fn trial(config: &Config) -> Result<(&Path, Probe), Problem> {
    let off = |message: &str, remedy: &str| {
        Problem::new(Code::FailedPrecondition, "PLUGINS_OFF", message).remedy(remedy)
    };
    let folder = config.plugins.as_ref().ok_or_else(|| {
        let remedy = "set plugins= in the settings file of the server to the folder of plug-ins";
        off("this server does not load plug-ins", remedy)
    })?;
    let (program, arguments) = config.plugin_trial.split_first().ok_or_else(|| {
        let remedy = "set plugin_trial= in the settings file to the program that tries plug-ins";
        off("this server cannot try plug-ins", remedy)
    })?;
    let arguments = arguments.iter().map(Into::into).collect();
    Ok((folder, Probe::new(program, arguments).with_limit(config.plugin_trial_time)))
}

/// A file of the plug-in folder, and the program that tries it.
fn found(config: &Config, file: &str) -> Result<(PathBuf, Probe), Problem> {
    let (folder, probe) = trial(config)?;
    let mut parts = Path::new(file).components();
    let is_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    if !is_name || file.ends_with('/') {
        let message = format!("{file:?} is not a file name");
        return Err(Problem::argument("file", message)
            .remedy("give only the name of a file in the plug-in folder"));
    }
    Ok((folder.join(file), probe))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_is_in_force_is_told_while_a_change_is_tried() {
        let all = Accelerators::open(&Config::default(), None).expect("devices");
        let (to, from) = mpsc::channel();
        std::thread::scope(|scope| {
            let change = |bundle: &Bundle| {
                scope.spawn(|| to.send(all.told().bundle.clone()));
                let told = from.recv_timeout(Duration::from_secs(20));
                assert_eq!(told.as_deref(), Ok(bundle.name.as_str()));
                Ok::<_, ProgramError>(bundle.clone())
            };
            all.program.swap(change).expect("swapped");
        });
    }
}
