//! Kernels of plug-ins as kernels of the engine.
//!
//! The invariants: kernels without the thread-safe trait are called by one thread at a time for the
//! whole plug-in; flags that a plug-in writes become flags of Rust before anybody sees them; and
//! what a kernel does not serve is done by the reference device and counted.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ng_infer::dfg::Op;
use ng_infer::kernel::{Context, DataMut, Kernel, KernelError, Scalar, View, ViewMut};
use ng_plugin_abi::{NG_BOOL, NG_TRAIT_THREAD_SAFE};
use ng_types::Dtype;

use crate::call::{Answer, Scratch, Tensor, dtype_number};
use crate::register::Definition;

/// Scratch memory is aligned to this at least.
pub(crate) const SCRATCH_ALIGNMENT: usize = 64;

/// Scratch memory that every call may have.
const SCRATCH_BYTES_FREE: u64 = 64 << 20;

/// And so many times the bytes of its tensors.
const SCRATCH_TIMES: u64 = 64;

/// A kernel of a plug-in.
#[derive(Debug)]
pub(crate) struct PluginKernel {
    pub definition: Definition,
    /// Of the whole plug-in.
    pub turn: Arc<Mutex<()>>,
    /// Calls that the reference device did.
    pub left_to_reference: AtomicU64,
}

/// The most scratch memory for a call.
pub(crate) fn scratch_bytes_max(inputs: &[Tensor], outputs: &[Tensor]) -> u64 {
    let all = inputs.iter().chain(outputs);
    let bytes: u64 = all.map(|tensor| tensor.bytes() as u64).sum();
    SCRATCH_BYTES_FREE.saturating_add(bytes.saturating_mul(SCRATCH_TIMES))
}

/// That a kernel does not want more scratch memory than makes sense.
pub(crate) fn check_scratch(wanted: u64, most: u64) -> Result<(), String> {
    if wanted <= most {
        return Ok(());
    }
    Err(format!(
        "it requests {wanted} bytes of scratch memory; at most {most} are allowed for these \
         tensors"
    ))
}

impl Definition {
    /// Whether its inputs may have these types.
    pub fn takes(&self, dtypes: impl IntoIterator<Item = Dtype>) -> bool {
        let takes = |number: u32| self.dtypes >> number & 1 == 1;
        dtypes.into_iter().all(|dtype| dtype_number(dtype).is_some_and(takes))
    }

    pub fn is_thread_safe(&self) -> bool {
        self.traits & NG_TRAIT_THREAD_SAFE != 0
    }
}

/// Memory of a certain alignment, not filled.
struct Aligned {
    memory: Vec<u8>,
    start: usize,
}

impl Aligned {
    fn new(bytes: usize, alignment: usize) -> Result<Self, KernelError> {
        let mut memory: Vec<u8> = Vec::new();
        let none = |_| KernelError::Misfit(format!("cannot allocate {bytes} bytes"));
        memory.try_reserve_exact(bytes.saturating_add(alignment)).map_err(none)?;
        let start = memory.as_ptr().align_offset(alignment);
        Ok(Self { memory, start })
    }

    fn data(&mut self) -> *mut u8 {
        // `start` is below the alignment, so both lie in what was reserved.
        self.memory.as_mut_ptr().wrapping_add(self.start)
    }
}

