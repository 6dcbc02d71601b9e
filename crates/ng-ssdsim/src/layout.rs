//! Where lists and rows of features lie in flash: by arithmetic, for any node, without the graph.
//!
//! [`Format::Direct`] is DirectGraph (BeaconGNN, section IV.A): a row of features and the start of
//! the list share the first page of a node, the rest of the list fills further ones.
//! [`Format::Csr`] keeps lists in one file and rows in another, each where the one before ends. A
//! row may be longer than a page, or cross from one to the next, and there may be none. Which die a
//! page lies on is random or striped over channels first. Where a trace knows the places of its
//! nodes in a file of the direct layout, those can be taken instead of the arithmetic.

use std::sync::Arc;

use ng_types::{NodeId, Places, Trace};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::config::{Config, Flash};
use crate::time::{Picos, from_ns};

/// Who decides where a page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// A random die for each page, from a seed.
    Random(u64),
    /// Page after page over channels, then dies, then planes, where each page has what an average
    /// degree puts there.
    Striped,
    /// The same with the pages of the file that the direct layout makes of the trace's graph.
    DirectLayout,
}

/// Which bytes share a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Rows of features beside lists.
    Direct,
    /// Lists and rows apart.
    Csr,
}

/// How a graph lies in flash.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    format: Format,
    placement: Placement,
    page_bytes: u64,
    feature_bytes: u64,
    id_bytes: u64,
    stripes: Stripes,
    /// Bytes of a list, on average: where a node's list starts, when nothing better is known.
    list_bytes: f64,
    /// What is better known.
    places: Option<Arc<Places>>,
}

/// Page after page over channels, then dies, then planes.
#[derive(Clone, Debug, PartialEq)]
pub struct Stripes {
    channels: u64,
    dies_per_channel: u64,
    planes: u64,
    /// Time of a sense by type of page; empty where all are alike.
    senses: Vec<Picos>,
}

impl Stripes {
    /// Those of a device.
    pub fn new(flash: &Flash) -> Self {
        Self {
            channels: u64::from(flash.channels),
            dies_per_channel: u64::from(flash.dies_per_channel),
            planes: u64::from(flash.planes),
            senses: flash.sense_types_ns.iter().map(|&ns| from_ns(ns)).collect(),
        }
    }

    /// Where the page of a number lies.
    #[inline]
    pub fn address(&self, number: u64) -> Address {
        let (channel, rest) = (number % self.channels, number / self.channels);
        let (die, rest) = (rest % self.dies_per_channel, rest / self.dies_per_channel);
        Address {
            die: (channel * self.dies_per_channel + die) as u32,
            plane: (rest % self.planes) as u8,
            row: (rest / self.planes) as u32,
        }
    }

    /// How long the sense of a page takes, where that differs from page to page.
    pub fn sense_of(&self, address: &Address) -> Option<Picos> {
        let types = self.senses.len().max(1);
        self.senses.get(address.row as usize % types).copied()
    }
}

/// A layout that cannot be.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum LayoutError {
    /// The trace was recorded without places on pages of this size.
    #[error(
        "the trace was not recorded for pages of {page_bytes} bytes; record it with this page size"
    )]
    NoPlaces {
        /// Of a page of the device.
        page_bytes: u64,
    },
}

/// A page in the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Channel times dies of a channel, plus the die on it.
    pub die: u32,
    /// Array of the die.
    pub plane: u8,
    /// Block and page inside the plane.
    pub row: u32,
}

/// Which page of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Page {
    /// Of its list; 0 is the primary section of the direct layout.
    List(u32),
    /// Of its row of features, apart from the list: the first, and those that follow it.
    Row(u32),
}

