//! Walks a record and makes the images of each boundary.
//!
//! Only what is durable and which operations are not are carried along; an image is made when its
//! turn comes, and copies the files that it changes and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::disk::{Inode, Operation, Record};
use super::image::{CrashImage, ImageChoice, ImageKind};
use crate::random::Random;

/// What a drive writes in one piece.
const SECTOR_BYTES: usize = 512;

/// One in so many writes of a random image is torn.
const TORN_ONE_IN: u64 = 8;

/// The disk between two operations.
struct Moment<'a> {
    operations: &'a [Operation],
    /// Durable names and durable bytes.
    names: BTreeMap<&'a str, Inode>,
    bytes: BTreeMap<Inode, Arc<Vec<u8>>>,
    /// Operations whose change is not durable, in order.
    pending: Vec<usize>,
    /// Writes before a failed sync: no sync makes them durable. They are pending as well.
    doomed: BTreeSet<usize>,
    /// Durable writes that lie over doomed ones, so they are not in `bytes` yet but in every image.
    above: BTreeSet<usize>,
}

/// How much of a change is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    None,
    All,
    Prefix,
    Sectors,
}

pub(super) fn for_each_image(
    record: &Record,
    choice: &ImageChoice,
    visit: &mut dyn FnMut(&CrashImage),
) -> usize {
    let mut random = Random::new(choice.seed);
    let mut moment = Moment::first(record);
    let mut marks = record.marks.iter().peekable();
    let (mut mark, mut count) = (None, 0);
    for boundary in 0..=record.operations.len() {
        if boundary > 0 {
            moment.advance(boundary - 1);
        }
        while let Some((_, later)) = marks.next_if(|(at, _)| *at <= boundary) {
            mark = Some(*later);
        }
        if boundary < choice.from_operation {
            continue;
        }
        for kind in moment.kinds(choice, &mut random) {
            let files = moment.image(kind, &mut random);
            visit(&CrashImage { boundary, mark, kind, files });
            count += 1;
        }
    }
    count
}

impl<'a> Moment<'a> {
    fn first(record: &'a Record) -> Self {
        let names = record.first.keys().map(String::as_str).zip(0..).collect();
        let bytes = (0..).zip(record.first.values().cloned()).collect();
        let (pending, doomed, above) = Default::default();
        Self { operations: &record.operations, names, bytes, pending, doomed, above }
    }

    /// Lets operation `index` happen.
    fn advance(&mut self, index: usize) {
        let operations = self.operations;
        match &operations[index] {
            Operation::Allocate => {}
            Operation::FailedSync { inode } => {
                let is_hit = |at: &&usize| operations[**at].writes_to(*inode);
                self.doomed.extend(self.pending.iter().filter(is_hit));
                self.doomed.retain(|at| !self.above.contains(at));
            }
            Operation::Sync { inode } if self.is_doomed(*inode) => {
                let is_safe =
                    |at: &&usize| operations[**at].writes_to(*inode) && !self.doomed.contains(at);
                self.above.extend(self.pending.iter().filter(is_safe));
            }
            Operation::Sync { inode } => {
                for at in self.take_pending(|operation| operation.writes_to(*inode)) {
                    if let Operation::Write { offset, bytes, .. } = &operations[at] {
                        let file = self.bytes.entry(*inode).or_default();
                        put(Arc::make_mut(file), *offset, bytes);
                    }
                }
            }
            Operation::SyncDir => {
                for at in self.take_pending(Operation::is_of_names) {
                    rename(&mut self.names, &operations[at]);
                }
            }
            _ => self.pending.push(index),
        }
    }

    fn is_doomed(&self, inode: Inode) -> bool {
        self.doomed.iter().any(|at| self.operations[*at].writes_to(inode))
    }

    fn take_pending(&mut self, durable: impl Fn(&Operation) -> bool) -> Vec<usize> {
        let is_durable = |at: &usize| durable(&self.operations[*at]);
        let (taken, left) = self.pending.iter().partition(|at| is_durable(at));
        self.pending = left;
        taken
    }

    /// The kinds of image to try here.
    fn kinds(&self, choice: &ImageChoice, random: &mut Random) -> Vec<ImageKind> {
        let mut kinds = vec![ImageKind::Nothing];
        let open = || self.pending.iter().filter(|at| !self.above.contains(at));
        if open().next().is_none() {
            return kinds;
        }
        kinds.push(ImageKind::Everything);
        if open().nth(1).is_some() {
            kinds.extend(open().map(|at| ImageKind::Only(*at)));
            kinds.extend(open().map(|at| ImageKind::AllBut(*at)));
        }
        for at in open() {
            if self.operations[*at].sectors() > 1 {
                kinds.extend([ImageKind::TornPrefix(*at), ImageKind::TornSectors(*at)]);
            }
        }
        // Where a durable write lies over a doomed one it is the older length that is not known.
        if self.above.is_empty() && open().any(|at| self.lengthens(*at)) {
            kinds.extend([ImageKind::NotLengthened, ImageKind::ZeroFilled]);
        }
        kinds.extend(std::iter::repeat_n(ImageKind::Random, choice.random));
        if kinds.len() > choice.most {
            for place in 2..choice.most {
                let other = place + random.below((kinds.len() - place) as u64) as usize;
                kinds.swap(place, other);
            }
        }
        kinds.truncate(choice.most);
        kinds
    }

