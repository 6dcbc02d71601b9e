//! The shares of the users of a store's memory budget.
//!
//! What must not live here: current reservations (`budget.rs`). Shares are upper bounds and need
//! not add up to one: most users do not run at the same time, and caches give memory back on
//! demand.

macro_rules! users {
    ($($(#[doc = $doc:literal])+ $user:ident $name:literal $parts:literal / $of:literal,)*) => {
        /// A user of a store's memory budget.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum MemoryUser {
            $($(#[doc = $doc])+ $user,)*
        }

        /// All users in order, with their names and shares.
        const TABLE: &[(MemoryUser, &str, u64, u64)] =
            &[$((MemoryUser::$user, $name, $parts, $of),)*];
    };
}

users! {
    /// Initial share of blocks of topology, indexes and page tables, in the memory that staging
    /// leaves.
    BlockCache "block_cache" 1 / 4,
    /// Initial share of wide rows, in the memory that staging leaves.
    RowCache "row_cache" 2 / 4,
    /// Indexes and page tables that stay in memory, if all fit.
    Metadata "metadata" 1 / 16,
    /// Pages of a file of the direct layout.
    DirectPages "direct_pages" 3 / 4,
    /// Staging memory of all threads that read the store.
    Staging "staging" 1 / 4,
    /// Staging memory of a file of the direct layout, unless one thread needs more.
    DirectStaging "direct_staging" 1 / 8,
    /// Memory that cannot be reserved: stacks, and memory that the allocator keeps between uses.
    Slack "slack" 1 / 32,
    /// Topologies in memory, if all fit.
    Topology "topology" 1 / 2,
    /// Topologies and tables of rows that a store holds, if all of them fit.
    Resident "resident" 17 / 20,
    /// Topologies in memory if they are dropped after sampling in favour of rows.
    PassingTopology "passing_topology" 3 / 4,
    /// The part of the block cache that sampling needs while rows are read ahead.
    SampledBlocks "sampled_blocks" 1 / 4,
    /// Orders of rows that are kept in memory instead of being read.
    Orders "orders" 1 / 16,
    /// Lists that are streamed without an explicit request.
    Streaming "streaming" 1 / 16,
    /// All rows of a batch's tensors. Above this share, look-ahead is worthwhile.
    Rows "rows" 1 / 2,
    /// A tensor that look-ahead or a replay holds completely.
    WholeTensor "whole_tensor" 1 / 32,
    /// The same for narrow rows, whose bookkeeping takes as much memory as the rows.
    NarrowTensor "narrow_tensor" 1 / 8,
    /// Sampled batches of look-ahead: first those for its decision, then those of the window.
    Study "study" 1 / 16,
    /// Memory that look-ahead leaves free for short-lived reservations.
    LookAheadSlack "look_ahead_slack" 1 / 64,
    /// Memory that a replay leaves free for short-lived reservations.
    ReplaySlack "replay_slack" 1 / 64,
    /// Pages changed by commits. Above this share, a checkpoint starts.
    ChangedPages "changed_pages" 2 / 4,
    /// Pages changed by commits. Above this share, commits wait for the checkpoint.
    ChangedPagesAtMost "changed_pages_at_most" 3 / 4,
    /// Pages that a transaction has read but not changed.
    CleanPages "clean_pages" 1 / 16,
    /// Notes of what the last commits changed, for caches.
    Changes "changes" 1 / 256,
    /// Memory for applying the operations of a draft.
    Draft "draft" 1 / 8,
    /// Pages that a recovery changes before they are written, or where nothing can be written.
    Recovery "recovery" 1 / 2,
    /// A store that is being rewritten while the old one stays open.
    Rewrite "rewrite" 1 / 2,
    /// Rows that a rewrite sorts at a time.
    Bucket "bucket" 1 / 4,
    /// Rows that wait to be written to the buckets of a rewrite.
    FilledBuckets "filled_buckets" 1 / 8,
    /// Addresses while the direct layout is compiled; more go to a file.
    Addresses "addresses" 1 / 2,
    /// Bits of rows whose owners `verify` searches.
    VerifiedRows "verified_rows" 1 / 16,
    /// Deleted nodes that `verify` holds.
    VerifiedDead "verified_dead" 1 / 64,
    /// Entries of one list in which `verify` searches for duplicates.
    VerifiedList "verified_list" 1 / 32,
}

impl MemoryUser {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    /// Returns the name in statistics.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// Returns its share, in bytes, of a budget of `limit_bytes`.
    pub fn share(self, limit_bytes: u64) -> u64 {
        let (_, _, parts, of) = TABLE[self as usize];
        limit_bytes / of * parts
    }

    /// Returns a budget in which its share is `bytes`.
    pub fn budget_for(self, bytes: u64) -> u64 {
        let (_, _, parts, of) = TABLE[self as usize];
        (bytes / parts).saturating_mul(of)
    }

    /// Returns a budget that leaves `bytes` beside its share.
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
