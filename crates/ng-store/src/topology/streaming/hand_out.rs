//! From bytes that are at hand to the answers of requests.

use super::{ListRequest, LongList, Stream};
use crate::error::{Damage, ReadError};
use crate::topology::TopologyReader;
use crate::topology::reader::Wanted;

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
        let reader = self.snapshot.topology_reader(self.patient, edge_type)?;
        let wrong = |damage: Damage| reader.topo.damaged(page, &damage);
        let typed = reader.l_page(bytes).map_err(wrong)?;
        for request in requests {
            let list = typed.list(request.node).map_err(wrong)?;
            self.take_list(&reader, request, (page, list))?;
        }
        Ok(())
    }

    /// Hands out that there is no list.
    pub(super) fn take_empty(&mut self, requests: &[ListRequest]) -> Result<(), ReadError> {
        for request in requests {
            let reader = self.snapshot.topology_reader(self.patient, request.edge_type)?;
            self.take_list(&reader, request, (0, &[]))?;
        }
        Ok(())
    }

    fn take_list(
        &mut self,
        reader: &TopologyReader<'_>,
        request: &ListRequest,
        (page, list): (u64, &[u8]),
    ) -> Result<(), ReadError> {
        let mut arrivals = reader.arrivals(1);
        let wrong = |damage: Damage| reader.topo.damaged(page, &damage);
        let mut draw = |_: usize, degree: u64, positions: &mut Vec<u64>| {
            (self.draw)(request, degree, positions);
        };
        arrivals.take_list(Wanted { node: request.node, place: 0 }, list, &mut draw, wrong)?;
        self.take_long(LongList { request: *request, arrivals, missing: 0 })
    }

    pub(super) fn take_long(&mut self, list: LongList) -> Result<(), ReadError> {
        let mut entries = list.arrivals.entries;
        entries.offsets.extend([0, entries.sources.len()]);
        (self.take)(&list.request, &entries)
    }
}
