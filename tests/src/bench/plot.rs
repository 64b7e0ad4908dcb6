//! SVG without a library: bars for what was seen of a part, one for each stack and load, and lines for curves.

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
    let place = |ms: f64| share(ms, least, most);
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
        let proxy = row.measured().filter(|account| !account.process.ends_with("ext-proc"));
        let proxy: f64 = proxy.map(|account| row.us_each(account)).sum();
        let number = format!("{:.0} us", row.cpu_us());
        Bar { label: label(row), long: row.cpu_us() / most, short: proxy / most, number }
    });
    svg(&format!("{title}; CPU time each, dark: the proxy"), &bars.collect::<Vec<_>>())
}

/// What a line shows of each row.
type Of = fn(&Row) -> f64;

const CURVE_WIDTH: f64 = 640.0;
const CURVE_HEIGHT: f64 = 300.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 40.0;
const BASE: f64 = 250.0;
const CURVE_TOP: f64 = 60.0;

/// A line for each of: median, 99th percentile (both in milliseconds), CPU time each (in milliseconds), over where on the
/// curve it was seen. Both axes are logarithmic.
pub fn curve(title: &str, points: &[(f64, &Row)]) -> String {
    let lines: [(&str, &str, Of); 3] = [
        ("p50 ms", "#3182bd", |row| row.p50_ms),
        ("p99 ms", "#9ecae1", |row| row.p99_ms),
        ("CPU ms each", "#e6550d", |row| row.cpu_us() / 1e3),
    ];
    let values = points.iter().flat_map(|(_, row)| lines.map(|(.., value)| value(row)));
    let (least, most) = ends(values);
    let (first, last) = ends(points.iter().map(|(at, _)| *at));
    let x = |at: f64| LEFT + share(at, first, last) * (CURVE_WIDTH - LEFT - RIGHT);
    let y = |value: f64| BASE - share(value, least, most) * (BASE - CURVE_TOP);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{CURVE_WIDTH}\" height=\"{CURVE_HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"24\" font-size=\"14\">{}; both axes logarithmic</text>\n\
         <path d=\"M{LEFT} {CURVE_TOP}V{BASE}H{}\" fill=\"none\" stroke=\"#999\"/>\n\
         <text x=\"4\" y=\"{CURVE_TOP}\">{most:.2}</text><text x=\"4\" y=\"{BASE}\">{least:.2}</text>\n",
        escaped(title),
        CURVE_WIDTH - RIGHT,
    );
    for (at, _) in points {
        text.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{at}</text>\n",
            x(*at),
            BASE + 18.0
        ));
    }
    for (number, (name, colour, value)) in lines.into_iter().enumerate() {
        let mut line: Vec<(f64, f64)> =
            points.iter().map(|(at, row)| (x(*at), y(value(row)))).collect();
        line.sort_by(|one, other| one.0.total_cmp(&other.0));
        let line: Vec<String> = line.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        text.push_str(&format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n\
             <text x=\"{}\" y=\"44\" fill=\"{colour}\">{name}</text>\n",
            line.join(" "),
            LEFT + 120.0 * number as f64,
        ));
    }
    text + "</svg>\n"
}

/// The least and the most above zero.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let ends = values
        .filter(|value| *value > 0.0)
        .fold((f64::MAX, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
    if ends.1 > 0.0 { ends } else { (1.0, 1.0) }
}

/// Where a value is between two others, on a logarithmic scale.
fn share(value: f64, least: f64, most: f64) -> f64 {
    ((value.max(least) / least).ln() / (most / least).ln().max(1e-9)).clamp(0.0, 1.0)
}

fn label(row: &Row) -> String {
    match row.tool {
        "ours" => format!("{}, {}", row.stack, row.load()),
        tool => format!("{}, {}, {tool}", row.stack, row.load()),
    }
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
