//! ONNX Runtime as a second opinion: it runs whole models, from the library that the user has.
//!
//! What must not live here: how the library is found. It is code of the user's choice, like the
//! program itself: it is loaded by its path, without the trial that plug-ins have to pass.

mod api;
mod owned;

use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ng_infer::dfg::{Constant, Elements};
use ng_infer::kernel::{Data, View};
use ng_infer::plan::WholeModel;
use ng_types::explain;
use thiserror::Error;

use crate::library::Library;
use api::{Api, Opaque};
use owned::Owned;

/// Elements as ONNX numbers their types.
const FLOAT: i32 = 1;
const INT8: i32 = 3;
const INT64: i32 = 7;
const BOOL: i32 = 9;
const FLOAT16: i32 = 10;

/// The name of the device.
pub(crate) const DEVICE: &str = "onnxruntime";

/// Only errors are logged.
const LOG_ERRORS: i32 = 3;

/// Errors of ONNX Runtime.
#[derive(Debug, Error)]
pub enum OnnxRuntimeError {
    /// The library cannot be used.
    #[error("{}: {problem}", path.display())]
    Library {
        /// Where it is.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// It refuses the model, or what the model is run on.
    #[error("ONNX Runtime: {problem}")]
    Model {
        /// Why, in its own words.
        problem: String,
    },
}

explain! {
    OnnxRuntimeError {
        Library => UnsupportedArgument,
        Model => InvalidModel,
    }
}

/// The library.
#[derive(Clone, Debug)]
pub struct OnnxRuntime {
    api: Api,
    version: String,
}

impl OnnxRuntime {
    /// Loads the library at `path`.
    ///
    /// # Errors
    ///
    /// It cannot be loaded, or is too old.
    pub fn open(path: &Path) -> Result<Self, OnnxRuntimeError> {
        let wrong = |problem| OnnxRuntimeError::Library { path: path.to_owned(), problem };
        let name = CString::new(path.as_os_str().as_bytes());
        let name = name.map_err(|_| wrong("the path contains a zero byte".to_owned()))?;
        let library = Library::open(&name).map_err(wrong)?;
        let (api, version) = Api::of(library).map_err(wrong)?;
        Ok(Self { api, version })
    }

    /// Its version, such as `1.32.0`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Makes a model ready to run on `threads` threads: the bytes of an ONNX file, and of the files
    /// beside it that it refers to.
    ///
    /// # Errors
    ///
    /// ONNX Runtime refuses the model.
    pub fn session(
        &self,
        model: &[u8],
        files: &[(&str, &[u8])],
        threads: usize,
    ) -> Result<Session, OnnxRuntimeError> {
        let failed = |problem| OnnxRuntimeError::Model { problem };
        self.new_session(model, files, threads).map_err(failed)
    }

