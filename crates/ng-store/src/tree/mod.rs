//! Sorted trees of records, and the bitmaps whose directory is one: their pages, looking keys up,
//! walking, changing page by page.
//!
//! What must not live here: what a record or a bit means.

mod bitmap;
mod cursor;
pub(crate) mod edit;
pub(crate) mod lookup;
mod page;

pub(crate) use bitmap::{Bitmap, BitmapWriter, set_bits};
pub(crate) use cursor::{TreeCursor, Unclaimed, claim, read_page};
pub(crate) use edit::Tree;
pub(crate) use lookup::{Hit, sort_by_page};
pub(crate) use page::{Record, TreeKind, TreePage, TreeWriter};
