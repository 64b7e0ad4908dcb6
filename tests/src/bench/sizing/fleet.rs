//! What a fleet needs for the mix, and which bound it meets first.

use super::Point;

/// Requests a second of the fleets.
const FLEETS: [f64; 2] = [100_000.0, 1_000_000.0];
/// How busy processors may be in ordinary times.
const BUSY: f64 = 0.6;
/// Processors of one replica, of Envoy and of ext-proc.
const REPLICA: f64 = 4.0;
/// Bounds of ext-proc as it is shipped: `max_streams` and `deadline_ms`.
const STREAMS_MAX: f64 = 4096.0;
const DEADLINE_SECONDS: f64 = 0.4;
/// Seconds between two probes of an Envoy, in our files.
const PROBE_SECONDS: f64 = 0.5;
/// Round trips to the lender for each request that is limited (`limits/src/lease/simulation.rs`: 1,000 Envoys, a million keys).
const LEASES_EACH: f64 = 0.0077;
/// Bytes of a line of the access log of `envoy-configs/quickstart`.
const LOG_BYTES: f64 = 700.0;

/// Tables of what is needed, from the mix where it was run, else from pages.
pub(super) fn text(curves: &[Point], mix: &[Point]) -> String {
    let mut found = best(mix);
    let source = if found.is_empty() {
        found.extend(curves.iter().find(|point| point.stack == "crs").cloned());
        "pages only: `barbacana` was not run"
    } else {
        "the mix, at the highest rate that was held"
    };
    let mut text = format!(
        "\n## Fleets\n\nFrom {source}. Processors that are {:.0} % busy; replicas of {REPLICA} processors each.\n\n",
        BUSY * 100.0
    );
    text.push_str(
        "| req/s | stack | processors, Envoy | processors, ext-proc | replicas, Envoy | replicas, ext-proc | memory at most, GiB |\n\
         |--:|---|--:|--:|--:|--:|--:|\n",
    );
    let needs: Vec<Need> =
        FLEETS.iter().flat_map(|rate| found.iter().map(|point| Need::of(*rate, point))).collect();
    needs.iter().for_each(|need| text.push_str(&need.line()));
    text.push_str("\n## Bounds\n\n");
    text.push_str(
        "| req/s | stack | streams at an ext-proc, late | of `max_streams` | probes/s at an ext-proc | asks/s at a lender | \
         access log, MB/s |\n|--:|---|--:|--:|--:|--:|--:|\n",
    );
    needs.iter().for_each(|need| text.push_str(&need.bounds()));
    text.push_str(
        "\n`late`: when everything takes as long as the deadline allows. At a lender: where each request is limited by a lease.\n",
    );
    text
}

/// Of each stack of ours the highest rate that was held.
fn best(mix: &[Point]) -> Vec<Point> {
    let mut best: Vec<Point> = Vec::new();
    let ours = |point: &&Point| point.held && point.envoy.us > 0.0 && point.ext_proc.us > 0.0;
    for point in mix.iter().filter(ours) {
        match best.iter_mut().find(|other| other.stack == point.stack) {
            Some(other) if point.per_second > other.per_second => *other = point.clone(),
            Some(_) => {}
            None => best.push(point.clone()),
        }
    }
    best
}

/// What a fleet needs.
struct Need {
    rate: f64,
    stack: String,
    envoy: f64,
    ext_proc: f64,
    memory_gib: f64,
}

impl Need {
    fn of(rate: f64, point: &Point) -> Self {
        let processors = |us: f64| rate * us / 1e6 / BUSY;
        let (envoy, ext_proc) = (processors(point.envoy.us), processors(point.ext_proc.us));
        // What was measured had one thread; what threads share is counted for each here.
        let memory =
            REPLICA * (replicas(envoy) * point.envoy.mib + replicas(ext_proc) * point.ext_proc.mib);
        Self { rate, stack: point.stack.clone(), envoy, ext_proc, memory_gib: memory / 1024.0 }
    }

    fn line(&self) -> String {
        format!(
            "| {:.0} | {} | {:.1} | {:.1} | {:.0} | {:.0} | {:.1} |\n",
            self.rate,
            self.stack,
            self.envoy,
            self.ext_proc,
            replicas(self.envoy),
            replicas(self.ext_proc),
            self.memory_gib,
        )
    }

    fn bounds(&self) -> String {
        let late = self.rate / replicas(self.ext_proc) * DEADLINE_SECONDS;
        format!(
            "| {:.0} | {} | {late:.0} | {:.0} % | {:.0} | {:.0} | {:.0} |\n",
            self.rate,
            self.stack,
            late / STREAMS_MAX * 100.0,
            replicas(self.envoy) / PROBE_SECONDS,
            self.rate * LEASES_EACH,
            self.rate * LOG_BYTES / 1e6,
        )
    }
}

fn replicas(processors: f64) -> f64 {
    (processors / REPLICA).ceil().max(1.0)
}
