//! What may be left after a loss of power, and what may not.

#![allow(clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};

use ng_io::{Access, Disk};
use ng_testing::{CrashDisk, CrashImage, ImageChoice, ImageKind, MemDisk, Random};

/// All images of a record that are chosen by default.
fn images(disk: &CrashDisk) -> Vec<CrashImage> {
    let mut images = Vec::new();
    disk.for_each_image(&ImageChoice::default(), &mut |image| images.push(image.clone()));
    images
}

/// A disk with a durable file of `len` times `1`.
fn with_file(len: usize) -> CrashDisk {
    let inner = MemDisk::new();
    inner.put("a", vec![1; len]);
    CrashDisk::new(inner)
}

fn is_torn(kind: ImageKind) -> bool {
    matches!(kind, ImageKind::TornPrefix(_) | ImageKind::TornSectors(_))
}

#[test]
fn nothing_left_is_what_was_synced_and_everything_left_is_what_was_seen() {
    let seed = 11;
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let disk = with_file(3000);
    let mut states = vec![(disk.inner().durable_image(), disk.inner().image())];
    let mut files = vec![disk.open("a", Access::ReadWrite).expect("opened")];
    for step in 0..400_u64 {
        let names = disk.list().expect("listed");
        let name = names.get(random.below(names.len() as u64) as usize);
        let file = files[random.below(files.len() as u64) as usize];
        match (random.below(10), name) {
            (0, _) => files.push(disk.open(&format!("n{step}"), Access::Create).expect("created")),
            (1, Some(name)) => disk.remove(name).expect("removed"),
            (2, Some(name)) => {
                disk.rename(name, &format!("n{}", random.below(step + 1))).expect("renamed");
            }
            (3, _) => disk.sync_dir().expect("synced"),
            (4, _) => disk.sync(file).expect("synced"),
            (5, _) => disk.allocate(file, 1 << 20).expect("reserved"),
            _ => {
                let (offset, len) = (random.below(6000), 1 + random.below(3000));
                let bytes = vec![step as u8; len as usize];
                disk.write(file, offset, &bytes).expect("written");
            }
        }
        states.push((disk.inner().durable_image(), disk.inner().image()));
        assert_eq!(disk.operations() + 1, states.len(), "each step is one operation");
    }
    let mut kinds = BTreeSet::new();
    let count = disk.for_each_image(&ImageChoice::default(), &mut |image| {
        kinds.insert(format!("{:?}", image.kind).split('(').next().map(str::to_owned));
        let (durable, seen) = &states[image.boundary];
        match image.kind {
            ImageKind::Nothing => assert_eq!(image.disk().image(), *durable, "{image}"),
            ImageKind::Everything => assert_eq!(image.disk().image(), *seen, "{image}"),
            _ => {}
        }
    });
    println!("{count} images");
    assert_eq!(kinds.len(), 9, "each kind occurs: {kinds:?}");
}

#[test]
fn what_was_synced_is_in_every_image_and_what_was_not_is_old_or_new() {
    let seed = 12;
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let disk = with_file(4096);
    let file = disk.open("a", Access::ReadWrite).expect("opened");
    // What each byte may be at each boundary: the newest durable value first.
    let mut allowed: Vec<Vec<u8>> = vec![vec![1]; 4096];
    let mut moments = vec![allowed.clone()];
    for step in 2..200_u8 {
        if random.below(4) == 0 {
            disk.sync(file).expect("synced");
            allowed.iter_mut().for_each(|values| *values = values[values.len() - 1..].to_vec());
        } else {
            let offset = random.below(8000) as usize;
            let len = 1 + random.below(1500) as usize;
            disk.write(file, offset as u64, &vec![step; len]).expect("written");
            let longer = allowed.len().max(offset + len);
            allowed.resize(longer, vec![0]);
            allowed[offset..offset + len].iter_mut().for_each(|values| values.push(step));
        }
        moments.push(allowed.clone());
    }
    let mut random_images = 0;
    for image in images(&disk) {
        let allowed = &moments[image.boundary];
        let found = &image.files["a"];
        assert!(found.len() <= allowed.len(), "{image}");
        for (at, byte) in found.iter().enumerate() {
            // A hole in front of a write that is there, or behind a length that is, reads as zeros.
            let is_hole = *byte == 0 && at >= 4096;
            assert!(allowed[at].contains(byte) || is_hole, "{image}: {byte} at {at}");
        }
        random_images += usize::from(image.kind == ImageKind::Random);
    }
    assert!(random_images > 100);
}

