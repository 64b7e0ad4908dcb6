//! A series as a picture: SVG, which any browser shows and a reviewer can compare.

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 120.0;
const MARGIN: f64 = 44.0;

/// The plot of `(seconds, value)` under this name, with the ends of both axes.
pub(super) fn plot(name: &str, series: &[(f64, f64)]) -> String {
    let end = series.last().map_or(1.0, |look| look.0).max(1e-9);
    let high = series.iter().map(|look| look.1).fold(0.0, f64::max);
    // From zero: a wave of one percent must not look like a mountain.
    let top = if high > 0.0 { high * 1.1 } else { 1.0 };
    let points: Vec<String> = { series.iter() }
        .map(|(time, value)| {
            let x = MARGIN + time / end * (WIDTH - 2.0 * MARGIN);
            let y = HEIGHT - 20.0 - value / top * (HEIGHT - 44.0);
            format!("{x:.1},{y:.1}")
        })
        .collect();
    let (right, bottom, points) = (WIDTH - MARGIN, HEIGHT - 20.0, points.join(" "));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{MARGIN}\" y=\"14\">{name}</text>\n\
         <path d=\"M{MARGIN} 24V{bottom}H{right}\" fill=\"none\" stroke=\"#999\"/>\n\
         <text x=\"4\" y=\"30\">{top:.0}</text><text x=\"4\" y=\"{bottom}\">0</text>\n\
         <text x=\"{right}\" y=\"{HEIGHT}\" text-anchor=\"end\" dy=\"-4\">{end:.0} s</text>\n\
         <polyline points=\"{points}\" fill=\"none\" stroke=\"#06c\" stroke-width=\"1.5\"/>\n\
         </svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_look_is_a_point_within_the_picture() {
        let series: Vec<_> = (0..50).map(|at| (f64::from(at), f64::from(at % 7))).collect();
        let svg = plot("files", &series);
        let points = svg.split("points=\"").nth(1).and_then(|rest| rest.split('"').next());
        let points: Vec<(f64, f64)> = { points.unwrap_or_default().split(' ') }
            .filter_map(|point| point.split_once(','))
            .filter_map(|(x, y)| Some((x.parse().ok()?, y.parse().ok()?)))
            .collect();
        assert_eq!(points.len(), 50);
        assert!(
            points.iter().all(|(x, y)| (0.0..=WIDTH).contains(x) && (0.0..=HEIGHT).contains(y))
        );
        assert!(svg.contains(">files<") && svg.contains("49 s"));
        // Nothing to show is no reason to fail.
        assert!(plot("none", &[]).contains("polyline"));
    }
}
