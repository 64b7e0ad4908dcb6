//! A task that sends batches.

use core::{fmt, time::Duration};
use std::sync::Arc;

use http::uri::PathAndQuery;
use prost::Message;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, timeout, timeout_at},
};
use tonic::{Code, Request, Status, client::Grpc, transport::Channel};
use tonic_prost::ProstCodec;

use super::{
    Collector, CollectorError,
    message::{
        ExportResponse, KeyValue, LogRecord, LogsRequest, Resource, ResourceLogs, ResourceSpans,
        Scope, ScopeLogs, ScopeSpans, Span, TraceRequest,
    },
};
use crate::loss::{Loss, Losses, Reason, Room};

/// Things, and their bytes, that wait for the collector. What comes beyond that is lost, and counted.
const QUEUE_MAX: usize = 4_096;
const QUEUE_BYTES_MAX: usize = 16 << 20;

/// Things in one request, and their bytes: collectors accept 4 MiB unless told otherwise.
const BATCH_MAX: usize = 512;
const BATCH_BYTES_MAX: usize = 1 << 20;

/// How long a batch may wait for more.
const BATCH_WAIT: Duration = Duration::from_secs(1);

/// How often a batch is sent before it is given up, and the pause after the first time; it doubles.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);

/// What can be exported: log records and spans.
pub trait Signal: Message + Default + Sized + 'static {
    /// The request that carries a batch of them.
    type Batch: Message + Default + Clone + 'static;
    /// The method that takes it.
    const METHOD: &'static str;
    /// The name of the sink, in metrics.
    const SINK: &'static str;

    /// A batch, of this service and version.
    fn batch(items: Vec<Self>, service: &str, version: &str) -> Self::Batch;
}

impl Signal for LogRecord {
    type Batch = LogsRequest;
    const METHOD: &'static str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
    const SINK: &'static str = "otlp_logs";

    fn batch(log_records: Vec<Self>, service: &str, version: &str) -> LogsRequest {
        let scope_logs = vec![ScopeLogs { scope: Some(scope(version)), log_records }];
        let resource = Some(resource(service, version));
        LogsRequest { resource_logs: vec![ResourceLogs { resource, scope_logs }] }
    }
}

impl Signal for Span {
    type Batch = TraceRequest;
    const METHOD: &'static str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    const SINK: &'static str = "otlp_traces";

    fn batch(spans: Vec<Self>, service: &str, version: &str) -> TraceRequest {
        let scope_spans = vec![ScopeSpans { scope: Some(scope(version)), spans }];
        let resource = Some(resource(service, version));
        TraceRequest { resource_spans: vec![ResourceSpans { resource, scope_spans }] }
    }
}

fn resource(service: &str, version: &str) -> Resource {
    let pairs = [("service.name", service), ("service.version", version)];
    Resource { attributes: pairs.map(|(key, value)| KeyValue::new(key, value.into())).into() }
}

fn scope(version: &str) -> Scope {
    Scope { name: "glacis".to_owned(), version: version.to_owned() }
}

/// Sends things to a collector, in batches, from a task of its own: whoever hands one over never waits.
/// Clones are the same.
pub struct Exporter<T> {
    queue: mpsc::Sender<Item<T>>,
    room: Arc<Room>,
    loss: Arc<Loss>,
}

impl<T> Clone for Exporter<T> {
    fn clone(&self) -> Self {
        let Self { queue, room, loss } = self;
        Self { queue: queue.clone(), room: Arc::clone(room), loss: Arc::clone(loss) }
    }
}

impl<T> fmt::Debug for Exporter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

enum Item<T> {
    One(T, usize),
    /// To be answered once everything before it was sent, or given up.
    Flush(oneshot::Sender<()>),
}

impl<T: Signal> Exporter<T> {
    /// Starts the task, within a runtime. Whether the collector is there shows when there is something to
    /// send. `name` is what this service is called where `collector` does not say, `version` is its own.
    ///
    /// # Errors
    /// When the configuration makes no sense, a file it names cannot be read, or no thread be started.
    pub fn start(
        collector: &Collector,
        name: &str,
        version: &'static str,
        losses: &Losses,
    ) -> Result<Self, CollectorError> {
        let (queue, items) = mpsc::channel(QUEUE_MAX);
        let room = Arc::new(Room::new(QUEUE_BYTES_MAX));
        let loss = losses.sink(T::SINK)?;
        let task = Task {
            items,
            channel: collector.channel()?,
            limit: Duration::from_millis(collector.timeout_ms.into()),
            service: collector.service_name.as_deref().unwrap_or(name).to_owned(),
            version,
            room: Arc::clone(&room),
            loss: Arc::clone(&loss),
        };
        tokio::spawn(task.run());
        Ok(Self { queue, room, loss })
    }