#[test]
fn a_torn_write_is_torn_where_a_sector_ends_and_nowhere_else() {
    let disk = with_file(8192);
    let file = disk.open("a", Access::ReadWrite).expect("opened");
    disk.write(file, 700, &[2; 5000]).expect("written");
    let (mut prefixes, mut patterns) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..200 {
        let choice = ImageChoice { seed, from_operation: 1, ..ImageChoice::default() };
        disk.for_each_image(&choice, &mut |image| {
            let bytes = &image.files["a"];
            assert_eq!(bytes.len(), 8192);
            assert!(bytes[..700].iter().chain(&bytes[5700..]).all(|byte| *byte == 1));
            let inside = 700..5700 - 1;
            let cuts: Vec<_> = inside.filter(|at| bytes[*at] != bytes[at + 1]).collect();
            assert!(cuts.iter().all(|at| (at + 1) % 512 == 0), "{image}: {cuts:?}");
            match image.kind {
                ImageKind::TornPrefix(0) => {
                    assert!(bytes[700] == 2 && bytes[5699] == 1 && cuts.len() == 1, "{image}");
                    prefixes.insert(cuts);
                }
                ImageKind::TornSectors(0) => {
                    assert!(!cuts.is_empty(), "{image}");
                    patterns.insert(cuts);
                }
                _ => {}
            }
        });
    }
    assert_eq!(prefixes.len(), 10, "a prefix may end after each sector but the last of eleven");
    assert!(patterns.len() > 50, "{}", patterns.len());
    // A write inside of one sector is whole or absent.
    let disk = with_file(4096);
    let file = disk.open("a", Access::ReadWrite).expect("opened");
    disk.write(file, 512, &[2; 512]).expect("written");
    assert!(images(&disk).iter().all(|image| !is_torn(image.kind)));
}

#[test]
fn a_length_that_was_not_synced_may_be_the_old_one_or_lead_to_zeros() {
    let disk = with_file(1000);
    let file = disk.open("a", Access::ReadWrite).expect("opened");
    disk.write(file, 900, &[2; 200]).expect("written");
    let of = |kind| {
        let images = images(&disk);
        let image = images.iter().find(|image| image.kind == kind).expect("tried");
        image.files["a"].to_vec()
    };
    let old = of(ImageKind::NotLengthened);
    assert_eq!((old.len(), &old[900..]), (1000, &[2; 100][..]));
    let zeros = of(ImageKind::ZeroFilled);
    assert_eq!((&zeros[900..1000], &zeros[1000..]), (&[2; 100][..], &[0; 100][..]));
    disk.sync(file).expect("synced");
    let last: Vec<_> = images(&disk).into_iter().filter(|image| image.boundary == 2).collect();
    assert_eq!(last.len(), 1, "where all is durable there is one image");
    assert_eq!(last[0].files["a"].len(), 1100);
}

#[test]
fn a_rename_that_was_not_synced_is_old_or_new_and_then_new_only() {
    let disk = with_file(10);
    let file = disk.open("b", Access::Create).expect("created");
    disk.write(file, 0, b"new").expect("written");
    disk.sync(file).expect("synced");
    disk.sync_dir().expect("synced");
    disk.rename("b", "a").expect("renamed");
    let at = |boundary| {
        let images = images(&disk).into_iter().filter(move |image| image.boundary == boundary);
        images.map(|image| image.disk().image()).collect::<BTreeSet<_>>()
    };
    let old = BTreeMap::from([("a".into(), vec![1; 10]), ("b".into(), b"new".to_vec())]);
    let new = BTreeMap::from([("a".into(), b"new".to_vec())]);
    assert_eq!(at(5), BTreeSet::from([old, new.clone()]));
    disk.sync_dir().expect("synced");
    assert_eq!(at(6), BTreeSet::from([new]));
}

