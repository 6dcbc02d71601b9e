//! From bytes that are at hand to the answers of requests.

use super::{ListRequest, LongList, Stream};
use crate::error::{Damage, ReadError};
use crate::topology::reader::{Arrivals, Wanted};
use crate::topology::{EntryLayout, TopologyReader};

impl Stream<'_> {
    /// Hands out lists of an L-type page.
    pub(super) fn take_short(
        &mut self,
        page: u64,
        requests: &[ListRequest],
        bytes: &[u8],
    ) -> Result<(), ReadError> {
        let Some(edge_type) = requests.first().map(|request| request.edge_type) else {
            return Ok(());
        };
        let (meta, topo, index) = self.snapshot.version.topology(edge_type)?;
        let reader = TopologyReader { pages: self.patient, edge_type, meta, topo, index };
        let wrong = |damage: Damage| topo.damaged(page, &damage);
        let typed = reader.l_page(bytes).map_err(wrong)?;
        for request in requests {
            let list = typed.list(request.node).map_err(wrong)?;
            self.take_list(request, EntryLayout::of(meta), list)?;
        }
        Ok(())
    }

    /// Hands out that there is no list.
    pub(super) fn take_empty(&mut self, requests: &[ListRequest]) -> Result<(), ReadError> {
        for request in requests {
            let meta = self.snapshot.version.edge_type(request.edge_type)?;
            self.take_list(request, EntryLayout::of(meta), &[])?;
        }
        Ok(())
    }

    fn take_list(
        &mut self,
        request: &ListRequest,
        layout: EntryLayout,
        list: &[u8],
    ) -> Result<(), ReadError> {
        let mut arrivals = Arrivals::new(layout, 1);
        let mut draw = |_: usize, degree: u64, positions: &mut Vec<u64>| {
            (self.draw)(request, degree, positions);
        };
        arrivals.take_list(Wanted { node: request.node, place: 0 }, list, &mut draw)?;
        self.take_long(LongList { request: *request, arrivals, missing: 0 })
    }

    pub(super) fn take_long(&mut self, list: LongList) -> Result<(), ReadError> {
        let mut entries = list.arrivals.entries;
        entries.offsets.extend([0, entries.sources.len()]);
        (self.take)(&list.request, &entries)
    }
}