impl Layout {
    /// `mean_degree` says where a node lies when placement is striped.
    pub fn new(
        format: Format,
        config: &Config,
        feature_bytes: u32,
        mean_degree: f64,
        placement: Placement,
    ) -> Self {
        let flash = &config.flash;
        let id_bytes = u64::from(config.payload.id_bytes);
        let (page_bytes, feature_bytes) = (u64::from(flash.page_bytes), u64::from(feature_bytes));
        Self {
            format,
            placement,
            page_bytes,
            feature_bytes,
            id_bytes,
            stripes: Stripes::new(flash),
            list_bytes: mean_degree * id_bytes as f64,
            places: None,
        }
    }

    /// The same for the nodes of a trace, whose places it takes where they are asked for.
    pub fn of_trace(mut self, trace: &Trace) -> Result<Self, LayoutError> {
        if self.placement == Placement::DirectLayout {
            let fits = |places: &&Arc<Places>| u64::from(places.page_bytes) == self.page_bytes;
            let places = trace.places.as_ref().filter(fits);
            let none = LayoutError::NoPlaces { page_bytes: self.page_bytes };
            self.places = Some(Arc::clone(places.ok_or(none)?));
        }
        Ok(self)
    }

    /// A node's place, if places are known.
    #[inline]
    fn place(&self, node: NodeId) -> Option<(&Places, usize)> {
        let places = self.places.as_deref()?;
        Some((places, places.find(node)?))
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes as u32
    }

    /// Bytes of a row.
    pub fn feature_bytes(&self) -> u32 {
        self.feature_bytes as u32
    }

    /// Bytes of a row in each of the pages that it takes: equal shares.
    pub fn feature_bytes_of_page(&self) -> u32 {
        let pages = self.feature_bytes.div_ceil(self.page_bytes).max(1);
        self.feature_bytes.div_ceil(pages) as u32
    }

    /// Pages of a node of this degree: ceil((4 degree + row) / page) where rows lie beside lists.
    pub fn pages(&self, degree: u64) -> u64 {
        let row = if self.format == Format::Direct { self.feature_bytes } else { 0 };
        (degree * self.id_bytes + row).div_ceil(self.page_bytes).max(1)
    }

    /// The page of a node's list that holds a position.
    #[inline]
    pub fn page_of(&self, node: NodeId, position: u32) -> Page {
        let before = match (self.format, self.place(node)) {
            (Format::Direct, Some((places, at))) => {
                return Page::List(places.part_of(at, position));
            }
            (Format::Direct, None) => self.feature_bytes,
            (Format::Csr, _) => self.list_start(node) % self.page_bytes,
        };
        Page::List(((before + u64::from(position) * self.id_bytes) / self.page_bytes) as u32)
    }

    /// The pages of a node's row, none where rows have no bytes.
    #[inline]
    pub fn pages_of_row(&self, node: NodeId) -> impl ExactSizeIterator<Item = Page> + use<> {
        let start = if self.format == Format::Direct { 0 } else { self.row_start(node) };
        let end = start % self.page_bytes + self.feature_bytes;
        let pages = if self.feature_bytes == 0 { 0 } else { end.div_ceil(self.page_bytes) as u32 };
        let page = if self.format == Format::Direct { Page::List } else { Page::Row };
        (0..pages).map(page)
    }

    /// Whether lists lie apart from rows.
    pub fn has_lists_apart(&self) -> bool {
        self.format == Format::Csr
    }

    /// Where a node's row starts in the file of all rows.
    fn row_start(&self, node: NodeId) -> u64 {
        let row = self.place(node).map_or(node, |(places, at)| places.row[at]);
        row.wrapping_mul(self.feature_bytes)
    }

    /// Where a node's list starts in the file of all lists.
    fn list_start(&self, node: NodeId) -> u64 {
        match self.place(node) {
            Some((places, at)) => places.first_entry[at] * self.id_bytes,
            None => (node as f64 * self.list_bytes) as u64 / self.id_bytes * self.id_bytes,
        }
    }

    /// Where a page of a node lies.
    pub fn address(&self, node: NodeId, page: Page) -> Address {
        let number = match self.placement {
            Placement::Random(seed) => mixed(seed, node, page),
            Placement::Striped | Placement::DirectLayout => self.number(node, page),
        };
        self.stripes.address(number)
    }