    fn durable_len(&self, inode: Inode) -> usize {
        self.bytes.get(&inode).map_or(0, |bytes| bytes.len())
    }

    fn lengthens(&self, at: usize) -> bool {
        match &self.operations[at] {
            Operation::Write { inode, offset, bytes } => {
                offset + bytes.len() > self.durable_len(*inode)
            }
            _ => false,
        }
    }

    fn image(&self, kind: ImageKind, random: &mut Random) -> BTreeMap<String, Arc<Vec<u8>>> {
        let mut names = self.names.clone();
        let mut changed: BTreeMap<Inode, Vec<u8>> = BTreeMap::new();
        for at in &self.pending {
            let part = if self.above.contains(at) { Part::All } else { part(kind, *at, random) };
            let operation = &self.operations[*at];
            let Operation::Write { inode, offset, bytes } = operation else {
                if part != Part::None {
                    rename(&mut names, operation);
                }
                continue;
            };
            if part != Part::None {
                let durable = || self.bytes.get(inode).map_or_else(Vec::new, |old| old.to_vec());
                let file = changed.entry(*inode).or_insert_with(durable);
                put_part(file, *offset, bytes, part, random);
            }
        }
        for (inode, file) in &mut changed {
            let len = self.durable_len(*inode).min(file.len());
            match kind {
                ImageKind::NotLengthened => file.truncate(len),
                ImageKind::ZeroFilled => file[len..].fill(0),
                _ => {}
            }
        }
        let changed: BTreeMap<Inode, Arc<Vec<u8>>> =
            changed.into_iter().map(|(inode, bytes)| (inode, Arc::new(bytes))).collect();
        let found = |inode| changed.get(&inode).or(self.bytes.get(&inode)).cloned();
        let file =
            |(name, inode): (&str, Inode)| (name.to_owned(), found(inode).unwrap_or_default());
        names.into_iter().map(file).collect()
    }
}

/// How much of operation `at` is there in an image of `kind`.
fn part(kind: ImageKind, at: usize, random: &mut Random) -> Part {
    let if_all = |is_there| if is_there { Part::All } else { Part::None };
    match kind {
        ImageKind::Nothing => Part::None,
        ImageKind::Everything | ImageKind::NotLengthened | ImageKind::ZeroFilled => Part::All,
        ImageKind::Only(one) => if_all(at == one),
        ImageKind::AllBut(one) => if_all(at != one),
        ImageKind::TornPrefix(one) if at == one => Part::Prefix,
        ImageKind::TornPrefix(_) => Part::All,
        ImageKind::TornSectors(one) if at == one => Part::Sectors,
        ImageKind::TornSectors(_) => if_all(random.below(2) == 0),
        ImageKind::Random => match (random.below(2), random.below(2 * TORN_ONE_IN)) {
            (0, _) => Part::None,
            (_, 0) => Part::Prefix,
            (_, 1) => Part::Sectors,
            _ => Part::All,
        },
    }
}

impl Operation {
    fn writes_to(&self, file: Inode) -> bool {
        matches!(self, Self::Write { inode, .. } if *inode == file)
    }

    fn is_of_names(&self) -> bool {
        matches!(self, Self::Create { .. } | Self::Rename { .. } | Self::Remove { .. })
    }

    /// How many sectors it writes to.
    fn sectors(&self) -> usize {
        match self {
            Self::Write { offset, bytes, .. } if !bytes.is_empty() => {
                (offset + bytes.len()).div_ceil(SECTOR_BYTES) - offset / SECTOR_BYTES
            }
            _ => 0,
        }
    }
}

/// Changes names as an operation does. What it needs may have been lost before it.
fn rename<'a>(names: &mut BTreeMap<&'a str, Inode>, operation: &'a Operation) {
    match operation {
        Operation::Create { name, inode } => {
            names.insert(name, *inode);
        }
        Operation::Rename { from, to, inode } => {
            if names.get(from.as_str()) == Some(inode) {
                names.remove(from.as_str());
            }
            names.insert(to, *inode);
        }
        Operation::Remove { name } => {
            names.remove(name.as_str());
        }
        _ => {}
    }
}

fn put(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(bytes);
}

/// Writes a part of `bytes`, torn where a sector ends. A write inside of one sector is not torn.
fn put_part(file: &mut Vec<u8>, offset: usize, bytes: &[u8], part: Part, random: &mut Random) {
    let end = offset + bytes.len();
    let first = offset / SECTOR_BYTES;
    let sectors = end.div_ceil(SECTOR_BYTES) - first;
    if part == Part::All || sectors < 2 {
        return put(file, offset, bytes);
    }
    let some = 1 + random.below(sectors as u64 - 1) as usize;
    if part == Part::Prefix {
        return put(file, offset, &bytes[..(first + some) * SECTOR_BYTES - offset]);
    }
    file.resize(file.len().max(end), 0);
    // One sector is there and another is not, whatever the draws for the others.
    let there = random.below(sectors as u64) as usize;
    let lost = (there + some) % sectors;
    for sector in 0..sectors {
        if sector == lost || (sector != there && random.below(2) == 0) {
            continue;
        }
        let start = ((first + sector) * SECTOR_BYTES).max(offset);
        let stop = ((first + sector + 1) * SECTOR_BYTES).min(end);
        file[start..stop].copy_from_slice(&bytes[start - offset..stop - offset]);
    }
}