    fn new_session(
        &self,
        model: &[u8],
        files: &[(&str, &[u8])],
        threads: usize,
    ) -> Result<Session, String> {
        let api = self.api;
        let text = |name: &str| CString::new(name).map_err(|error| error.to_string());
        let names = files.iter().map(|(name, _)| text(name)).collect::<Result<Vec<_>, _>>()?;
        let names: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let data = |(_, bytes): &(&str, &[u8])| bytes.as_ptr().cast::<c_char>().cast_mut();
        let data: Vec<*mut c_char> = files.iter().map(data).collect();
        let lens: Vec<usize> = files.iter().map(|(_, bytes)| bytes.len()).collect();
        // SAFETY: pointers and lengths are those of slices that outlive the calls; ONNX Runtime
        // reads the files' bytes, and has copied what it needs when the session is there.
        unsafe {
            // Never released: all sessions share what is behind it.
            let mut env = std::ptr::null_mut();
            api.done(api.create_env()(LOG_ERRORS, c"neargraph".as_ptr(), &raw mut env))?;
            let options = Owned::new(api, api.release_session_options(), |to| {
                api.create_session_options()(to)
            })?;
            api.done(api.set_intra_op_threads()(options.get(), threads.max(1) as i32))?;
            if !files.is_empty() {
                let (names, data, lens) = (names.as_ptr(), data.as_ptr(), lens.as_ptr());
                let add = api.add_external_files();
                api.done(add(options.get(), names, data, lens, files.len()))?;
            }
            let session = Owned::new(api, api.release_session(), |to| {
                let bytes = model.as_ptr().cast();
                api.create_session_from_array()(env, bytes, model.len(), options.get(), to)
            })?;
            let inputs = names_of(api, session.get(), true)?;
            let outputs = names_of(api, session.get(), false)?;
            Ok(Session { api, session, inputs, outputs })
        }
    }
}

/// The names of the inputs or outputs of a session.
fn names_of(api: Api, session: Opaque, of_inputs: bool) -> Result<Vec<CString>, String> {
    let (count, name) = if of_inputs {
        (api.session_input_count(), api.session_input_name())
    } else {
        (api.session_output_count(), api.session_output_name())
    };
    // SAFETY: the session is there; names are C strings of the default allocator, which are copied
    // and given back.
    unsafe {
        let mut allocator = std::ptr::null_mut();
        api.done(api.default_allocator()(&raw mut allocator))?;
        let mut len = 0;
        api.done(count(session, &raw mut len))?;
        let mut names = Vec::with_capacity(len);
        for at in 0..len {
            let mut text = std::ptr::null_mut();
            api.done(name(session, at, allocator, &raw mut text))?;
            names.push(std::ffi::CStr::from_ptr(text).to_owned());
            api.done(api.allocator_free()(allocator, text.cast()))?;
        }
        Ok(names)
    }
}

/// A model that is ready to run.
#[derive(Debug)]
pub struct Session {
    api: Api,
    session: Owned,
    inputs: Vec<CString>,
    outputs: Vec<CString>,
}

impl Session {
    /// The names of the inputs.
    pub fn inputs(&self) -> impl Iterator<Item = String> {
        self.inputs.iter().map(|name| name.to_string_lossy().into_owned())
    }

    /// The names of the outputs.
    pub fn outputs(&self) -> impl Iterator<Item = String> {
        self.outputs.iter().map(|name| name.to_string_lossy().into_owned())
    }

    /// Runs the model on `inputs`, by name, and returns its outputs in order with their names.
    ///
    /// # Errors
    ///
    /// An input is missing or unknown, or ONNX Runtime refuses to run.
    pub fn run(
        &self,
        inputs: &[(&str, Constant)],
    ) -> Result<Vec<(String, Constant)>, OnnxRuntimeError> {
        let view = |of| View::new(Constant::dims(of), of.elements());
        let views: Vec<_> = inputs.iter().map(|(name, of)| (*name, view(of))).collect();
        let made = self.outputs_of(&views);
        let made = made.map_err(|problem| OnnxRuntimeError::Model { problem })?;
        Ok(self.outputs().zip(made).collect())
    }

    /// The model as what computes a graph.
    pub fn whole_model(self: &Arc<Self>) -> WholeModel {
        let session = Arc::clone(self);
        WholeModel {
            device: Arc::from(DEVICE),
            inputs: self.inputs().collect(),
            outputs: self.outputs().collect(),
            run: Arc::new(move |inputs| session.outputs_of(inputs)),
        }
    }