    /// How long the sense of a page takes, where that differs from page to page.
    pub fn sense_of(&self, address: &Address) -> Option<Picos> {
        self.stripes.sense_of(address)
    }

    /// The page's number in a device that is filled node by node.
    fn number(&self, node: NodeId, page: Page) -> u64 {
        let row = self.feature_bytes as f64;
        if let (Format::Direct, Some((places, at))) = (self.format, self.place(node)) {
            let part = if let Page::List(part) = page { part } else { 0 };
            return places.page_of(at, part);
        }
        match (self.format, page) {
            (Format::Direct, Page::List(0) | Page::Row(_)) => {
                // Primary sections end where a page does; what is longer goes on elsewhere.
                let primary = (row + self.list_bytes).min(self.page_bytes as f64);
                (node as f64 * primary / self.page_bytes as f64) as u64
            }
            (Format::Direct, Page::List(section)) => {
                // Secondary sections follow in a region of their own.
                let more = (row + self.list_bytes) / self.page_bytes as f64;
                (1 << 34) + (node as f64 * more) as u64 + u64::from(section)
            }
            (Format::Csr, Page::List(section)) => {
                self.list_start(node) / self.page_bytes + u64::from(section)
            }
            (Format::Csr, Page::Row(part)) => {
                (1 << 34) + self.row_start(node) / self.page_bytes + u64::from(part)
            }
        }
    }
}

