//! The channel: one transfer at a time, first come, first served, or dies in turn.

use crate::time::Picos;

/// What a die wants the bus for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub die: u32,
    pub command: u32,
    /// Of the event when it has had the bus.
    pub kind: u8,
    pub takes: Picos,
}

/// One channel.
#[derive(Debug, Default)]
pub(super) struct Bus {
    free: Picos,
    held: bool,
    /// Who had it last.
    turn: u32,
    waiting: Vec<Wish>,
    pub busy: Picos,
}

impl Bus {
    /// First come, first served: (start, end).
    #[inline]
    pub fn serve(&mut self, now: Picos, takes: Picos) -> (Picos, Picos) {
        let start = self.free.max(now);
        self.free = start + takes;
        self.busy += takes;
        (start, self.free)
    }

    /// Dies in turn: the wish itself if the bus is free, and nothing if it has to wait.
    pub fn ask(&mut self, wish: Wish) -> Option<Wish> {
        if self.held {
            self.waiting.push(wish);
            return None;
        }
        Some(self.grant(wish))
    }

    /// The bus is free again: who is next, the first wish of the next die that has one.
    pub fn release(&mut self, dies: u32) -> Option<Wish> {
        self.held = false;
        let after = self.turn + 1;
        let distance = |wish: &Wish| (wish.die + dies - after % dies) % dies;
        let next = (0..self.waiting.len()).min_by_key(|&at| (distance(&self.waiting[at]), at))?;
        let wish = self.waiting.remove(next);
        Some(self.grant(wish))
    }

    fn grant(&mut self, wish: Wish) -> Wish {
        (self.held, self.turn) = (true, wish.die);
        self.busy += wish.takes;
        wish
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dies_take_turns_whoever_asked_first() {
        let mut bus = Bus::default();
        let wish = |die, command| Wish { die, command, kind: 0, takes: 1 };
        assert!(bus.ask(wish(1, 0)).is_some());
        for (die, command) in [(1, 1), (3, 2), (1, 3), (0, 4)] {
            assert!(bus.ask(wish(die, command)).is_none());
        }
        let order: Vec<u32> = std::iter::from_fn(|| bus.release(4)).map(|w| w.command).collect();
        assert_eq!(order, [2, 4, 1, 3]);
        assert_eq!(bus.busy, 5);
    }
}
