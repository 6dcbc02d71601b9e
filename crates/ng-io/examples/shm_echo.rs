//! Measures a round trip of one small message to another process: over rings with and without
//! spinning, over a Unix socket, and over TCP, in turns.
//!
//! `cargo run --release -p ng-io --example shm_echo -- CALLS ROUNDS BYTES SPIN_US`
//!
//! Prints a line of JSON for each transport: the median over the rounds of p50 and p99, the range
//! of p50, and its ratio to that of TCP. Sockets are blocking and carry the bytes alone, so this is
//! the least that a transport costs, not what a server on it does. Figures with spinning hold only
//! where each side has a core for itself.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ng_io::{ShmConnection, ShmError, ShmFrame, ShmListener, ShmOptions, listen_at};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What makes one round trip.
type Call = Box<dyn FnMut() -> Outcome<()>>;

fn options(spin_us: u64) -> ShmOptions {
    ShmOptions { spin: Duration::from_micros(spin_us), ..ShmOptions::default() }
}

/// Echoes fixed messages until the other side hangs up.
fn echo(mut stream: impl Read + Write, bytes: usize) {
    let mut message = vec![0; bytes];
    while stream.read_exact(&mut message).is_ok() && stream.write_all(&message).is_ok() {}
}

fn echo_frames(mut listener: ShmListener) -> Result<(), ShmError> {
    let Some(connection) = listener.accept(None)? else {
        return Ok(());
    };
    let ((mut sender, mut receiver), mut payload) = (connection.split(), Vec::new());
    while let Some(frame) = receiver.receive(&mut payload, None)? {
        sender.send(frame, &[&payload], None)?;
    }
    Ok(())
}

/// The other process: one thread for each transport.
fn serve(folder: &Path, bytes: usize, spin_us: u64) -> Outcome<()> {
    let (unix, _file) = listen_at(&folder.join("unix"))?;
    let tcp = TcpListener::bind("127.0.0.1:0")?;
    let mut threads = Vec::new();
    for (name, spin) in [("sleeps", 0), ("spins", spin_us)] {
        let listener = ShmListener::bind(&folder.join(name), options(spin))?;
        threads.push(std::thread::spawn(move || drop(echo_frames(listener))));
    }
    println!("{}", tcp.local_addr()?);
    threads.push(std::thread::spawn(move || {
        if let Ok((stream, _)) = unix.accept() {
            echo(stream, bytes);
        }
    }));
    let (stream, _) = tcp.accept()?;
    stream.set_nodelay(true)?;
    echo(stream, bytes);
    threads.into_iter().for_each(|thread| drop(thread.join()));
    Ok(())
}

fn over_rings(path: &Path, spin_us: u64, message: &[u8]) -> Outcome<Call> {
    let (mut sender, mut receiver) = ShmConnection::connect(path, options(spin_us))?.split();
    let (message, mut payload, mut stream) = (message.to_vec(), Vec::new(), 0);
    Ok(Box::new(move || {
        stream += 1;
        sender.send(ShmFrame { kind: 1, stream }, &[&message], None)?;
        receiver.receive(&mut payload, None)?;
        Ok(())
    }))
}

fn over_socket(mut stream: impl Read + Write + 'static, message: &[u8]) -> Call {
    let (message, mut answer) = (message.to_vec(), vec![0; message.len()]);
    Box::new(move || {
        stream.write_all(&message)?;
        stream.read_exact(&mut answer)?;
        Ok(())
    })
}

/// The server process, ended with its owner.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// p50 and p99 in microseconds.
fn round(call: &mut Call, calls: usize) -> Outcome<(f64, f64)> {
    for _ in 0..calls / 10 {
        call()?;
    }
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let begin = Instant::now();
        call()?;
        times.push(begin.elapsed().as_nanos() as f64 / 1000.0);
    }
    times.sort_by(f64::total_cmp);
    Ok((times[calls / 2], times[calls * 99 / 100]))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: &str| arguments.next().unwrap_or_else(|| default.to_owned());
    let first = next("5000");
    if first == "serve" {
        let folder = next("");
        return serve(Path::new(&folder), next("300").parse()?, next("20").parse()?);
    }
    let (calls, rounds) = (first.parse::<usize>()?.max(1), next("5").parse::<usize>()?.max(1));
    let (bytes, spin_us) = (next("300"), next("20"));
    let message = vec![7; bytes.parse()?];
    let folder = tempfile::tempdir()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("serve").arg(folder.path()).args([&bytes, &spin_us]).stdout(Stdio::piped());
    let mut server = Server(command.spawn()?);
    let output = server.0.stdout.take().ok_or("no output")?;
    let address = BufReader::new(output).lines().next().ok_or("no address")??;
    let tcp = TcpStream::connect(address)?;
    tcp.set_nodelay(true)?;
    let spin: u64 = spin_us.parse()?;
    let at = |name: &str| folder.path().join(name);
    let mut transports = [
        ("rings, spin 0".to_owned(), over_rings(&at("sleeps"), 0, &message)?),
        (format!("rings, spin {spin} us"), over_rings(&at("spins"), spin, &message)?),
        ("unix".to_owned(), over_socket(UnixStream::connect(at("unix"))?, &message)),
        ("tcp".to_owned(), over_socket(tcp, &message)),
    ];
    let mut figures = vec![Vec::new(); transports.len()];
    for _ in 0..rounds {
        for (found, (_, call)) in figures.iter_mut().zip(&mut transports) {
            found.push(round(call, calls)?);
        }
    }
    let p50 = |found: &[(f64, f64)]| median(found.iter().map(|(p50, _)| *p50));
    let tcp = figures.last().map_or(1.0, |found| p50(found));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    for (found, (name, _)) in figures.iter().zip(&transports) {
        let all = found.iter().map(|(p50, _)| *p50);
        let (least, most) = (all.clone().fold(f64::MAX, f64::min), all.fold(0.0, f64::max));
        println!(
            "{{\"transport\":\"{name}\",\"p50_us\":{:.2},\"p50_us_range\":[{least:.2},{most:.2}],\
             \"p99_us\":{:.2},\"of_tcp\":{:.3},\"bytes\":{bytes},\"calls\":{calls},\
             \"rounds\":{rounds},\"cores\":{cores}}}",
            p50(found),
            median(found.iter().map(|(_, p99)| *p99)),
            p50(found) / tcp,
        );
    }
    Ok(())
}
