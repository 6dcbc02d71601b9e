//! Things of ONNX Runtime that are given back when they are dropped.

use super::api::{Api, Opaque};

/// Gives a thing back.
type Release = unsafe extern "C" fn(Opaque);

/// A thing that belongs to whoever has this.
#[derive(Debug)]
pub(super) struct Owned {
    thing: Opaque,
    release: Release,
}

// SAFETY: sessions may be used by several threads at once, and everything else stays on one.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl Owned {
    /// What `create` writes, or the text of its error.
    pub fn new(
        api: Api,
        release: Release,
        create: impl FnOnce(*mut Opaque) -> Opaque,
    ) -> Result<Self, String> {
        let mut thing = std::ptr::null_mut();
        api.done(create(&raw mut thing))?;
        Ok(Self { thing, release })
    }

    /// A thing that the caller owns so far.
    pub fn of(thing: Opaque, release: Release) -> Self {
        Self { thing, release }
    }

    pub fn get(&self) -> Opaque {
        self.thing
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the thing is ours, or null, which may be given back, too; nobody uses it again.
        unsafe { (self.release)(self.thing) }
    }
}