#[test]
fn as_many_images_are_made_as_were_asked_for_and_a_seed_replays_them() {
    let disk = with_file(4096);
    let file = disk.open("a", Access::ReadWrite).expect("opened");
    disk.mark(7);
    for block in 0..6_u64 {
        disk.write(file, block * 4096, &[2; 4096]).expect("written");
        if block == 2 {
            disk.mark(8);
        }
    }
    // At the last boundary: none, all, 6 alone, 6 missing, 12 torn, 2 lengths and the random ones.
    let count = |choice: &ImageChoice| {
        let (mut last, mut visits) = (0, 0);
        let count = disk.for_each_image(choice, &mut |image| {
            visits += 1;
            last += usize::from(image.boundary == 6);
            assert_eq!(image.mark, Some(if image.boundary < 3 { 7 } else { 8 }));
        });
        assert_eq!(count, visits);
        (count, last)
    };
    let all = ImageChoice { random: 10, ..ImageChoice::default() };
    assert_eq!(count(&all).1, 28 + 10);
    let few = ImageChoice { most: 9, ..all.clone() };
    assert_eq!(count(&few), (1 + 6 * 9, 9));
    assert_eq!(count(&ImageChoice { from_operation: 5, ..few.clone() }), (2 * 9, 9));
    let replay = |choice: &ImageChoice| {
        let mut seen = Vec::new();
        disk.for_each_image(choice, &mut |image| seen.push((image.kind, image.files.clone())));
        seen
    };
    assert_eq!(replay(&few), replay(&few));
    assert_ne!(replay(&few), replay(&ImageChoice { seed: 2, ..few.clone() }));
}

#[test]
fn an_image_can_be_written_to_without_changing_any_other() {
    let disk = with_file(4096);
    let file = disk.open("a", Access::ReadWrite).expect("opened");
    disk.write(file, 0, &[2]).expect("written");
    for image in images(&disk) {
        let again = CrashDisk::new(image.disk());
        let file = again.open("a", Access::ReadWrite).expect("opened");
        let before = image.files["a"].to_vec();
        again.write(file, 0, &[9; 4096]).expect("written");
        again.sync(file).expect("synced");
        assert_eq!(image.files["a"].to_vec(), before);
        assert!(images(&again).iter().any(|image| image.files["a"][0] == 9));
    }
    assert_eq!(disk.inner().contents("a").expect("there")[..2], [2, 1]);
}

#[test]
fn what_was_written_before_a_failed_sync_may_be_lost_whatever_is_synced_later() {
    let disk = with_file(4096);
    let file = disk.open("a", Access::ReadWrite).expect("opened");
    disk.write(file, 0, &[2; 512]).expect("written");
    disk.sync(file).expect("synced");
    disk.write(file, 0, &[3; 1024]).expect("written");
    disk.fail_next_sync();
    assert_eq!(disk.sync(file).expect_err("fails").raw_os_error(), Some(5));
    disk.write(file, 512, &[4; 512]).expect("written");
    disk.sync(file).expect("the next one succeeds");
    assert_eq!(disk.operations(), 6);
    assert_eq!(disk.inner().contents("a").expect("there")[0], 3, "it is seen as long as power is");
    let of = |boundary, at: usize| {
        let images = images(&disk).into_iter().filter(|image| image.boundary == boundary);
        images.map(|image| image.files["a"][at]).collect::<BTreeSet<_>>()
    };
    assert_eq!((of(4, 0), of(4, 600)), (BTreeSet::from([2, 3]), BTreeSet::from([1, 3])));
    assert_eq!(of(5, 600), BTreeSet::from([1, 3, 4]));
    assert_eq!((of(6, 0), of(6, 600)), (BTreeSet::from([2, 3]), BTreeSet::from([4])));
}
