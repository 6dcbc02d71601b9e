//! What a batch asks of the flash: commands, where each reads, which bring forth which. A plan may
//! have several batches, which share a device and wait for nothing of each other.
//!
//! A plan comes from a trace and a layout and knows nothing of time. Its columns are parallel, one
//! entry a command; children of one command lie side by side.

use crate::time::Picos;

/// Flags of a command.
pub mod flag {
    /// A sampler on the die works on it.
    pub const SAMPLED: u8 = 1;
    /// It brings a row of features.
    pub const FEATURE: u8 = 2;
    /// It reads a secondary section.
    pub const SECONDARY: u8 = 4;
    /// Its page is in the SSD's memory already.
    pub const CACHED: u8 = 8;
    /// Its parent, of the same hop, brings it forth, even where hops are issued as a whole.
    pub const AFTER: u8 = 16;
    /// It belongs to a request for several pages whose cost for the host another one has.
    pub const JOINED: u8 = 32;
}

/// The commands of one batch, or of several side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Which die reads: channel times dies of a channel, plus the die on it.
    pub die: Vec<u32>,
    /// Block and page inside the die, the same for pages that planes can sense together.
    pub row: Vec<u32>,
    /// Array of the die.
    pub plane: Vec<u8>,
    /// What travels over the channel.
    pub bytes: Vec<u32>,
    /// See [`flag`].
    pub flags: Vec<u8>,
    /// Steps from the target.
    pub hop: Vec<u8>,
    /// Entry of the batch's trace that it reads for.
    pub entry: Vec<u32>,
    /// Which of the batches it is of; empty where there is one.
    pub batch: Vec<u16>,
    /// The first child of each command; one entry more than commands.
    pub children: Vec<u32>,
    /// Commands without a parent come first.
    pub roots: u32,
    /// Time of the sense where it is not the same for all; empty otherwise.
    pub sense: Vec<Picos>,
    /// Size of a row of features.
    pub feature_bytes: u32,
}

impl Plan {
    /// How many commands there are.
    pub fn len(&self) -> usize {
        self.die.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.die.is_empty()
    }

    /// Hops, that of the targets included.
    pub fn hops(&self) -> usize {
        self.hop.iter().max().map_or(0, |&last| usize::from(last) + 1)
    }

    /// Batches side by side.
    pub fn batches(&self) -> usize {
        self.batch.iter().max().map_or(1, |&last| usize::from(last) + 1)
    }

    /// The batch of a command.
    #[inline]
    pub fn batch_of(&self, command: usize) -> usize {
        self.batch.get(command).map_or(0, |&batch| usize::from(batch))
    }

    /// The children of a command.
    pub fn children_of(&self, command: u32) -> std::ops::Range<u32> {
        self.children[command as usize]..self.children[command as usize + 1]
    }

    /// Those that its result brings forth: all children, or behind a barrier those of its own hop.
    pub fn brought_forth_by(
        &self,
        command: u32,
        barrier: bool,
    ) -> impl Iterator<Item = u32> + use<'_> {
        let is_after = |child: &u32| self.flags[*child as usize] & flag::AFTER != 0;
        self.children_of(command).filter(move |child| !barrier || is_after(child))
    }

    /// The commands of several batches side by side; entries are numbered batch by batch.
    ///
    /// # Panics
    ///
    /// If there are more than 65,536 plans.
    pub fn joined(plans: &[Self]) -> Self {
        assert!(plans.len() <= 1 << 16, "{} batches at the same time", plans.len());
        let firsts = plans.iter().scan(0, |next, plan| {
            let first = *next;
            *next += plan.entry.iter().max().map_or(0, |&last| last + 1);
            Some(first)
        });
        let firsts: Vec<u32> = firsts.collect();
        // Roots first, then what each command brings forth, in its turn.
        let mut order: Vec<(usize, u32)> = Vec::new();
        for (at, plan) in plans.iter().enumerate() {
            order.extend((0..plan.roots).map(|root| (at, root)));
        }
        let mut all = Self { roots: order.len() as u32, ..Self::default() };
        let mut next = 0;
        while let Some(&(at, command)) = order.get(next) {
            all.children.push(order.len() as u32);
            order.extend(plans[at].children_of(command).map(|child| (at, child)));
            all.push_from(&plans[at], command as usize, firsts[at]);
            if plans.len() > 1 {
                all.batch.push(at as u16);
            }
            next += 1;
        }
        all.children.push(order.len() as u32);
        all.feature_bytes = plans.first().map_or(0, |plan| plan.feature_bytes);
        all
    }

    /// The same commands as one batch, whose hops wait for all of them.
    pub(crate) fn into_one_batch(mut self) -> Self {
        self.batch.clear();
        self
    }

    /// The same commands, each brought forth by the one before it: one read under way at a time.
    pub(crate) fn in_a_chain(mut self) -> Self {
        let count = self.len() as u32;
        self.roots = count.min(1);
        self.children = (0..=count).map(|command| (command + 1).min(count)).collect();
        self
    }

    /// Some of the commands, in the order given, all of them roots.
    pub(crate) fn only(&self, commands: &[u32]) -> Self {
        let count = commands.len() as u32;
        let mut some = Self { roots: count, feature_bytes: self.feature_bytes, ..Self::default() };
        commands.iter().for_each(|&command| some.push_from(self, command as usize, 0));
        some.children = vec![count; commands.len() + 1];
        some
    }

    fn push_from(&mut self, other: &Self, command: usize, first_entry: u32) {
        self.die.push(other.die[command]);
        self.row.push(other.row[command]);
        self.plane.push(other.plane[command]);
        self.bytes.push(other.bytes[command]);
        self.flags.push(other.flags[command]);
        self.hop.push(other.hop[command]);
        self.entry.push(first_entry + other.entry[command]);
        self.sense.extend(other.sense.get(command));
    }

    /// Independent reads, one for each die named, of `bytes` each: for measurements and tests.
    pub fn of_reads(dies: &[u32], bytes: u32) -> Self {
        let count = dies.len();
        Self {
            die: dies.to_vec(),
            row: vec![0; count],
            plane: vec![0; count],
            bytes: vec![bytes; count],
            flags: vec![0; count],
            hop: vec![0; count],
            entry: (0..count as u32).collect(),
            batch: Vec::new(),
            children: vec![count as u32; count + 1],
            roots: count as u32,
            sense: Vec::new(),
            feature_bytes: 0,
        }
    }

    /// Chains side by side: in each, a read is issued when the one before it is there.
    ///
    /// `dies` and `sense` go through all first reads, then all second ones, and so on.
    pub fn of_chains(chains: u32, dies: &[u32], sense: &[Picos], bytes: &[u32]) -> Self {
        let mut plan = Self::of_reads(dies, 0);
        let count = dies.len() as u32;
        plan.children = (0..=count).map(|command| (command + chains).min(count)).collect();
        plan.roots = chains.min(count);
        plan.sense = sense.to_vec();
        plan.bytes = bytes.to_vec();
        plan
    }
}
