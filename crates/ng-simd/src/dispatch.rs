//! Which kernels run here: asked once for each decoder or encoder.
//!
//! The invariant: a processor-specific kernel is called only where the processor has it.

use ng_types::SourceKey;

use crate::portable;
#[cfg(target_arch = "x86_64")]
use crate::x86;

/// A family of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Plain Rust.
    Portable,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW and VNNI, beside those of AVX2. Conversions of rows and selection of
    /// sources have no kernels of their own here: they run those of AVX2.
    Avx512,
}

/// The processor's kernels; a witness that it has them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernels(Path);

impl Kernels {
    /// The fastest that the processor has.
    pub fn best() -> Self {
        let fast = Self::of(Path::Avx512).or_else(|| Self::of(Path::Avx2));
        fast.unwrap_or(Self(Path::Portable))
    }

    /// Those of `path`, or `None` where the processor lacks them.
    pub fn of(path: Path) -> Option<Self> {
        match path {
            Path::Portable => Some(Self(path)),
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 if x86::is_there() => Some(Self(path)),
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 if x86::has_avx512() => Some(Self(path)),
            Path::Avx2 | Path::Avx512 => None,
        }
    }

    pub fn path(self) -> Path {
        self.0
    }
}

macro_rules! kernels {
    ($($name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;)*) => {
        impl Kernels {
            $(
                #[inline]
                pub fn $name(self, $($argument: $kind),*) $(-> $result)? {
                    match self.0 {
                        // SAFETY: `of` gives these only where the processor has AVX2 and F16C.
                        #[cfg(target_arch = "x86_64")]
                        Path::Avx2 | Path::Avx512 => unsafe { x86::$name($($argument),*) },
                        _ => portable::$name($($argument),*),
                    }
                }
            )*
        }
    };
}

kernels! {
    f16_to_f32(stored: &[u8], out: &mut [u8]);
    bf16_to_f32(stored: &[u8], out: &mut [u8]);
    i8_to_f32(stored: &[u8], scales: &[f32], out: &mut [u8]);
    f32_to_f16(values: &[u8], out: &mut [u8]);
    f32_to_bf16(values: &[u8], out: &mut [u8]);
    f32_to_i8(values: &[u8], scales: &[f32], out: &mut [u8]) -> bool;
    raise(largest: &mut [f32], row: &[u8]) -> bool;
    below_of_three(key: SourceKey, sources: &[[u8; 3]], bound: u32, places: &mut Vec<u32>);
    below_of_four(key: SourceKey, sources: &[[u8; 4]], bound: u32, places: &mut Vec<u32>);
}
