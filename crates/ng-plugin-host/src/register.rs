//! What a plug-in registers: HolisticGNN's `RegisterDevice` and `RegisterOpDefinition`, called
//! through the host's table.
//!
//! The invariants: all that a plug-in hands over is copied and checked before it is believed; the
//! first fault counts, whatever the plug-in makes of the result code; and after `ng_plugin_v1` has
//! returned, nothing more can be registered.

use std::ffi::c_void;
use std::mem::size_of;
use std::sync::Mutex;

use ng_infer::dfg::Op;
use ng_plugin_abi::{
    NG_API_VERSION, NG_FAILED, NG_OK, NG_SYMBOL, NgApi, NgDevice, NgEntry, NgHost, NgKernel,
    NgPlugin, NgQuery, NgRegistry, NgRun, NgText,
};

use crate::cases::is_offered;
use crate::library::Library;
use crate::onnxruntime;
use crate::structs::{ErrorText, copied, text};

/// Devices that are not those of plug-ins.
const OWN_DEVICES: [&str; 4] = ["cpu-scalar", "cpu", "python", onnxruntime::DEVICE];

/// More kernels than this are a mistake.
const KERNELS_MAX: usize = 1024;

/// The largest alignment that a kernel may ask for.
const ALIGNMENT_MAX: u32 = 4096;

/// What a plug-in registered.
#[derive(Clone, Debug)]
pub(crate) struct Registration {
    pub name: String,
    pub version: String,
    pub devices: Vec<(String, i32)>,
    pub definitions: Vec<Definition>,
}

/// A kernel that a plug-in registered.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    /// As [`Op::names`] has it.
    pub op: String,
    pub device: String,
    pub traits: u64,
    pub dtypes: u32,
    pub alignment: usize,
    pub state: *mut c_void,
    pub query: NgQuery,
    pub run: NgRun,
}

// SAFETY: by the rules of the interface, any thread may call a kernel; those that are not
// thread-safe are called under a lock.
unsafe impl Send for Definition {}
// SAFETY: as above.
unsafe impl Sync for Definition {}

#[derive(Default)]
struct Registry {
    is_closed: bool,
    devices: Vec<(String, i32)>,
    definitions: Vec<Definition>,
    fault: Option<String>,
}

static API: NgApi =
    NgApi { struct_size: size_of::<NgApi>() as u64, register_device, register_op_definition };

unsafe extern "C" fn get_api(version: u32) -> *const NgApi {
    if version == NG_API_VERSION { &raw const API } else { std::ptr::null() }
}

/// Calls the entry of a library.
pub(crate) fn registration(library: Library) -> Result<Registration, String> {
    let entry = library.symbol(NG_SYMBOL)?;
    // SAFETY: the symbol of this name is a function of this type; so says the interface.
    let entry: NgEntry = unsafe { std::mem::transmute::<*mut c_void, NgEntry>(entry) };
    // Never freed: a plug-in that keeps the pointer may call it later, and gets a refusal.
    let registry: &'static Mutex<Registry> = Box::leak(Box::default());
    let mut error = ErrorText::new();
    let host = NgHost {
        struct_size: size_of::<NgHost>() as u64,
        get_api,
        registry: std::ptr::from_ref(registry).cast::<NgRegistry>().cast_mut(),
        error: error.frame(),
    };
    let none = NgText { data: std::ptr::null(), len: 0 };
    let size = size_of::<NgPlugin>() as u64;
    let mut plugin =
        NgPlugin { struct_size: size, api_version: 0, reserved: 0, name: none, version: none };
    // SAFETY: both structs are whole, and live until the call returns.
    let result = unsafe { entry(&raw const host, &raw mut plugin) };
    let registry = {
        let mut registry = registry.lock().map_err(|error| error.to_string())?;
        std::mem::replace(&mut *registry, Registry { is_closed: true, ..Registry::default() })
    };
    if let Some(fault) = registry.fault {
        return Err(fault);
    }
    if result != NG_OK {
        return Err(format!("ng_plugin_v1 returned {result}: {}", error.text()));
    }
    finished(registry, &plugin)
}

/// What the plug-in says of itself, and whether it registered anything.
fn finished(registry: Registry, plugin: &NgPlugin) -> Result<Registration, String> {
    let size = size_of::<NgPlugin>() as u64;
    if plugin.struct_size != size {
        return Err(format!("NgPlugin has struct_size {}; expected {size}", plugin.struct_size));
    }
    if plugin.api_version != NG_API_VERSION {
        let found = plugin.api_version;
        return Err(format!("it uses version {found} of the interface; expected {NG_API_VERSION}"));
    }
    if plugin.reserved != 0 {
        return Err("a reserved field of NgPlugin is not 0".to_owned());
    }
    if registry.definitions.is_empty() {
        return Err("it does not register any kernels".to_owned());
    }
    // SAFETY: the plug-in says so, and both texts are of its own static memory.
    let (name, version) =
        unsafe { (text(plugin.name, "its name")?, text(plugin.version, "its version")?) };
    let Registry { devices, definitions, .. } = registry;
    Ok(Registration { name, version, devices, definitions })
}

