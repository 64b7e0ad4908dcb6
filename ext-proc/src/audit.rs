//! Where audit records go: standard output, a file, a collector. Whoever hands one over never waits.

use core::{fmt, time::Duration};
use std::{io, sync::Arc};

use glacis_inspector::{OBSERVED, Receipt};
use glacis_service::{
    Losses,
    otlp::{CollectorError, Exporter, LogRecord, SeverityNumber},
    sink::{FileError, LineSink, RotatedFile},
};
use tokio::signal::unix::{SignalKind, signal};

use crate::{PROGRAM, config::Config, trace::SpanContext};

/// The sinks. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct AuditLog {
    stdout: Option<LineSink>,
    file: Option<LineSink>,
    collector: Option<Exporter<LogRecord>>,
}

/// An audit log that cannot be written.
#[derive(Debug)]
pub struct AuditError(Box<dyn core::error::Error + Send + Sync>);

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "audit: {}", self.0)
    }
}

impl core::error::Error for AuditError {}

impl From<io::Error> for AuditError {
    fn from(error: io::Error) -> Self {
        Self(error.into())
    }
}

impl From<FileError> for AuditError {
    fn from(error: FileError) -> Self {
        Self(error.into())
    }
}

impl From<CollectorError> for AuditError {
    fn from(error: CollectorError) -> Self {
        Self(error.into())
    }
}

impl AuditLog {
    /// The sinks that `config` names, which may be none; what they lose is counted in `losses`. To be
    /// called within a runtime.
    ///
    /// # Errors
    /// When the file cannot be opened, no thread be started, or the collector makes no sense.
    pub fn start(config: &Config, losses: &Losses) -> Result<Self, AuditError> {
        let audit = &config.audit;
        let stdout = audit.stdout.then(|| LineSink::stdout(losses)).transpose()?;
        let file = match &audit.file {
            Some(path) => {
                let file = RotatedFile::open(path, audit.rotation())?;
                Some(LineSink::file(file, losses)?)
            }
            None => None,
        };
        let version = env!("CARGO_PKG_VERSION");
        let exporter = || Exporter::start(&config.otlp, PROGRAM, version, losses);
        let collector = audit.otlp.then(exporter).transpose()?;
        let log = Self { stdout, file, collector };
        log.reopen_at_hangup()?;
        Ok(log)
    }

    /// At SIGHUP the file is opened anew, as whoever rotates logs expects it.
    fn reopen_at_hangup(&self) -> io::Result<()> {
        let Some(file) = self.file.clone() else { return Ok(()) };
        let mut hangups = signal(SignalKind::hangup())?;
        tokio::spawn(async move {
            while hangups.recv().await.is_some() {
                file.reopen();
            }
        });
        Ok(())
    }

    /// Hands over a record, with the receipt where it is that of an exchange. `now` is the time since 1970.
    pub(crate) fn write(
        &self,
        record: String,
        receipt: Option<&Receipt<'_>>,
        span: Option<SpanContext>,
        now: Duration,
    ) {
        if let Some(collector) = &self.collector {
            collector.send(log_record(&record, receipt, span, now));
        }
        let record: Arc<str> = record.into();
        for sink in [&self.stdout, &self.file].into_iter().flatten() {
            sink.write(Arc::clone(&record));
        }
    }

    /// Waits until what was handed over is written, but no longer than `limit` for each sink.
    pub async fn flush(&self, limit: Duration) {
        if let Some(collector) = &self.collector {
            collector.flush(limit).await;
        }
        // It is the end of the process, and nobody else needs this thread; there may be no memory for another.
        for sink in [&self.stdout, &self.file].into_iter().flatten() {
            sink.flush(limit);
        }
    }
}

/// The record as it stands in lines, with what one looks for beside it.
fn log_record(
    record: &str,
    receipt: Option<&Receipt<'_>>,
    span: Option<SpanContext>,
    now: Duration,
) -> LogRecord {
    let passed = receipt.is_some_and(|it| matches!(it.verdict, "allow" | "pending" | OBSERVED));
    let severity = if passed { SeverityNumber::Info } else { SeverityNumber::Warn };
    let nanos = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    let log_record = LogRecord::new("glacis.audit", nanos, severity, record);
    let log_record = match receipt {
        Some(receipt) => log_record
            .with("glacis.verdict", receipt.verdict.into())
            .with("glacis.profile", receipt.profile.into())
            .with("glacis.request_id", receipt.request_id.into()),
        None => log_record,
    };
    match span {
        Some(SpanContext { trace, span }) => log_record.of_span(trace, span),
        None => log_record,
    }
}