    /// Hands something over. Never waits.
    pub fn send(&self, item: T) {
        let bytes = item.encoded_len();
        if !self.room.take(bytes) {
            return self.loss.add(Reason::Queue, 1, &"too many bytes wait for the collector");
        }
        if self.queue.try_send(Item::One(item, bytes)).is_err() {
            self.room.give_back(bytes);
            self.loss.add(Reason::Queue, 1, &"too much waits for the collector");
        }
    }

    /// Waits until what was handed over is sent, but no longer than `limit`.
    pub async fn flush(&self, limit: Duration) {
        let (done, waits) = oneshot::channel();
        // It ends by itself when the time is over.
        let _ = timeout(limit, async {
            if self.queue.send(Item::Flush(done)).await.is_ok() {
                let _ = waits.await;
            }
        })
        .await;
    }
}

/// What the task has.
struct Task<T> {
    items: mpsc::Receiver<Item<T>>,
    channel: Channel,
    limit: Duration,
    service: String,
    version: &'static str,
    room: Arc<Room>,
    loss: Arc<Loss>,
}

impl<T: Signal> Task<T> {
    /// Until nobody can hand over anything any more.
    async fn run(mut self) {
        while let Some(first) = self.items.recv().await {
            let (batch, flush) = self.collect(first).await;
            if !batch.is_empty() {
                self.export(batch).await;
            }
            if let Some(done) = flush {
                // Who waited for it may have gone.
                let _ = done.send(());
            }
        }
    }

    /// What comes within the time that a batch waits, up to a batch.
    async fn collect(&mut self, first: Item<T>) -> (Vec<T>, Option<oneshot::Sender<()>>) {
        let until = Instant::now() + BATCH_WAIT;
        let (mut batch, mut batch_bytes, mut next) = (Vec::new(), 0_usize, Some(first));
        while let Some(item) = next.take() {
            match item {
                Item::One(item, bytes) => {
                    self.room.give_back(bytes);
                    batch_bytes = batch_bytes.saturating_add(bytes);
                    batch.push(item);
                }
                Item::Flush(done) => return (batch, Some(done)),
            }
            if batch.len() < BATCH_MAX && batch_bytes < BATCH_BYTES_MAX {
                next = timeout_at(until, self.items.recv()).await.ok().flatten();
            }
        }
        (batch, None)
    }

    async fn export(&self, batch: Vec<T>) {
        let count = batch.len();
        let request = T::batch(batch, &self.service, self.version);
        let mut pause = PAUSE;
        for attempt in 1..=ATTEMPTS {
            match self.send(request.clone()).await {
                Ok(response) => return self.partly(response),
                Err(status) if attempt == ATTEMPTS || !is_passing(status.code()) => {
                    return self.loss.add(Reason::Export, count, &status);
                }
                Err(_) => {}
            }
            sleep(pause).await;
            pause *= 2;
        }
    }

    async fn send(&self, request: T::Batch) -> Result<ExportResponse, Status> {
        let mut client = Grpc::new(self.channel.clone());
        let exported = async {
            let unavailable =
                |error: tonic::transport::Error| Status::unavailable(error.to_string());
            client.ready().await.map_err(unavailable)?;
            let codec = ProstCodec::<T::Batch, ExportResponse>::default();
            let method = PathAndQuery::from_static(T::METHOD);
            client.unary(Request::new(request), method, codec).await
        };
        let late = |_| Status::deadline_exceeded("the collector took longer than timeout_ms");
        Ok(timeout(self.limit, exported).await.map_err(late)??.into_inner())
    }

    /// Counts what the collector says that it has not taken.
    fn partly(&self, response: ExportResponse) {
        let Some(partial) = response.partial_success else { return };
        let rejected = usize::try_from(partial.rejected).unwrap_or(0);
        if rejected > 0 {
            self.loss.add(Reason::Export, rejected, &partial.error_message);
        }
    }
}

/// Whether trying again makes sense, by the OTLP specification.
const fn is_passing(code: Code) -> bool {
    matches!(
        code,
        Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unavailable
            | Code::DataLoss
            | Code::ResourceExhausted
    )
}
