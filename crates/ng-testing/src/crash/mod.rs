//! Loss of power, played: what a disk was asked is recorded, and everything it could hold after a
//! loss of power between two operations is enumerated.
//!
//! The model is F11 of `docs/explanation/crash-model.md`. What must not live here: what a store
//! makes of an image. The invariant: what was synced before the loss is in every image.

mod disk;
mod image;
mod power_loss;

pub use disk::CrashDisk;
pub use image::{CrashImage, ImageChoice, ImageKind};
