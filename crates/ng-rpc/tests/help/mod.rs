//! A service that does what a request says, served over rings.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ng_rpc::connect::{Channel, channel};
use ng_rpc::ring::{Ring, RingLimits};
use ng_rpc::tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use ng_rpc::tonic::codegen::Bytes;
use ng_rpc::tonic::service::Routes;
use ng_rpc::v1::sampling_service_client::SamplingServiceClient;
use ng_rpc::v1::sampling_service_server::{SamplingService, SamplingServiceServer};
use ng_rpc::{Problem, Request, Response, Status, Stream, async_trait, v1};
use prost::bytes::{Buf, BufMut};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;

/// Servers, threads and descriptors are counted: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());
/// A test that waits for so long has failed.
pub const LONG: Duration = Duration::from_secs(30);
/// Tells a child the path of the server.
pub const CHILD: &str = "NG_RINGS_CHILD";

// What a request wants, in `epoch`.
pub const ECHO: u64 = 0;
pub const NEVER: u64 = 1;
pub const ENDLESS: u64 = 2;
pub const PANIC: u64 = 3;
pub const REFUSE: u64 = 4;

#[derive(Clone, Default)]
struct Sampler {
    /// Calls that began and did not end.
    under_way: Arc<AtomicUsize>,
}

struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A batch of as many bytes as asked for, with a number that the ids of the request give.
pub fn batch(number: u64, asked: &v1::SampleRequest) -> v1::SampleResponse {
    let ids = asked.seeds.as_ref().map_or(&[][..], |seeds| &seeds.ids);
    let node_type = "x".repeat(asked.seed as usize);
    v1::SampleResponse {
        batch: number,
        num_seeds: ids.iter().fold(0, |sum, id| sum.wrapping_mul(31).wrapping_add(*id)),
        nodes: vec![v1::NodeBatch { node_type, ..v1::NodeBatch::default() }],
        ..v1::SampleResponse::default()
    }
}

#[async_trait]
impl SamplingService for Sampler {
    type SampleStream = Stream<v1::SampleResponse>;

    async fn sample(
        &self,
        request: Request<v1::SampleRequest>,
    ) -> Result<Response<Self::SampleStream>, Status> {
        let under_way = UnderWay::begin(&self.under_way);
        let name = request.metadata().get("x-name").cloned();
        let asked = request.into_inner();
        match asked.epoch {
            NEVER => std::future::pending::<()>().await,
            PANIC => panic!("as the test wants"),
            REFUSE => {
                let problem = Problem::argument("seed", "the seed is wrong").remedy("take another");
                return Err(problem.into());
            }
            _ => {}
        }
        let count = if asked.epoch == ENDLESS { u64::MAX } else { asked.batch_size.into() };
        let batches = tokio_stream::iter(0..count).map(move |number| {
            let _ = &under_way;
            Ok(batch(number, &asked))
        });
        let mut response = Response::new(Box::pin(batches) as Self::SampleStream);
        if let Some(name) = name {
            response.metadata_mut().insert("x-name", name);
        }
        Ok(response)
    }
}

/// A server of rings at a path.
pub struct Server {
    runtime: Runtime,
    sampler: Sampler,
    broken: Arc<Mutex<Vec<String>>>,
    end: Option<oneshot::Sender<()>>,
    work: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(path: &Path) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("runtime");
        let (sampler, broken) = (Sampler::default(), Arc::<Mutex<Vec<String>>>::default());
        let told = Arc::clone(&broken);
        let limits = RingLimits {
            broken: Arc::new(move |why| told.lock().expect("told").push(why.to_owned())),
            ..RingLimits::default()
        };
        let ring = Ring::bind(path, limits).expect("bound");
        let served = SamplingServiceServer::new(sampler.clone());
        let served = served.max_decoding_message_size(64 << 20);
        let reflection = ng_rpc::reflection().expect("reflection");
        let routes = Routes::new(served).add_service(reflection).prepare();
        let (end, ended) = oneshot::channel();
        let work = runtime.spawn(async move {
            ring.serve(routes, async { drop(ended.await) }).await.expect("served");
        });
        Self { runtime, sampler, broken, end: Some(end), work: Some(work) }
    }

    /// Ends when all has been answered.
    pub fn drain(mut self) {
        drop(self.end.take());
        let work = self.work.take().expect("once");
        let ended = self.runtime.block_on(async { tokio::time::timeout(LONG, work).await });
        ended.expect("in time").expect("ended");
    }

    /// Ends at once, without an answer.
    pub fn end_at_once(self) {
        self.runtime.shutdown_timeout(LONG);
    }

    /// Calls that began and did not end.
    pub fn under_way(&self) -> usize {
        self.sampler.under_way.load(Ordering::SeqCst)
    }

    /// Which rules clients broke.
    pub fn broken(&self) -> Vec<String> {
        self.broken.lock().expect("told").clone()
    }
}

/// Until it is dropped, no other test runs.
pub fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until something is so.
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LONG, "not within {LONG:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn client(channel: Channel) -> SamplingServiceClient<Channel> {
    SamplingServiceClient::new(channel)
        .max_decoding_message_size(1 << 30)
        .max_encoding_message_size(1 << 30)
}

/// A client of the server at a path.
pub fn at(path: &Path) -> SamplingServiceClient<Channel> {
    client(channel(&format!("shm:{}", path.display())).expect("address"))
}

pub fn ask(epoch: u64, batches: u32, bytes: u64) -> v1::SampleRequest {
    v1::SampleRequest { epoch, batch_size: batches, seed: bytes, ..v1::SampleRequest::default() }
}

/// All batches of an answer.
pub async fn all(
    client: &mut SamplingServiceClient<Channel>,
    asked: v1::SampleRequest,
) -> Result<Vec<v1::SampleResponse>, Status> {
    let mut answer = client.sample(asked).await?.into_inner();
    let mut batches = Vec::new();
    while let Some(batch) = answer.message().await? {
        batches.push(batch);
    }
    Ok(batches)
}

/// Descriptors, and threads of rings, that this process has.
pub fn held() -> (usize, usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("descriptors").count();
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads").flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    (descriptors, names.filter(|name| name.starts_with("ng-ring")).count())
}

/// Messages as their bytes.
pub struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
