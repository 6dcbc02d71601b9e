//! Pages that are read once for several commands: what GLIST calls scheduling (S), grouping (G) and
//! its page cache (C) (GLIST, sections 4.2 and 5.2).
//!
//! What must not live here: times. The invariant: a page is in the cache from the end of the hop
//! that read it, and a hop reads it once where requests are merged.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::plan::{Plan, flag};
use crate::platform::{Platform, Sampler};

/// Batches that are one, at most.
const GROUPED_MAX: u32 = 1024;

/// What is read once for several, on platforms that read whole pages hop by hop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reuse {
    /// Requests of a hop are sorted by page, and one page is read once for all.
    pub merged: bool,
    /// So many batches are one.
    pub grouped: u32,
    /// Pages that the SSD's memory keeps, the least recently used go first; 0 is none.
    pub cache_pages: u32,
}

impl Default for Reuse {
    fn default() -> Self {
        Self { merged: false, grouped: 1, cache_pages: 0 }
    }
}

impl Reuse {
    /// Whether a platform can have it.
    pub(crate) fn is_possible(&self, platform: Platform) -> bool {
        let by_pages = platform.barrier && platform.sampler != Sampler::Die;
        let can = by_pages && platform.sector_bytes == 0;
        *self == Self::default() || can && (1..=GROUPED_MAX).contains(&self.grouped)
    }
}

/// A page: die, row, plane.
type Key = (u32, u32, u8);

fn key(plan: &Plan, command: u32) -> Key {
    let at = command as usize;
    (plan.die[at], plan.row[at], plan.plane[at])
}

/// The cache, from batch to batch.
#[derive(Debug)]
pub(crate) struct Pages {
    reuse: Reuse,
    used: HashMap<Key, u64>,
    by_use: BTreeMap<u64, Key>,
    uses: u64,
}

impl Pages {
    pub fn new(reuse: &Reuse) -> Self {
        let (used, by_use) = (HashMap::new(), BTreeMap::new());
        Self { reuse: reuse.clone(), used, by_use, uses: 0 }
    }

    /// The commands that are left of a plan by hops, those of pages in the cache marked.
    pub fn of(&mut self, plan: Plan) -> Plan {
        if self.reuse == Reuse::default() {
            return plan;
        }
        let hop = |command: &u32| plan.hop[*command as usize];
        let mut order: Vec<u32> = (0..plan.len() as u32).collect();
        if self.reuse.merged {
            order.sort_by_key(|command| {
                let (die, row, plane) = key(&plan, *command);
                (hop(command), row, plane, die)
            });
            order.dedup_by_key(|command| (hop(command), key(&plan, *command)));
        } else {
            order.sort_by_key(hop);
        }
        let mut left = plan.only(&order);
        let mut first = 0;
        while first < left.len() {
            let same = left.hop[first..].iter().take_while(|&&hop| hop == left.hop[first]);
            let end = first + same.count();
            for command in first..end {
                if self.used.contains_key(&key(&left, command as u32)) {
                    left.flags[command] |= flag::CACHED;
                }
            }
            (first..end).for_each(|command| self.touch(key(&left, command as u32)));
            first = end;
        }
        left
    }

    fn touch(&mut self, page: Key) {
        if self.reuse.cache_pages == 0 {
            return;
        }
        self.uses += 1;
        if let Some(before) = self.used.insert(page, self.uses) {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.uses, page);
        if self.used.len() > self.reuse.cache_pages as usize
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.used.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands (die, hop) that bring pages of 4096 bytes.
    fn plan(commands: &[(u32, u8)]) -> Plan {
        let dies: Vec<u32> = commands.iter().map(|(die, _)| *die).collect();
        let mut plan = Plan::of_reads(&dies, 4096);
        plan.hop = commands.iter().map(|(_, hop)| *hop).collect();
        plan
    }

    fn cached(plan: &Plan) -> Vec<(u32, bool)> {
        let is_cached = |at: usize| plan.flags[at] & flag::CACHED != 0;
        (0..plan.len()).map(|at| (plan.die[at], is_cached(at))).collect()
    }

    #[test]
    fn a_merged_hop_reads_a_page_once_and_in_order() {
        let mut pages = Pages::new(&Reuse { merged: true, ..Reuse::default() });
        let found = pages.of(plan(&[(3, 0), (1, 0), (3, 0), (3, 1), (1, 1), (1, 1)]));
        let wanted = [(1, false), (3, false), (1, false), (3, false)];
        assert_eq!((cached(&found), found.hop.clone()), (wanted.to_vec(), vec![0, 0, 1, 1]));
        assert_eq!((found.roots, found.children.len()), (4, 5));
        assert_eq!(found.entry, [1, 0, 4, 3]);
    }

    #[test]
    fn a_page_is_in_the_cache_after_its_hop_until_others_were_used_since() {
        let mut pages = Pages::new(&Reuse { cache_pages: 2, ..Reuse::default() });
        let first = pages.of(plan(&[(1, 0), (1, 0), (2, 1), (1, 1)]));
        assert_eq!(cached(&first), [(1, false), (1, false), (2, false), (1, true)]);
        // 2 is the least recently used.
        let next = pages.of(plan(&[(3, 0), (1, 1), (2, 2)]));
        assert_eq!(cached(&next), [(3, false), (1, true), (2, false)]);
    }

    #[test]
    fn nothing_is_touched_where_nothing_is_asked_for() {
        let given = plan(&[(3, 1), (1, 0)]);
        assert_eq!(Pages::new(&Reuse::default()).of(given.clone()), given);
    }

    #[test]
    fn only_platforms_of_whole_pages_and_hops_can() {
        let all = Reuse { merged: true, grouped: 8, cache_pages: 9 };
        for (name, can) in [
            ("GList", true),
            ("CC", true),
            ("BG-1", true),
            ("BG-SP", false),
            ("BG-DG", false),
            ("CC-512", false),
        ] {
            let platform = Platform::by_name(name).expect("known");
            assert_eq!(all.is_possible(platform), can, "{name}");
            assert!(Reuse::default().is_possible(platform));
        }
        let none = Reuse { grouped: 0, ..Reuse::default() };
        assert!(!none.is_possible(Platform::by_name("GList").expect("known")));
    }
}
