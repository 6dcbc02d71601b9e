//! Who takes how much of the memory budget of a store.
//!
//! What must not live here: who has it now (`budget.rs`). Shares are upper bounds, not parts of one
//! whole: most users come one after the other, and caches give memory back to whoever needs it.

macro_rules! users {
    ($($(#[doc = $doc:literal])+ $user:ident $name:literal $parts:literal / $of:literal,)*) => {
        /// Somebody who takes memory of a store's budget.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum MemoryUser {
            $($(#[doc = $doc])+ $user,)*
        }

        /// All of them, in their order, with their names and shares.
        const TABLE: &[(MemoryUser, &str, u64, u64)] =
            &[$((MemoryUser::$user, $name, $parts, $of),)*];
    };
}

users! {
    /// Blocks of topology, indexes and page tables, at the start; of what staging leaves.
    BlockCache "block_cache" 1 / 4,
    /// Wide rows, at the start; of what staging leaves.
    RowCache "row_cache" 2 / 4,
    /// Indexes and page tables that stay in memory, if all fit.
    Metadata "metadata" 1 / 16,
    /// Pages of a file of the direct layout.
    DirectPages "direct_pages" 3 / 4,
    /// Staging memory of all threads that read the store.
    Staging "staging" 1 / 4,
    /// Staging memory of a file of the direct layout, unless one thread needs more.
    DirectStaging "direct_staging" 1 / 8,
    /// What nobody can reserve: stacks, and memory that the allocator keeps between uses.
    Slack "slack" 1 / 32,
    /// Topologies in memory, if all fit.
    Topology "topology" 1 / 2,
    /// Topologies and tables of rows that a store holds, if all of them fit.
    Resident "resident" 17 / 20,
    /// Topologies in memory where they make room for rows after sampling.
    PassingTopology "passing_topology" 3 / 4,
    /// What sampling wants of the block cache while rows are read ahead.
    SampledBlocks "sampled_blocks" 1 / 4,
    /// Orders of rows that could be read as well.
    Orders "orders" 1 / 16,
    /// Lists that are streamed where nobody asked for streaming.
    Streaming "streaming" 1 / 16,
    /// All rows of a batch's tensors: where they pass this, looking ahead pays.
    Rows "rows" 1 / 2,
    /// A tensor that looking ahead, or a replay, holds whole.
    WholeTensor "whole_tensor" 1 / 32,
    /// The same for narrow rows: to keep account of them takes as much as to keep them.
    NarrowTensor "narrow_tensor" 1 / 8,
    /// Sampled batches of a look-ahead: those that are studied, and then those of the window.
    Study "study" 1 / 16,
    /// What looking ahead leaves free for what is taken for moments.
    LookAheadSlack "look_ahead_slack" 1 / 64,
    /// The same of a replay.
    ReplaySlack "replay_slack" 1 / 64,
    /// Pages that commits have changed; a checkpoint is started then.
    ChangedPages "changed_pages" 2 / 4,
    /// The same; the checkpoint is waited for then.
    ChangedPagesAtMost "changed_pages_at_most" 3 / 4,
    /// Pages that a transaction has read and not changed.
    CleanPages "clean_pages" 1 / 16,
    /// What the last commits changed, for caches that want to know.
    Changes "changes" 1 / 256,
    /// What doing the operations of a draft may take.
    Draft "draft" 1 / 8,
    /// Pages that a recovery changes before they are written, or where nothing can be written.
    Recovery "recovery" 1 / 2,
    /// A store that is being rewritten, beside the one that goes on.
    Rewrite "rewrite" 1 / 2,
    /// Rows that a rewriting puts in order at a time.
    Bucket "bucket" 1 / 4,
    /// Rows that wait to be written to the buckets of a rewriting.
    FilledBuckets "filled_buckets" 1 / 8,
    /// Addresses while the direct layout is compiled; more go to a file.
    Addresses "addresses" 1 / 2,
    /// Bits of rows whose owners `verify` looks for.
    VerifiedRows "verified_rows" 1 / 16,
    /// Deleted nodes that `verify` holds.
    VerifiedDead "verified_dead" 1 / 64,
    /// Entries of one list that `verify` looks for twins among.
    VerifiedList "verified_list" 1 / 32,
}

impl MemoryUser {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    /// How statistics call it.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// Its bytes of a budget of `limit_bytes`.
    pub fn share(self, limit_bytes: u64) -> u64 {
        let (_, _, parts, of) = TABLE[self as usize];
        limit_bytes / of * parts
    }

    /// A budget of which its share has `bytes`.
    pub fn budget_for(self, bytes: u64) -> u64 {
        let (_, _, parts, of) = TABLE[self as usize];
        (bytes / parts).saturating_mul(of)
    }

    /// A budget that has `bytes` beside its share.
    pub fn budget_beside(self, bytes: u64) -> u64 {
        let (_, _, parts, of) = TABLE[self as usize];
        bytes.saturating_add(bytes / (of - parts) * parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_parts_of_the_budget_under_names_of_their_own() {
        for (at, user) in MemoryUser::all().enumerate() {
            let share = user.share(1 << 30);
            assert!((1..1 << 30).contains(&share), "{user:?}");
            assert!(MemoryUser::all().take(at).all(|other| other.name() != user.name()));
            assert_eq!(user as usize, at);
            assert!(user.share(user.budget_for(share)) <= share, "{user:?}");
        }
        assert_eq!(MemoryUser::ChangedPagesAtMost.share(1003), 750);
        assert_eq!(MemoryUser::ReplaySlack.budget_beside(630), 640);
    }
}