impl Kernel for PluginKernel {
    fn run(
        &self,
        op: &Op,
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
        context: &Context,
    ) -> Result<(), KernelError> {
        let definition = &self.definition;
        // A poisoned lock guards nothing but whose turn it is.
        let turn = || self.turn.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let _turn = (!definition.is_thread_safe()).then(turn);
        let tensors: Option<Vec<Tensor>> = inputs.iter().map(Tensor::of_view).collect();
        let made: Option<Vec<Tensor>> = outputs.iter_mut().map(Tensor::of_view_mut).collect();
        let seen = tensors.zip(made).filter(|_| definition.takes(inputs.iter().map(View::dtype)));
        let Some((mut tensors, mut made)) = seen else {
            return self.leave(op, inputs, outputs, context);
        };
        let (answer, bytes) = definition.ask(op, &tensors, &made, context.threads());
        match answer {
            Answer::Done => {}
            Answer::NotServed => return self.leave(op, inputs, outputs, context),
            Answer::Misfit(text) | Answer::Failed(text) => return Err(self.failed(&text)),
        }
        let most = scratch_bytes_max(&tensors, &made);
        check_scratch(bytes, most).map_err(|problem| self.failed(&problem))?;
        let mut staged = stage(&mut tensors, &mut made, definition.alignment)?;
        let alignment = definition.alignment.max(SCRATCH_ALIGNMENT);
        let mut scratch = Aligned::new(bytes as usize, alignment)?;
        let scratch = Scratch { data: scratch.data().cast(), bytes };
        // SAFETY: the tensors are those of the views, which live and are ours, or staged copies of
        // them; the scratch memory has as many bytes as it says.
        let answer = unsafe { definition.call(op, &tensors, &made, scratch, context.threads()) };
        match answer {
            Answer::Done => {
                unstage(&mut staged, outputs);
                Ok(())
            }
            Answer::NotServed => {
                Err(self.failed("run returned NG_NOT_SERVED, which only query may return"))
            }
            Answer::Misfit(text) | Answer::Failed(text) => Err(self.failed(&text)),
        }
    }
}

impl PluginKernel {
    /// Has the reference device do what this kernel does not serve.
    fn leave(
        &self,
        op: &Op,
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
        context: &Context,
    ) -> Result<(), KernelError> {
        self.left_to_reference.fetch_add(1, Ordering::Relaxed);
        Scalar.run(op, inputs, outputs, context)
    }

    fn failed(&self, problem: &str) -> KernelError {
        KernelError::Misfit(format!("device {:?}: {problem}", self.definition.device))
    }
}

/// Outputs that lie elsewhere during a call, by place.
type Staged = Vec<(usize, Aligned)>;

/// Copies of tensors whose memory is not aligned as the kernel needs, and of flags to fill.
fn stage(
    inputs: &mut [Tensor],
    outputs: &mut [Tensor],
    alignment: usize,
) -> Result<(Vec<Aligned>, Staged), KernelError> {
    let is_aligned = |data: *mut c_void| (data as usize).is_multiple_of(alignment);
    let mut copies = Vec::new();
    for input in inputs.iter_mut().filter(|input| !is_aligned(input.data)) {
        let bytes = input.bytes();
        let mut copy = Aligned::new(bytes, alignment)?;
        // SAFETY: the tensor has so many bytes, and so has the copy, which is new.
        unsafe { std::ptr::copy_nonoverlapping(input.data.cast::<u8>(), copy.data(), bytes) };
        input.data = copy.data().cast();
        copies.push(copy);
    }
    let mut staged = Vec::new();
    for (place, output) in outputs.iter_mut().enumerate() {
        if is_aligned(output.data) && output.dtype != NG_BOOL {
            continue;
        }
        let bytes = output.bytes();
        let mut copy = Aligned::new(bytes, alignment)?;
        // SAFETY: the memory is new and has so many bytes. Bytes that the kernel leaves out must
        // not be undefined when they are copied back.
        unsafe { std::ptr::write_bytes(copy.data(), 0, bytes) };
        output.data = copy.data().cast();
        staged.push((place, copy));
    }
    Ok((copies, staged))
}

/// Copies staged outputs to where they belong.
fn unstage((_, staged): &mut (Vec<Aligned>, Staged), outputs: &mut [ViewMut<'_>]) {
    fn filled<T: Copy>(copy: &mut Aligned, len: usize) -> &[T] {
        // SAFETY: the memory has as many bytes, all of them written. Memory of a T has its
        // alignment already, so a tensor of it is only staged for a larger one.
        unsafe { std::slice::from_raw_parts(copy.data().cast::<T>(), len) }
    }
    for (place, copy) in staged {
        match &mut outputs[*place].data {
            DataMut::F32(all) => all.copy_from_slice(filled(copy, all.len())),
            DataMut::I64(all) => all.copy_from_slice(filled(copy, all.len())),
            DataMut::Bool(all) => {
                let bytes: &[u8] = filled(copy, all.len());
                all.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte != 0);
            }
            // Plug-ins see no such outputs.
            DataMut::F16(_) | DataMut::I8(_) => {}
        }
    }
}
