//! Measures random reads of one block each through [`Reader`], as a loader makes them: one calling
//! thread, a full queue, and the crc32c of every block checked.
//!
//! `cargo run --release -p ng-io --example read_rate -- FILE MIB SECONDS RUNS DEPTH BACK_END SEED`
//!
//! The file is written if it is not there or too short. Prints a line of JSON for each run: reads
//! per second, the mean depth that `Reader` counted and the one that the kernel counted for the
//! drive, and the share of one core that was busy. `benchmarks/read_rate.py` sets it beside fio.

use std::error::Error;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ng_io::{
    Access, BLOCK_BYTES, BackendChoice, FileId, OpenOptions, READ_BYTES_MAX, ReadOp, Reader,
    open_dir,
};
use ng_testing::Random;

type Outcome<T> = Result<T, Box<dyn Error>>;

const BLOCK: u64 = BLOCK_BYTES as u64;

struct Settings {
    file: PathBuf,
    bytes: u64,
    run: Duration,
    runs: u64,
    depth: usize,
    choice: BackendChoice,
    seed: u64,
}

fn settings() -> Outcome<Settings> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: &str| arguments.next().unwrap_or_else(|| default.to_owned());
    Ok(Settings {
        file: next("read_rate.dat").into(),
        bytes: next("2048").parse::<u64>()? << 20,
        run: Duration::from_secs_f64(next("5").parse()?),
        runs: next("3").parse()?,
        depth: next("64").parse()?,
        choice: next("uring").parse()?,
        seed: next("1").parse()?,
    })
}

/// Writes the file through a buffered back end, unless it is there already.
fn prepare(directory: &Path, name: &str, bytes: u64) -> Outcome<()> {
    let found = fs::metadata(directory.join(name)).map_or(0, |data| data.len());
    if found >= bytes {
        return Ok(());
    }
    let options = OpenOptions::default();
    let disk = open_dir(directory, BackendChoice::Pread, &options)?.disk;
    if found > 0 {
        disk.remove(name)?;
    }
    let mut file = ng_io::Appender::create(Arc::clone(&disk), name)?;
    let mut random = Random::new(2026);
    while file.position() < bytes {
        file.write(&random.bytes(1 << 20))?;
    }
    file.finish()?;
    disk.sync_dir()?;
    Ok(())
}

/// The crc32c of every block, from one scan.
fn checksums(reader: &Reader, file: FileId, bytes: u64) -> Outcome<Vec<u32>> {
    let mut sums = vec![0; (bytes / BLOCK) as usize];
    let mut at = 0;
    let mut next = || {
        let len = (bytes - at).min(READ_BYTES_MAX as u64);
        let op = ReadOp { tag: 0, file, offset: at, len: len as u32 };
        at += len;
        (len > 0).then_some(op)
    };
    let mut failure = None;
    reader.read(&mut next, &mut |op, result| match result {
        Ok(found) => {
            let first = (op.offset / BLOCK) as usize;
            for (block, sum) in found.chunks(BLOCK_BYTES).zip(&mut sums[first..]) {
                *sum = crc32c::crc32c(block);
            }
        }
        Err(error) => failure = Some(error),
    })?;
    failure.map_or(Ok(sums), |error| Err(error.into()))
}

/// The time that the drive of a file has spent on reads and writes, summed over those in flight.
fn drive_busy(path: &Path) -> Option<Duration> {
    let device = fs::metadata(path).ok()?.dev();
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00);
    let text = fs::read_to_string("/proc/diskstats").ok()?;
    let line = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let own = |fields: &Vec<&str>| {
        fields.first() == Some(&major.to_string().as_str())
            && fields.get(1) == Some(&minor.to_string().as_str())
    };
    let weighted_ms = line.into_iter().find(own)?.get(13)?.parse().ok()?;
    Some(Duration::from_millis(weighted_ms))
}

/// CPU time of this process.
fn cpu_time() -> Option<Duration> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 10))
}

fn measure(
    reader: &Reader,
    file: FileId,
    sums: &[u32],
    settings: &Settings,
    seed: u64,
) -> Outcome<()> {
    let mut random = Random::new(seed);
    let (mut asked, mut wrong, mut failed) = (0_u64, 0_u64, 0_u64);
    let before = reader.stats().counts();
    let (busy, cpu, start) = (drive_busy(&settings.file), cpu_time(), Instant::now());
    let mut running = true;
    let mut next = || {
        asked += 1;
        if asked % 64 == 0 {
            running = start.elapsed() < settings.run;
        }
        let block = random.below(sums.len() as u64);
        let op = ReadOp { tag: block, file, offset: block * BLOCK, len: BLOCK as u32 };
        running.then_some(op)
    };
    reader.read(&mut next, &mut |op, result| match result {
        Ok(found) => wrong += u64::from(crc32c::crc32c(found) != sums[op.tag as usize]),
        Err(_) => failed += 1,
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let counts = reader.stats().counts().since(&before);
    let share = |before: Option<Duration>, after: Option<Duration>| {
        Some((after?.checked_sub(before?)?).as_secs_f64() / seconds)
    };
    let drive_depth = share(busy, drive_busy(&settings.file)).unwrap_or(0.0);
    let cores = share(cpu, cpu_time()).unwrap_or(0.0);
    println!(
        "{{\"back_end\": \"{}\", \"reads_per_s\": {:.0}, \"mean_depth\": {:.2}, \
         \"drive_depth\": {drive_depth:.2}, \"cores\": {cores:.3}, \"reads\": {}, \
         \"wrong\": {wrong}, \"failed\": {failed}, \"retries\": {}, \"seed\": {seed}}}",
        reader.disk().backend(),
        counts.reads as f64 / seconds,
        counts.mean_depth(),
        counts.reads,
        counts.retries,
    );
    if wrong + failed > 0 { Err("reads were wrong or failed".into()) } else { Ok(()) }
}

fn main() -> Outcome<()> {
    let settings = settings()?;
    let absolute = std::path::absolute(&settings.file)?;
    let directory = absolute.parent().ok_or("the file is in no directory")?;
    let name = absolute.file_name().and_then(|name| name.to_str()).ok_or("no UTF-8 name")?;
    fs::create_dir_all(directory)?;
    prepare(directory, name, settings.bytes)?;
    let options = OpenOptions { queue_depth: settings.depth, ..OpenOptions::default() };
    let opened = open_dir(directory, settings.choice, &options)?;
    eprintln!("{}", opened.note);
    let file = opened.disk.open(name, Access::Read)?;
    let reader = Reader::new(opened.disk);
    let sums = checksums(&reader, file, settings.bytes)?;
    for run in 0..settings.runs {
        measure(&reader, file, &sums, &settings, settings.seed + run)?;
    }
    Ok(())
}
