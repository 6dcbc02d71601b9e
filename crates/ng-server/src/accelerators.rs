//! [`Accelerators`]: what computes all models, and how that is replaced while requests go on.
//!
//! What must not live here: what a plug-in may do, which `ng-plugin-host` checks. The invariants:
//! only files of one folder are loaded, by their SHA-256, after a trial in another process; a
//! change that fails changes nothing; answers of the devices before are not given after it.

use std::path::{Component, Path};
use std::sync::Arc;
use std::time::Duration;

use ng_infer::dfg::Op;
use ng_infer::run::Compute;
use ng_plugin_host::{AllowList, Bundle, Plugin, PluginError, Probe, Program, ProgramError};
use ng_rpc::{Code, Problem, problem_of, v1};
use tokio::sync::Semaphore;

use crate::catalogue::Catalogue;
use crate::config::Config;

/// When a change may be tried again that came while another one was made.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why devices are not changed, as a problem of the caller.
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
    /// One change comes after the other.
    turn: Semaphore,
}

impl Accelerators {
    /// With a bundle in force.
    ///
    /// # Errors
    /// There is no such bundle.
    pub fn new(bundle: &str) -> Result<Self, Problem> {
        let program = Program::new(preset(bundle)?).map_err(|e| problem_of(&e))?;
        Ok(Self { program, turn: Semaphore::new(1) })
    }

    /// The devices, for models that are served while they change.
    pub fn compute(&self) -> Compute {
        Compute::Devices(Arc::clone(self.program.devices()))
    }

    /// The name of the bundle in force.
    pub fn bundle(&self) -> String {
        self.program.bundle().name.clone()
    }

    /// All devices that are in force.
    pub fn devices(&self) -> Vec<v1::Device> {
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

    /// Replaces all devices by those of a bundle. May take a while.
    ///
    /// # Errors
    /// There is no such bundle, or a model does not run on it.
    pub fn program(&self, models: &Catalogue, bundle: &str) -> Result<Vec<v1::Device>, Problem> {
        let _turn = self.turn()?;
        let bundle = preset(bundle)?;
        self.swap(models, |_| Ok(bundle))
    }

    /// Adds the devices of a plug-in. May take a while.
    ///
    /// # Errors
    /// Plug-ins are not served, or this one is refused.
    pub fn add(
        &self,
        (config, models): (&Config, &Catalogue),
        request: &v1::PluginRequest,
    ) -> Result<Vec<v1::Device>, Problem> {
        let (path, probe) = found(config, &request.file)?;
        let allow = AllowList::new([&request.sha256])
            .map_err(|e| Problem::argument("sha256", problem_of(&e).message))?;
        let _turn = self.turn()?;
        let plugin = Plugin::load(&path, &allow, &probe).map_err(|e| problem_of(&e).at("file"))?;
        self.swap(models, |bundle| {
            let mut bundle = bundle.clone();
            bundle.add(plugin)?;
            Ok(bundle)
        })
    }

    fn turn(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Problem> {
        self.turn.try_acquire().map_err(|_| {
            let message = "the devices are being changed by another request";
            Problem::new(Code::Aborted, "DEVICES_BUSY", message)
                .retry_after(RETRY_AFTER)
                .remedy("try again when it has ended")
        })
    }

    fn swap(
        &self,
        models: &Catalogue,
        change: impl FnOnce(&Bundle) -> Result<Bundle, Refused>,
    ) -> Result<Vec<v1::Device>, Problem> {
        self.program.swap(change).map_err(|refused| refused.0)?;
        for model in models.models().into_iter().chain(models.sent_models()) {
            model.renew();
        }
        Ok(self.devices())
    }
}

fn preset(name: &str) -> Result<Bundle, Problem> {
    Bundle::preset(name).ok_or_else(|| {
        Problem::missing("BUNDLE_NOT_FOUND", format!("there is no bundle {name:?}"))
            .at("bundle")
            .remedy(format!("there are {}", Bundle::PRESETS.join(", ")))
    })
}

/// A file of the plug-in folder, and the program that tries it.
fn found(config: &Config, file: &str) -> Result<(std::path::PathBuf, Probe), Problem> {
    let off = |message: &str, remedy: &str| {
        Problem::new(Code::FailedPrecondition, "PLUGINS_OFF", message).remedy(remedy)
    };
    let folder = config.plugins.as_ref().ok_or_else(|| {
        let remedy = "the operator has to configure a folder for them";
        off("this server loads no plug-ins", remedy)
    })?;
    let (program, arguments) = config.plugin_trial.split_first().ok_or_else(|| {
        let remedy = "the operator has to configure the program that tries them";
        off("this server cannot try plug-ins", remedy)
    })?;
    let mut parts = Path::new(file).components();
    let is_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    if !is_name || file.ends_with('/') {
        let message = format!("{file:?} is not the name of a file");
        return Err(Problem::argument("file", message)
            .remedy("name a file that lies in the plug-in folder itself"));
    }
    let arguments = arguments.iter().map(Into::into).collect();
    let probe = Probe::new(program, arguments).with_limit(config.plugin_trial_time);
    Ok((folder.join(file), probe))
}