/// A number that looks random, for a page (splitmix64's finaliser).
fn mixed(seed: u64, node: NodeId, page: Page) -> u64 {
    let page = match page {
        Page::List(section) => u64::from(section) + 1,
        Page::Row(0) => 0,
        Page::Row(part) => u64::MAX - u64::from(part),
    };
    let mut z = seed;
    for word in [node, page] {
        z = (z ^ word).wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
    }
    // Room for the row in 32 bits whatever the device.
    z >> 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_behind_the_row_of_features_go_to_further_pages() {
        let layout =
            Layout::new(Format::Direct, &Config::paper(), 1204, 1445.0, Placement::Random(1));
        // (4000 - 1204) / 4 = 699 neighbours beside the row, then 1,000 a page.
        assert_eq!(layout.page_of(5, 698), Page::List(0));
        assert_eq!(layout.page_of(5, 699), Page::List(1));
        assert_eq!(layout.page_of(5, 1699), Page::List(2));
        assert_eq!((layout.pages(0), layout.pages(699), layout.pages(700)), (1, 1, 2));
        assert_eq!(layout.pages_of_row(5).collect::<Vec<_>>(), [Page::List(0)]);
    }

    #[test]
    fn lists_apart_from_rows_start_where_the_one_before_ends() {
        let layout = Layout::new(Format::Csr, &Config::paper(), 400, 100.0, Placement::Striped);
        // Node 9's list has bytes 3,600 to 4,000; node 10's starts on the second page.
        assert_eq!(layout.page_of(9, 99), Page::List(0));
        assert_eq!(layout.page_of(9, 100), Page::List(1));
        assert_ne!(layout.address(9, Page::List(0)), layout.address(10, Page::List(0)));
        assert_eq!(layout.address(9, Page::List(1)), layout.address(10, Page::List(0)));
        // Ten rows share a page.
        assert_eq!(layout.address(0, Page::Row(0)), layout.address(9, Page::Row(0)));
        assert_ne!(layout.address(9, Page::Row(0)), layout.address(10, Page::Row(0)));
    }

    #[test]
    fn rows_may_be_longer_than_a_page_cross_its_end_or_not_be_there() {
        let rows = |format, bytes| {
            let layout = Layout::new(format, &Config::paper(), bytes, 100.0, Placement::Striped);
            move |node| layout.pages_of_row(node).len()
        };
        // 27,000 bytes: node 0's end in the middle of the seventh page, where node 1's start.
        let csr = rows(Format::Csr, 27_000);
        assert_eq!((csr(0), csr(1), csr(4)), (7, 8, 7));
        assert_eq!(rows(Format::Direct, 27_000)(1), 7);
        // Of 1,500 bytes the third crosses from the first page to the second.
        assert_eq!([0, 1, 2, 3].map(rows(Format::Csr, 1_500)), [1, 1, 2, 1]);
        assert_eq!((rows(Format::Csr, 0)(3), rows(Format::Direct, 0)(3)), (0, 0));
        let wide = Layout::new(Format::Csr, &Config::paper(), 27_000, 100.0, Placement::Striped);
        assert_eq!(wide.address(1, Page::Row(0)), wide.address(0, Page::Row(6)));
        // Beside a row, the list begins where it ends.
        let direct =
            Layout::new(Format::Direct, &Config::paper(), 27_000, 100.0, Placement::Striped);
        assert_eq!([0, 249, 250].map(|at| direct.page_of(1, at)), [6, 6, 7].map(Page::List));
    }

    #[test]
    fn known_places_take_the_place_of_arithmetic() {
        let places = Places {
            page_bytes: 4000,
            entries_per_page: 900,
            node: vec![5, 8],
            beside_row: vec![600, 30],
            primary: vec![1, 1],
            run: vec![40, 0],
            full: vec![2, 0],
            tail: vec![77, 0],
            first_entry: vec![2_000, 9_000],
            row: vec![10, 3],
        };
        let mut trace = Trace::default();
        let make =
            |format| Layout::new(format, &Config::paper(), 400, 100.0, Placement::DirectLayout);
        let missing = make(Format::Direct).of_trace(&trace).unwrap_err().to_string();
        assert!(missing.contains("pages of 4000 bytes"), "{missing}");
        trace.places = Some(Arc::new(Places { page_bytes: 4096, ..places.clone() }));
        assert!(make(Format::Direct).of_trace(&trace).is_err());
        trace.places = Some(Arc::new(places));
        let direct = make(Format::Direct).of_trace(&trace).expect("known");
        let page = |position| direct.number(5, direct.page_of(5, position));
        assert_eq!([599, 600, 1499, 1500, 2400].map(page), [1, 40, 40, 41, 77]);
        assert_eq!(direct.number(8, Page::List(0)), 1);
        let csr = make(Format::Csr).of_trace(&trace).expect("known");
        // Node 5's list begins at byte 8,000, and ten rows share a page.
        assert_eq!(csr.number(5, csr.page_of(5, 999)), 2);
        assert_eq!(csr.number(5, csr.page_of(5, 1000)), 3);
        assert_eq!(csr.number(5, Page::Row(0)), csr.number(8, Page::Row(0)) + 1);
    }

    #[test]
    fn random_pages_fill_all_dies_alike() {
        let config = Config::paper();
        let layout = Layout::new(Format::Direct, &config, 64, 10.0, Placement::Random(7));
        let mut counts = vec![0u32; config.dies() as usize];
        for node in 0..128_000 {
            counts[layout.address(node, Page::List(0)).die as usize] += 1;
        }
        let (least, most) = (counts.iter().min(), counts.iter().max());
        // 1,000 each, and four standard deviations.
        assert!(*least.expect("dies") > 870 && *most.expect("dies") < 1130, "{least:?} {most:?}");
    }

    #[test]
    fn rows_take_the_types_of_pages_in_turn() {
        let at = |row| Address { die: 3, plane: 1, row };
        let mut config = Config::paper();
        let layout =
            |config: &Config| Layout::new(Format::Direct, config, 64, 10.0, Placement::Striped);
        assert_eq!(layout(&config).sense_of(&at(7)), None);
        config.flash.sense_types_ns = vec![40e3, 65e3];
        let found = layout(&config);
        assert_eq!(found.sense_of(&at(6)), Some(40_000_000));
        assert_eq!(found.sense_of(&at(7)), Some(65_000_000));
    }
}