    fn outputs_of(&self, inputs: &[(&str, View<'_>)]) -> Result<Vec<Constant>, String> {
        let api = self.api;
        if let Some((name, _)) = inputs.iter().find(|(name, _)| !self.inputs().any(|n| n == *name))
        {
            return Err(format!("the model has no input {name:?}"));
        }
        let tensor = |name: String| {
            let found = inputs.iter().find(|(known, _)| *known == name);
            let missing = || format!("input {name:?} is missing");
            self.lent(&found.ok_or_else(missing)?.1)
        };
        let tensors = self.inputs().map(tensor).collect::<Result<Vec<_>, _>>()?;
        let values: Vec<Opaque> = tensors.iter().map(Owned::get).collect();
        let name = |name: &CString| name.as_ptr();
        let of_inputs: Vec<*const c_char> = self.inputs.iter().map(name).collect();
        let of_outputs: Vec<*const c_char> = self.outputs.iter().map(name).collect();
        let mut made: Vec<Opaque> = vec![std::ptr::null_mut(); self.outputs.len()];
        // SAFETY: as many names and tensors as the lengths say; elements of inputs are not written.
        unsafe {
            let (inputs, outputs) = (of_inputs.as_ptr(), of_outputs.as_ptr());
            let (values, to) = (values.as_ptr(), made.as_mut_ptr());
            let (session, count) = (self.session.get(), made.len());
            let none = std::ptr::null_mut();
            let run = api.run();
            api.done(run(session, none, inputs, values, of_inputs.len(), outputs, count, to))?;
        }
        let own = |value| Owned::of(value, api.release_value());
        let made: Vec<Owned> = made.into_iter().map(own).collect();
        made.iter().map(|value| self.copied(value)).collect()
    }

    /// A tensor that uses the elements where they are.
    fn lent(&self, tensor: &View<'_>) -> Result<Owned, String> {
        let api = self.api;
        let dims: Vec<i64> = tensor.dims.iter().map(|dim| *dim as i64).collect();
        let (data, bytes, dtype) = match tensor.data {
            Data::F32(all) => (all.as_ptr().cast::<u8>(), size_of_val(all), FLOAT),
            Data::I64(all) => (all.as_ptr().cast(), size_of_val(all), INT64),
            Data::Bool(all) => (all.as_ptr().cast(), size_of_val(all), BOOL),
            Data::F16(all) => (all.as_ptr().cast(), size_of_val(all), FLOAT16),
            Data::I8(all) => (all.as_ptr().cast(), size_of_val(all), INT8),
            Data::Rows(_) => {
                return Err(
                    "an input refers to rows of a table, which ONNX Runtime does not support"
                        .to_owned(),
                );
            }
        };
        // SAFETY: the elements outlive the tensor, which lives in one run and is only read there.
        unsafe {
            let info = Owned::new(api, api.release_memory_info(), |to| {
                // A device's own allocator, and its usual memory.
                api.create_cpu_memory_info()(0, 0, to)
            })?;
            let (data, dims, rank) = (data.cast_mut().cast(), dims.as_ptr(), dims.len());
            Owned::new(api, api.release_value(), |to| {
                api.create_tensor()(info.get(), data, bytes, dims, rank, dtype, to)
            })
        }
    }

    fn copied(&self, value: &Owned) -> Result<Constant, String> {
        let api = self.api;
        // SAFETY: the value is a tensor; as many numbers and elements are read as it says.
        unsafe {
            let info = Owned::new(api, api.release_tensor_info(), |to| {
                api.tensor_info()(value.get(), to)
            })?;
            let (mut rank, mut dtype) = (0, 0);
            api.done(api.tensor_rank()(info.get(), &raw mut rank))?;
            api.done(api.tensor_dtype()(info.get(), &raw mut dtype))?;
            let mut dims = vec![0; rank];
            api.done(api.tensor_dims()(info.get(), dims.as_mut_ptr(), rank))?;
            let dims: Vec<usize> = dims.into_iter().map(|dim| dim.max(0) as usize).collect();
            let mut data = std::ptr::null_mut();
            api.done(api.tensor_data()(value.get(), &raw mut data))?;
            let len: usize = dims.iter().product();
            let elements = match dtype {
                _ if len == 0 && dtype == FLOAT => Elements::F32(Vec::new()),
                _ if len == 0 && dtype == INT64 => Elements::I64(Vec::new()),
                FLOAT => Elements::F32(std::slice::from_raw_parts(data.cast(), len).to_vec()),
                INT64 => Elements::I64(std::slice::from_raw_parts(data.cast(), len).to_vec()),
                BOOL => {
                    let bytes: &[u8] = match len {
                        0 => &[],
                        _ => std::slice::from_raw_parts(data.cast(), len),
                    };
                    Elements::Bool(bytes.iter().map(|byte| *byte != 0).collect())
                }
                other => {
                    return Err(format!(
                        "an output has elements of ONNX type {other}, which is not supported"
                    ));
                }
            };
            Constant::new(dims, elements).ok_or_else(|| {
                "the shape of an output does not match \
                                                         its elements"
                    .to_owned()
            })
        }
    }
}
