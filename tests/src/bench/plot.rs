//! Bars as SVG, without a library: what was seen of a part, a bar for each stack and load.

use super::measure::Row;

const WIDTH: f64 = 900.0;
const LABEL_WIDTH: f64 = 330.0;
const NUMBER_WIDTH: f64 = 110.0;
const BAR_HEIGHT: f64 = 16.0;
const STEP: f64 = 24.0;
const TOP: f64 = 50.0;

/// The median and the 99th percentile of each, on a logarithmic scale: they differ by orders of magnitude.
pub fn latency(title: &str, rows: &[&Row]) -> String {
    let most = rows.iter().map(|row| row.p99_ms).fold(0.1, f64::max);
    let least = rows.iter().map(|row| row.p50_ms).filter(|ms| *ms > 0.0).fold(most, f64::min) / 2.0;
    let place =
        |ms: f64| ((ms.max(least) / least).ln() / (most / least).ln().max(1e-9)).clamp(0.0, 1.0);
    let bars = rows.iter().map(|row| Bar {
        label: label(row),
        long: place(row.p99_ms),
        short: place(row.p50_ms),
        number: format!("{:.2}, {:.2} ms", row.p50_ms, row.p99_ms),
    });
    svg(&format!("{title}; median and 99th percentile, logarithmic"), &bars.collect::<Vec<_>>())
}

/// CPU time for each request; the dark part is that of the proxy alone.
pub fn cpu(title: &str, rows: &[&Row]) -> String {
    let most = rows.iter().map(|row| row.cpu_us()).fold(1e-9, f64::max);
    let bars = rows.iter().map(|row| {
        let proxy = row.measured().filter(|account| account.process != "ext-proc");
        let proxy = proxy.map(|account| account.cpu_seconds).sum::<f64>() * 1e6
            / row.answered.max(1) as f64;
        let number = format!("{:.0} us", row.cpu_us());
        Bar { label: label(row), long: row.cpu_us() / most, short: proxy / most, number }
    });
    svg(&format!("{title}; CPU time each, dark: the proxy"), &bars.collect::<Vec<_>>())
}

fn label(row: &Row) -> String {
    format!("{}, {}", row.stack, row.load())
}

/// A bar with a darker one in it; lengths from 0 to 1.
struct Bar {
    label: String,
    long: f64,
    short: f64,
    number: String,
}

fn svg(title: &str, bars: &[Bar]) -> String {
    let height = TOP + STEP * bars.len() as f64 + 10.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"10\" y=\"24\" \
         font-size=\"14\">{}</text>\n",
        escaped(title)
    );
    let room = WIDTH - LABEL_WIDTH - NUMBER_WIDTH;
    for (number, bar) in bars.iter().enumerate() {
        let y = TOP + STEP * number as f64;
        let base = y + BAR_HEIGHT - 3.0;
        text.push_str(&format!(
            "<text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{}</text>\n",
            LABEL_WIDTH - 8.0,
            escaped(&bar.label)
        ));
        for (length, colour) in [(bar.long, "#9ecae1"), (bar.short, "#3182bd")] {
            let width = (length * room).max(1.0);
            text.push_str(&format!(
                "<rect x=\"{LABEL_WIDTH}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR_HEIGHT}\" fill=\"{colour}\"/>\n"
            ));
        }
        let x = LABEL_WIDTH + (bar.long * room).max(1.0) + 6.0;
        text.push_str(&format!(
            "<text x=\"{x:.1}\" y=\"{base}\">{}</text>\n",
            escaped(&bar.number)
        ));
    }
    text + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}
