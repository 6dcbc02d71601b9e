//! [`Open`]: counts open connections by origin.
//!
//! What must not live here: the work of connections. The invariant: one origin has at most half of
//! the connections, so that others can connect.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// One origin has this part of the connections at most.
const PART: usize = 2;

/// Where a connection comes from: an address, of which the network alone counts in IPv6; `None` is
/// a program on this machine.
type Origin = Option<IpAddr>;

/// The open connections.
#[derive(Debug, Default)]
pub struct Open(Mutex<HashMap<Origin, usize>>);

impl Open {
    /// The number of open connections.
    pub fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

/// A place for one open connection, until it is dropped.
pub(crate) struct Slot {
    open: Arc<Open>,
    origin: Origin,
}

impl Slot {
    /// Takes one of `max` places, if one is free for this origin.
    pub fn take(open: &Arc<Open>, max: usize, address: Option<IpAddr>) -> Option<Self> {
        let origin = address.map(network);
        let mut all = open.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.get(&origin).copied().unwrap_or(0);
        if own >= max.div_ceil(PART) || all.values().sum::<usize>() >= max {
            return None;
        }
        all.insert(origin, own + 1);
        drop(all);
        Some(Self { open: Arc::clone(open), origin })
    }

    /// Takes a place for a ring, which has a limit of its own.
    pub fn of_ring(open: &Arc<Open>) -> Self {
        *open.0.lock().unwrap_or_else(PoisonError::into_inner).entry(None).or_default() += 1;
        Self { open: Arc::clone(open), origin: None }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut all = self.open.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = all.get_mut(&self.origin) {
            *own -= 1;
            if *own == 0 {
                all.remove(&self.origin);
            }
        }
    }
}

/// Whoever has an IPv6 address has as many as the last 64 bits tell apart.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_half_and_all_have_as_many_as_there_may_be() {
        let open = Arc::<Open>::default();
        let take = |address: &str| Slot::take(&open, 5, address.parse().ok());
        let first: Vec<Slot> = (0..9).filter_map(|_| take("10.0.0.1")).collect();
        assert_eq!((first.len(), open.count()), (3, 3));
        assert!(take("::ffff:10.0.0.1").is_none(), "the same in other words");
        let unix = take("a program on this machine").expect("room for others");
        let other = take("2001:db8::1").expect("room for others");
        assert!(take("2001:db8::ffff:1").is_none() && take("10.0.0.2").is_none(), "all are taken");
        drop((first, unix));
        let same = take("2001:db8::ffff:1").expect("of the same network");
        drop((other, same));
        assert_eq!((open.count(), open.0.lock().expect("open").len()), (0, 0));
        assert!(Slot::take(&open, 1, None).is_some());
    }
}
