//! The newest checkpoint of a store, pinned, with its files open.

use std::sync::{Arc, PoisonError, RwLock};

use crate::catalog::{Catalog, SegmentMeta};
use crate::error::OpenError;
use crate::io::{Reader, past_signals};
use crate::page::{Placed, Segment};
use crate::store::Inner;
use crate::version::base::{Base, Version};
use crate::version::open_root::{OpenRoot, open_root};

/// Reads the root and pins its checkpoint. A writer may publish the next one in between and reuse
/// what this one reaches, so the root is read again under the pin. Segments of `known` keep their
/// files.
pub(super) fn pin_version(
    reader: &Reader,
    path: &str,
    known: &[Segment],
) -> Result<Version, OpenError> {
    loop {
        let checkpoint_id = open_root(reader, path)?.checkpoint_id;
        let failed = |error: std::io::Error| {
            let what = format!("cannot pin checkpoint {checkpoint_id}: {error}");
            OpenError::Backend { path: path.into(), what }
        };
        let pin = past_signals(|| reader.disk().pin(checkpoint_id)).map_err(failed)?;
        let OpenRoot { catalog, checkpoint_id: found, lsn, fingerprint } = open_root(reader, path)?;
        if found != checkpoint_id {
            continue;
        }
        let placed = open_segments(reader, path, &catalog, known)?;
        let catalog = Arc::new(catalog);
        let base = Base { checkpoint_id, lsn, catalog, placed, fingerprint, _pin: pin };
        return Ok(Arc::new(base).version());
    }
}

/// The newest checkpoint, which another writer may have written since `current`; it is what new
/// snapshots see from now on.
pub(crate) fn load_version(
    inner: &Inner,
    current: &RwLock<Arc<Version>>,
) -> Result<Version, OpenError> {
    let known = Arc::clone(&current.read().unwrap_or_else(PoisonError::into_inner));
    let version = load_base(inner, &known)?;
    if version.base.checkpoint_id > known.base.checkpoint_id {
        let newer = Arc::new(version.clone());
        inner.see(&newer);
        *current.write().unwrap_or_else(PoisonError::into_inner) = newer;
    }
    Ok(version)
}

/// The newest checkpoint, without what commits made of it; nobody sees it yet.
pub(crate) fn load_base(inner: &Inner, known: &Version) -> Result<Version, OpenError> {
    let version = pin_version(&inner.pages.reader, &inner.path, &known.segments)?;
    if version.base.checkpoint_id == known.base.checkpoint_id {
        return Ok(Version { base: Arc::clone(&known.base), ..version });
    }
    // Places that the known version did not reach may have been written since they were cached.
    while inner.reclaim(u64::MAX) > 0 {}
    inner.pages.metadata.iter().for_each(|metadata| metadata.take_back());
    Ok(version)
}

fn open_segments(
    reader: &Reader,
    path: &str,
    catalog: &Catalog,
    known: &[Segment],
) -> Result<Vec<Arc<Placed>>, OpenError> {
    let open = |(id, meta): (usize, &SegmentMeta)| {
        let same = known.get(id).filter(|known| known.meta == *meta);
        Ok(match same {
            Some(known) => Arc::clone(&known.placed),
            None => Arc::new(Placed::open(reader, path, id as u32, meta)?),
        })
    };
    catalog.segments.iter().enumerate().map(open).collect()
}
