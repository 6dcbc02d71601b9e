//! One call of a kernel of a plug-in: the structs that it sees, and what it answers.

use std::ffi::c_void;
use std::mem::size_of;

use ng_infer::dfg::Op;
use ng_infer::kernel::{Data, DataMut, View, ViewMut};
use ng_plugin_abi::{
    NG_BOOL, NG_CPU, NG_F32, NG_I64, NG_MISFIT, NG_NOT_SERVED, NG_OK, NgAttribute, NgCall, NgOp,
    NgView, NgViewMut,
};
use ng_types::Dtype;

use crate::register::Definition;
use crate::structs::{ErrorText, lent};

/// A tensor as a plug-in sees it.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub data: *mut c_void,
    pub dtype: u32,
    dims: Vec<i64>,
    strides: Vec<i64>,
}

/// The number of a dtype; `None` if plug-ins do not see it.
pub(crate) fn dtype_number(dtype: Dtype) -> Option<u32> {
    match dtype {
        Dtype::F32 => Some(NG_F32),
        Dtype::I64 => Some(NG_I64),
        Dtype::Bool => Some(NG_BOOL),
        _ => None,
    }
}

impl Tensor {
    /// In row-major order; `None` if plug-ins do not see the type.
    pub fn new(data: *mut c_void, dtype: Dtype, dims: &[usize]) -> Option<Self> {
        let stride = |axis: usize| dims[axis + 1..].iter().product::<usize>() as i64;
        Some(Self {
            data,
            dtype: dtype_number(dtype)?,
            dims: dims.iter().map(|dim| *dim as i64).collect(),
            strides: (0..dims.len()).map(stride).collect(),
        })
    }

    /// `None` if plug-ins do not see such a tensor.
    pub fn of_view(view: &View<'_>) -> Option<Self> {
        let data: *const c_void = match view.data {
            Data::F32(all) => all.as_ptr().cast(),
            Data::I64(all) => all.as_ptr().cast(),
            Data::Bool(all) => all.as_ptr().cast(),
            Data::F16(_) | Data::I8(_) | Data::Rows(_) => return None,
        };
        Self::new(data.cast_mut(), view.dtype(), view.dims)
    }

    /// `None` if plug-ins do not see such a tensor.
    pub fn of_view_mut(view: &mut ViewMut<'_>) -> Option<Self> {
        let (data, dtype): (*mut c_void, _) = match &mut view.data {
            DataMut::F32(all) => (all.as_mut_ptr().cast(), Dtype::F32),
            DataMut::I64(all) => (all.as_mut_ptr().cast(), Dtype::I64),
            DataMut::Bool(all) => (all.as_mut_ptr().cast(), Dtype::Bool),
            DataMut::F16(_) | DataMut::I8(_) => return None,
        };
        Self::new(data, dtype, view.dims)
    }

    pub fn bytes(&self) -> usize {
        let each = if self.dtype == NG_F32 {
            4
        } else if self.dtype == NG_I64 {
            8
        } else {
            1
        };
        self.dims.iter().product::<i64>() as usize * each
    }
}

/// What a kernel answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Done,
    NotServed,
    Misfit(String),
    Failed(String),
}

/// Memory that a kernel may use while it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scratch {
    pub data: *mut c_void,
    pub bytes: u64,
}

impl Definition {
    /// How much scratch memory the kernel wants for tensors of such shapes.
    pub fn ask(
        &self,
        op: &Op,
        inputs: &[Tensor],
        outputs: &[Tensor],
        threads: usize,
    ) -> (Answer, u64) {
        let empty = |tensor: &Tensor| Tensor { data: std::ptr::null_mut(), ..tensor.clone() };
        let inputs: Vec<Tensor> = inputs.iter().map(empty).collect();
        let outputs: Vec<Tensor> = outputs.iter().map(empty).collect();
        let none = Scratch { data: std::ptr::null_mut(), bytes: 0 };
        let mut bytes = 0;
        let answer = with_call(op, (&inputs, &outputs), none, threads, |call| {
            // SAFETY: the call and all that it leads to lives until the function returns; the
            // interface forbids to unwind.
            unsafe { (self.query)(self.state, call, &raw mut bytes) }
        });
        (answer, bytes)
    }

