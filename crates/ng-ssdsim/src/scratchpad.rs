//! The memory beside an accelerator's array: which operands are in it, and what crosses its
//! interface to the memory below.
//!
//! An operand that fits crosses once, however many products use it; one that was made inside
//! crosses when it is a result, or when it has to make room. The least recently used makes room.

use crate::accelerator::{Operand, Product};

/// What is in the memory, the least recently used first.
#[derive(Debug)]
pub(crate) struct Scratchpad {
    room_words: u64,
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    id: u32,
    words: u64,
    /// The memory below does not have it.
    is_only_here: bool,
}

impl Scratchpad {
    /// An empty one.
    pub fn new(room_words: u64) -> Self {
        Self { room_words, held: Vec::new() }
    }

    /// Words that cross the interface for the next product.
    pub fn crossing(&mut self, product: &Product) -> u64 {
        let (gemm, of) = (product.gemm, product.operands);
        let words = [gemm.m * gemm.k, gemm.k * gemm.n, gemm.m * gemm.n];
        if words.iter().sum::<u64>() > self.room_words {
            return self.drop_all() + streamed(words, self.room_words);
        }
        let mut crossed = self.make_room(&of, words);
        for (operand, words) in of.iter().zip(words) {
            crossed += self.touch(*operand, words);
        }
        crossed
    }

    /// Forgets everything; what is nowhere else crosses.
    fn drop_all(&mut self) -> u64 {
        self.held.drain(..).filter(|held| held.is_only_here).map(|held| held.words).sum()
    }

    /// Makes room for those operands that are not there.
    fn make_room(&mut self, of: &[Operand; 3], words: [u64; 3]) -> u64 {
        let is_wanted = |held: &Held| of.iter().any(|operand| operand.id == held.id);
        let comes = of.iter().zip(words).filter(|(operand, _)| self.find(operand.id).is_none());
        let coming: u64 = comes.map(|(_, words)| words).sum();
        let mut crossed = 0;
        while self.held.iter().map(|held| held.words).sum::<u64>() + coming > self.room_words {
            let Some(oldest) = self.held.iter().position(|held| !is_wanted(held)) else { break };
            let gone = self.held.remove(oldest);
            crossed += if gone.is_only_here { gone.words } else { 0 };
        }
        crossed
    }

    /// Words that cross so that an operand is there, or leaves as a result.
    fn touch(&mut self, operand: Operand, words: u64) -> u64 {
        let (held, crossed) = match self.find(operand.id) {
            Some(at) => (self.held.remove(at), 0),
            None => {
                let is_only_here = operand.is_made_inside;
                let crossed = if is_only_here { 0 } else { words };
                (Held { id: operand.id, words, is_only_here }, crossed)
            }
        };
        if operand.is_result {
            self.held.push(Held { is_only_here: false, ..held });
            return crossed + words;
        }
        self.held.push(held);
        crossed
    }

    fn find(&self, id: u32) -> Option<usize> {
        self.held.iter().position(|held| held.id == id)
    }
}

/// Words that cross for a product of operands that do not fit together: pieces of one of them stay
/// for as long as the other streams past, whichever of the two takes less.
fn streamed([a, b, c]: [u64; 3], room: u64) -> u64 {
    let past = |kept: u64, streams: u64| {
        kept.saturating_add(streams.saturating_mul(kept.div_ceil(room.max(1))))
    };
    past(a, b).min(past(b, a)).saturating_add(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gemm;

    fn operand(id: u32) -> Operand {
        Operand { id, is_made_inside: false, is_result: false }
    }

    fn product(ids: [u32; 3], (m, k, n): (u64, u64, u64)) -> Product {
        let mut operands = ids.map(operand);
        operands[2].is_made_inside = true;
        Product { gemm: Gemm { m, k, n }, operands }
    }

    #[test]
    fn what_fits_crosses_once() {
        let mut memory = Scratchpad::new(1000);
        // 10 x 20 by 20 x 5: 200 and 100 words come, 50 are made.
        let first = product([0, 1, 2], (10, 20, 5));
        assert_eq!(memory.crossing(&first), 300);
        assert_eq!(memory.crossing(&first), 0);
        // The product of both is a result of its own.
        let mut last = product([2, 3, 4], (10, 5, 2));
        last.operands[2].is_result = true;
        assert_eq!(memory.crossing(&last), 10 + 20);
    }

    #[test]
    fn what_makes_room_crosses_if_it_is_nowhere_else() {
        // 200, 100 and 50 words of the first product, 300 of the second.
        let mut memory = Scratchpad::new(400);
        assert_eq!(memory.crossing(&product([0, 1, 2], (10, 20, 5))), 300);
        // 0 and 1 are below already; 2 has to be brought there.
        assert_eq!(memory.crossing(&product([5, 6, 7], (10, 10, 10))), 200);
        assert_eq!(memory.crossing(&product([8, 9, 10], (10, 15, 10))), 50 + 100 + 300);
        // All three make room again, 10 of them has to be brought below.
        assert_eq!(memory.crossing(&product([0, 1, 2], (10, 20, 5))), 100 + 300);
    }

    #[test]
    fn what_does_not_fit_streams_past_pieces_of_the_other() {
        // 4,000 and 200 words with room for 100: the small one in two pieces.
        assert_eq!(streamed([4000, 200, 50], 100), 200 + 2 * 4000 + 50);
        // The large one in 40 pieces would take 4000 + 40 * 200.
        assert_eq!(streamed([200, 4000, 50], 100), 200 + 2 * 4000 + 50);
        assert_eq!(streamed([4000, 90, 50], 100), 90 + 4000 + 50);
    }
}
