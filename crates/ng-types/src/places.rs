//! Where the lists and rows of some nodes lie in a file of the direct layout.
//!
//! Pages have numbers from the front of the file; what lies on which die, and how long a read of it
//! takes, is for others to say (`ng-ssdsim`).

use crate::{NodeId, TraceError};

/// No file has so many pages, entries or rows.
const PLACES_MAX: u64 = 1 << 48;

/// Places of nodes, as parallel columns in the order of `node`, which ascends.
///
/// A node's row and the first `beside_row` entries of its list lie on page `primary`; then come
/// `full` pages from `run` on with `entries_per_page` each; what is left lies on page `tail`.
///
/// ```
/// use ng_types::Places;
/// let places = Places {
///     page_bytes: 4096,
///     entries_per_page: 100,
///     node: vec![7],
///     beside_row: vec![50],
///     primary: vec![3],
///     run: vec![10],
///     full: vec![2],
///     tail: vec![5],
///     first_entry: vec![0],
///     row: vec![0],
/// };
/// assert!(places.check().is_ok());
/// let at = places.find(7).expect("known");
/// assert_eq!([0, 49, 50, 249, 250].map(|position| places.part_of(at, position)), [0, 0, 1, 2, 3]);
/// assert_eq!([0, 1, 2, 3].map(|part| places.page_of(at, part)), [3, 10, 11, 5]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Of a page.
    pub page_bytes: u32,
    /// Of a list, on a page that has nothing else.
    pub entries_per_page: u32,
    /// Ascending.
    pub node: Vec<NodeId>,
    /// Entries beside the row.
    pub beside_row: Vec<u32>,
    /// Page of the row and the first entries.
    pub primary: Vec<u64>,
    /// First of the pages that are full of entries.
    pub run: Vec<u64>,
    /// How many these are.
    pub full: Vec<u32>,
    /// Page of the last entries.
    pub tail: Vec<u64>,
    /// Entries of all lists before, were lists and rows apart.
    pub first_entry: Vec<u64>,
    /// Rows before.
    pub row: Vec<u64>,
}

impl Places {
    /// Where a node stands in the columns.
    #[inline]
    pub fn find(&self, node: NodeId) -> Option<usize> {
        self.node.binary_search(&node).ok()
    }

    /// Which of a node's pages holds a position of its list: 0 is that of the row.
    #[inline]
    pub fn part_of(&self, at: usize, position: u32) -> u32 {
        match position.checked_sub(self.beside_row[at]) {
            Some(behind) => 1 + behind / self.entries_per_page,
            None => 0,
        }
    }

    /// The page of a part.
    #[inline]
    pub fn page_of(&self, at: usize, part: u32) -> u64 {
        match part {
            0 => self.primary[at],
            part if part <= self.full[at] => self.run[at] + u64::from(part) - 1,
            _ => self.tail[at],
        }
    }

    /// Whether the columns belong together.
    ///
    /// # Errors
    /// [`TraceError`] says what is wrong.
    pub fn check(&self) -> Result<(), TraceError> {
        let nodes = self.node.len();
        let error = |what, at| Err(TraceError::new(what, at));
        let wide = [&self.primary, &self.run, &self.tail, &self.first_entry, &self.row];
        let narrow = [self.beside_row.len(), self.full.len()];
        if wide.map(Vec::len).into_iter().chain(narrow).any(|length| length != nodes) {
            return error("the columns of the places differ in length", nodes);
        }
        if let Some(at) = self.node.windows(2).position(|pair| pair[0] >= pair[1]) {
            return error("the node ids of the places are not ascending", at);
        }
        if self.page_bytes == 0 || self.entries_per_page == 0 {
            return error("the page size of the places is 0", 0);
        }
        // What is less may be added, and multiplied by the bytes of a row.
        let far = |column: &&Vec<u64>| column.iter().position(|place| *place >= PLACES_MAX);
        match wide.iter().find_map(far) {
            Some(at) => error("a place lies beyond the last file", at),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(nodes: usize) -> Places {
        Places {
            page_bytes: 4096,
            entries_per_page: 9,
            node: (0..nodes as u64).collect(),
            beside_row: vec![1; nodes],
            primary: vec![0; nodes],
            run: vec![0; nodes],
            full: vec![0; nodes],
            tail: vec![0; nodes],
            first_entry: vec![0; nodes],
            row: vec![0; nodes],
        }
    }

    #[test]
    fn columns_that_do_not_belong_together_are_named() {
        let what = |places: Places| places.check().expect_err("damaged").what;
        assert_eq!(places(3).check(), Ok(()));
        assert!(what(Places { tail: vec![0; 2], ..places(3) }).contains("lengths"));
        assert!(what(Places { full: vec![0; 4], ..places(3) }).contains("lengths"));
        assert!(what(Places { node: vec![1, 1, 2], ..places(3) }).contains("ascend"));
        assert!(what(Places { entries_per_page: 0, ..places(3) }).contains("nothing"));
        assert!(what(Places { run: vec![0, u64::MAX, 0], ..places(3) }).contains("beyond"));
        assert!(what(Places { row: vec![0, 1 << 60, 0], ..places(3) }).contains("beyond"));
    }

    #[test]
    fn nobody_is_found_who_is_not_there() {
        assert_eq!((places(3).find(2), places(3).find(3)), (Some(2), None));
    }
}