    /// Runs the kernel.
    ///
    /// # Safety
    ///
    /// The data of all tensors is there, that of `outputs` and `scratch` can be written, and nobody
    /// else uses it.
    pub unsafe fn call(
        &self,
        op: &Op,
        inputs: &[Tensor],
        outputs: &[Tensor],
        scratch: Scratch,
        threads: usize,
    ) -> Answer {
        with_call(op, (inputs, outputs), scratch, threads, |call| {
            // SAFETY: the caller says that the memory is there; the rest as in `ask`.
            unsafe { (self.run)(self.state, call) }
        })
    }
}

/// Builds the structs of a call, and has `function` called with them.
fn with_call(
    op: &Op,
    (inputs, outputs): (&[Tensor], &[Tensor]),
    scratch: Scratch,
    threads: usize,
    function: impl FnOnce(*const NgCall) -> i32,
) -> Answer {
    let name = op.name();
    let texts = op.attributes().into_iter().map(|(name, value)| (name, value.to_string()));
    let texts: Vec<(String, String)> = texts.collect();
    let struct_size = size_of::<NgAttribute>() as u64;
    let attribute = |(name, value): &(String, String)| NgAttribute {
        struct_size,
        name: lent(name),
        value: lent(value),
    };
    let attributes: Vec<NgAttribute> = texts.iter().map(attribute).collect();
    let attributes: Vec<*const NgAttribute> = attributes.iter().map(std::ptr::from_ref).collect();
    let op = NgOp {
        struct_size: size_of::<NgOp>() as u64,
        name: lent(&name),
        attributes: attributes.as_ptr(),
        attribute_count: attributes.len() as u32,
        reserved: 0,
    };
    let views: Vec<NgView> = inputs.iter().map(view).collect();
    let views: Vec<*const NgView> = views.iter().map(std::ptr::from_ref).collect();
    let mut views_mut: Vec<NgViewMut> = outputs.iter().map(view_mut).collect();
    let views_mut: Vec<*mut NgViewMut> = views_mut.iter_mut().map(std::ptr::from_mut).collect();
    let mut error = ErrorText::new();
    let call = NgCall {
        struct_size: size_of::<NgCall>() as u64,
        op: &raw const op,
        inputs: views.as_ptr(),
        outputs: views_mut.as_ptr(),
        input_count: views.len() as u32,
        output_count: views_mut.len() as u32,
        scratch: scratch.data,
        scratch_bytes: scratch.bytes,
        error: error.frame(),
        threads: threads.max(1) as u32,
        reserved: 0,
    };
    match function(&raw const call) {
        NG_OK => Answer::Done,
        NG_NOT_SERVED => Answer::NotServed,
        NG_MISFIT => Answer::Misfit(error.text()),
        code => Answer::Failed(format!("error code {code}: {}", error.text())),
    }
}

fn view(tensor: &Tensor) -> NgView {
    NgView {
        struct_size: size_of::<NgView>() as u64,
        data: tensor.data,
        dims: tensor.dims.as_ptr(),
        strides: tensor.strides.as_ptr(),
        rank: tensor.dims.len() as u32,
        dtype: tensor.dtype,
        device: NG_CPU,
        reserved: 0,
    }
}

fn view_mut(tensor: &Tensor) -> NgViewMut {
    NgViewMut {
        struct_size: size_of::<NgViewMut>() as u64,
        data: tensor.data,
        dims: tensor.dims.as_ptr(),
        strides: tensor.strides.as_ptr(),
        rank: tensor.dims.len() as u32,
        dtype: tensor.dtype,
        device: NG_CPU,
        reserved: 0,
    }
}
