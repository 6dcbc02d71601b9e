//! What the operating system gives a process beside files: memory and its limits, whether it was
//! forked, the user's cache folder, the name of the device below a path.
//!
//! What must not live here: data files, and anything that knows of a [`crate::Disk`].

pub(crate) mod anon_map;
pub(crate) mod cache_file;
pub(crate) mod filling;
pub(crate) mod load;
pub(crate) mod lockable;
pub(crate) mod machine;
pub(crate) mod process;
pub(crate) mod usage;
