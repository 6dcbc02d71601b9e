//! First-come-first-served servers: one, or several that share a queue.
//!
//! Callers present arrivals in the order of their time. So no queue is kept: the start of service
//! is known when a request arrives.

use ng_types::canary::planted;

use crate::time::Picos;

/// One server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Server {
    free: Picos,
    /// Time in which it served.
    pub busy: Picos,
}

impl Server {
    /// (start, end) of a service for who arrives now.
    #[inline]
    pub fn serve(&mut self, now: Picos, service: Picos) -> (Picos, Picos) {
        let start = if planted("nobody_waits") { now } else { self.free.max(now) };
        self.free = start + service;
        self.busy += service;
        (start, self.free)
    }
}

/// Equal servers behind one queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Servers {
    free: Vec<Picos>,
    /// Time in which they served, together.
    pub busy: Picos,
}

impl Servers {
    pub fn new(count: u32) -> Self {
        Self { free: vec![0; count as usize], busy: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// The end of a service for who arrives now.
    #[inline]
    pub fn serve(&mut self, now: Picos, service: Picos) -> Picos {
        let Some(free) = self.free.iter_mut().min() else { return now };
        *free = now.max(*free) + service;
        self.busy += service;
        *free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_servers_take_three_who_come_together() {
        let mut servers = Servers::new(2);
        let ends: Vec<Picos> = (0..3).map(|_| servers.serve(5, 10)).collect();
        assert_eq!((ends, servers.busy), (vec![15, 15, 25], 30));
        assert_eq!(servers.serve(100, 1), 101);
        assert_eq!(Servers::new(0).serve(7, 10), 7);
    }
}
