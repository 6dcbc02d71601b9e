//! A plug-in for neargraph: products of matrices, on as many threads as the host lends.
//!
//! It registers a device `rust-example` with priority 60 and a kernel of `MatMul` for it, which
//! serves products of two matrices and leaves stacks of them to other devices.

use std::ffi::{c_char, c_void};
use std::mem::size_of;
use std::slice;

use ng_plugin_abi::{
    NG_API_VERSION, NG_F32, NG_FAILED, NG_NOT_SERVED, NG_OK, NG_TRAIT_DETERMINISTIC,
    NG_TRAIT_THREAD_SAFE, NgCall, NgDevice, NgHost, NgKernel, NgPlugin, NgText,
};

/// The least multiplications that are worth a thread.
const PRODUCTS_PER_THREAD: usize = 1 << 16;

const fn text(of: &'static str) -> NgText {
    NgText { data: of.as_ptr().cast::<c_char>(), len: of.len() as u64 }
}

/// The lengths of the axes of an input, and the distances along them.
///
/// # Safety
///
/// `call` is what the host handed over.
unsafe fn input<'a>(call: &NgCall, place: usize) -> (&'a [i64], &'a [i64], *const f32) {
    // SAFETY: the host hands over as many pointers as it says, and each leads to a whole view.
    unsafe {
        let view = &**call.inputs.add(place);
        let rank = view.rank as usize;
        let dims = slice::from_raw_parts(view.dims, rank);
        (dims, slice::from_raw_parts(view.strides, rank), view.data.cast())
    }
}

unsafe extern "C" fn query(_: *mut c_void, call: *const NgCall, scratch_bytes: *mut u64) -> i32 {
    // SAFETY: the host hands over a whole call, and a number to fill.
    unsafe {
        *scratch_bytes = 0;
        let is_plain = |place| {
            let (dims, strides, _) = input(&*call, place);
            dims.len() == 2 && strides == [dims[1], 1]
        };
        if is_plain(0) && is_plain(1) { NG_OK } else { NG_NOT_SERVED }
    }
}

unsafe extern "C" fn run(_: *mut c_void, call: *const NgCall) -> i32 {
    // SAFETY: the host hands over a whole call; `query` let pass matrices in row-major order alone,
    // and the output has the shape of their product and belongs to this call.
    let (left, right, out, inner, columns) = unsafe {
        let (dims, _, left) = input(&*call, 0);
        let (_, _, right) = input(&*call, 1);
        let (rows, inner) = (dims[0] as usize, dims[1] as usize);
        let columns = input(&*call, 1).0[1] as usize;
        let out = (**(*call).outputs).data.cast::<f32>();
        (
            slice::from_raw_parts(left, rows * inner),
            slice::from_raw_parts(right, inner * columns),
            slice::from_raw_parts_mut(out, rows * columns),
            inner,
            columns,
        )
    };
    if out.is_empty() {
        return NG_OK;
    }
    let rows = out.len() / columns;
    // SAFETY: as above.
    let lent = unsafe { (*call).threads } as usize;
    let threads = (out.len() * inner / PRODUCTS_PER_THREAD).clamp(1, lent.max(1));
    let part = rows.div_ceil(threads);
    // Each row is summed by one thread in the order of its elements, so the bytes are the same for
    // any number of threads. The scope ends when all threads have.
    std::thread::scope(|scope| {
        let mut parts = out.chunks_mut(part * columns).enumerate();
        let first = parts.next();
        for (at, out) in parts {
            scope.spawn(move || product(&left[at * part * inner..], right, out, inner, columns));
        }
        if let Some((_, out)) = first {
            product(left, right, out, inner, columns);
        }
    });
    NG_OK
}

fn product(left: &[f32], right: &[f32], out: &mut [f32], inner: usize, columns: usize) {
    for (row, out) in out.chunks_exact_mut(columns).enumerate() {
        out.fill(0.0);
        for k in 0..inner {
            let factor = left[row * inner + k];
            let right = &right[k * columns..(k + 1) * columns];
            out.iter_mut().zip(right).for_each(|(out, right)| *out += factor * right);
        }
    }
}

/// Registers the device and its kernel.
///
/// # Safety
///
/// Only the host calls it, with a whole [`NgHost`] and an [`NgPlugin`] to fill.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ng_plugin_v1(host: *const NgHost, plugin: *mut NgPlugin) -> i32 {
    // SAFETY: so says the interface, and the table that the host returns is whole.
    unsafe {
        let api = ((*host).get_api)(NG_API_VERSION);
        if api.is_null() {
            return NG_FAILED;
        }
        (*plugin).api_version = NG_API_VERSION;
        (*plugin).name = text("matmul");
        (*plugin).version = text(env!("CARGO_PKG_VERSION"));
        let device = NgDevice {
            struct_size: size_of::<NgDevice>() as u64,
            name: text("rust-example"),
            priority: 60,
            reserved: 0,
        };
        if ((*api).register_device)((*host).registry, &raw const device) != NG_OK {
            return NG_FAILED;
        }
        let kernel = NgKernel {
            struct_size: size_of::<NgKernel>() as u64,
            op: text("MatMul"),
            device: device.name,
            traits: NG_TRAIT_THREAD_SAFE | NG_TRAIT_DETERMINISTIC,
            dtypes: 1 << NG_F32,
            alignment: 4,
            state: std::ptr::null_mut(),
            query: Some(query),
            run: Some(run),
        };
        ((*api).register_op_definition)((*host).registry, &raw const kernel)
    }
}
