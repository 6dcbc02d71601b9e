//! Sorted trees of records, and the bitmaps whose directory is one: their pages, looking keys up,
//! walking, changing page by page.
//!
//! What must not live here: what a record or a bit means.

pub(crate) mod bitmap;
pub(crate) mod cursor;
pub(crate) mod edit;
pub(crate) mod lookup;
pub(crate) mod page;