/// Adds to a registry, or notes why it cannot.
unsafe fn add(
    registry: *mut NgRegistry,
    what: impl FnOnce(&mut Registry) -> Result<(), String>,
) -> i32 {
    if registry.is_null() {
        return NG_FAILED;
    }
    // SAFETY: the plug-in hands back what it was given: a registry that is never freed.
    let registry = unsafe { &*registry.cast::<Mutex<Registry>>() };
    let Ok(mut registry) = registry.lock() else { return NG_FAILED };
    if registry.is_closed {
        return NG_FAILED;
    }
    match what(&mut registry) {
        Ok(()) => NG_OK,
        Err(fault) => {
            registry.fault.get_or_insert(fault);
            NG_FAILED
        }
    }
}

unsafe extern "C" fn register_device(registry: *mut NgRegistry, device: *const NgDevice) -> i32 {
    let what = |registry: &mut Registry| {
        // SAFETY: the plug-in says that the struct and its text can be read.
        let (device, name) = unsafe {
            let device = copied(device)?;
            (device, text(device.name, "the name of a device")?)
        };
        if device.reserved != 0 {
            return Err("a reserved field of NgDevice is not 0".to_owned());
        }
        if OWN_DEVICES.contains(&name.as_str()) {
            return Err(format!("{name:?} is a device of the host; choose another name"));
        }
        registry.devices.retain(|(known, _)| *known != name);
        registry.devices.push((name, device.priority));
        Ok(())
    };
    // SAFETY: the plug-in hands back the registry that it was given.
    unsafe { add(registry, what) }
}

unsafe extern "C" fn register_op_definition(
    registry: *mut NgRegistry,
    kernel: *const NgKernel,
) -> i32 {
    let what = |registry: &mut Registry| {
        // SAFETY: the plug-in says that the struct and its texts can be read.
        let (kernel, op, device) = unsafe {
            let kernel = copied(kernel)?;
            let op = text(kernel.op, "the operation of a kernel")?;
            (kernel, op, text(kernel.device, "the device of a kernel")?)
        };
        let definition = definition(&kernel, &op, device)?;
        if !registry.devices.iter().any(|(name, _)| *name == definition.device) {
            let device = definition.device;
            return Err(format!(
                "kernel of {op}: device {device:?} is not registered; register it first"
            ));
        }
        if registry.definitions.len() == KERNELS_MAX {
            return Err(format!("it registers more than {KERNELS_MAX} kernels"));
        }
        let same = |d: &Definition| (&d.op, &d.device) == (&definition.op, &definition.device);
        registry.definitions.retain(|known| !same(known));
        registry.definitions.push(definition);
        Ok(())
    };
    // SAFETY: the plug-in hands back the registry that it was given.
    unsafe { add(registry, what) }
}

fn definition(kernel: &NgKernel, op: &str, device: String) -> Result<Definition, String> {
    let plain = |name: &str| name.replace('_', "").to_lowercase();
    let known = Op::names().find(|name| plain(name) == plain(op));
    let name = known.ok_or_else(|| format!("unknown operation {op:?} of a kernel"))?;
    if !is_offered(&name) {
        return Err(format!("plug-ins cannot provide {name}: only devices of the host compute it"));
    }
    let missing = |function: &str| format!("kernel of {name}: {function} is NULL");
    let query = kernel.query.ok_or_else(|| missing("query"))?;
    let run = kernel.run.ok_or_else(|| missing("run"))?;
    let alignment = kernel.alignment;
    if !alignment.is_power_of_two() || alignment > ALIGNMENT_MAX {
        let most = ALIGNMENT_MAX;
        return Err(format!(
            "kernel of {name}: alignment {alignment} is not a power of 2 up to {most}"
        ));
    }
    if kernel.traits & !3 != 0 || kernel.dtypes & !7 != 0 || kernel.dtypes == 0 {
        let (traits, dtypes) = (kernel.traits, kernel.dtypes);
        let bits = format!("traits {traits:#x} and dtypes {dtypes:#x}");
        return Err(format!("kernel of {name}: {bits} are not valid in version 1"));
    }
    Ok(Definition {
        op: name,
        device,
        traits: kernel.traits,
        dtypes: kernel.dtypes,
        alignment: alignment as usize,
        state: kernel.state,
        query,
        run,
    })
}
