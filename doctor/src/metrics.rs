//! Metrics of a service as they are scraped: OpenMetrics text, read as far as checks need it.

use std::collections::BTreeMap;

/// Samples in one text: those of a service with 1,024 profiles are fewer.
const SAMPLES_MAX: usize = 1_000_000;

/// Labels of one sample.
type Labels = BTreeMap<String, String>;

/// The samples of one scrape, by name.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    samples: BTreeMap<String, Vec<(Labels, f64)>>,
}

impl Metrics {
    /// Reads the text of a scrape. Lines that are no samples are skipped.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut samples: BTreeMap<String, Vec<(Labels, f64)>> = BTreeMap::new();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        for (name, labels, value) in lines.filter_map(sample).take(SAMPLES_MAX) {
            samples.entry(name.to_owned()).or_default().push((labels, value));
        }
        Self { samples }
    }

    /// The sum of the samples of this name with these labels; `None` where there are none.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let has = |found: &Labels| {
            labels.iter().all(|(label, value)| found.get(*label).is_some_and(|it| it == value))
        };
        let found: Vec<f64> = self.all(name).filter(|(it, _)| has(it)).map(|(_, v)| v).collect();
        (!found.is_empty()).then(|| found.iter().sum())
    }

    /// As [`Self::sum`], with 0 where there are none.
    pub(crate) fn count(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.sum(name, labels).unwrap_or(0.0)
    }

    /// The samples of this name.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = (&Labels, f64)> {
        self.samples.get(name).into_iter().flatten().map(|(labels, value)| (labels, *value))
    }

    /// The values of one label in samples above 0, each with their sum.
    pub(crate) fn by(&self, name: &str, label: &str) -> BTreeMap<&str, f64> {
        let mut sums = BTreeMap::new();
        for (labels, value) in self.all(name).filter(|(_, value)| *value > 0.0) {
            let of = labels.get(label).map_or("", String::as_str);
            *sums.entry(of).or_insert(0.0) += value;
        }
        sums
    }
}

/// `name{label="value"} 1`.
fn sample(line: &str) -> Option<(&str, Labels, f64)> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at_checked(end)?;
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Labels::new(), rest),
    };
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some((name, labels, value))
}

/// Labels up to the closing brace, and what follows it.
fn labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Labels::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, value) = rest.split_once("=\"")?;
        let mut text = String::new();
        let mut letters = value.char_indices();
        loop {
            match letters.next()? {
                (at, '"') => {
                    rest = value.get(at + 1..)?;
                    break;
                }
                (_, '\\') => match letters.next()?.1 {
                    'n' => text.push('\n'),
                    other => text.push(other),
                },
                (_, letter) => text.push(letter),
            }
        }
        labels.insert(name.to_owned(), text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read() {
        let text = "# HELP a b\n# TYPE a counter\na_total{x=\"1\",y=\"p}\\\"q\"} 2\na_total{x=\"2\",y=\"\"} 3.5 # {} 1\n\
                    b 7\nc{ 1\nd{x=\"} 1\ne nothing\n# EOF\n";
        let metrics = Metrics::read(text);
        assert_eq!(metrics.sum("a_total", &[]), Some(5.5));
        assert_eq!(metrics.sum("a_total", &[("y", "p}\"q")]), Some(2.0));
        assert_eq!(metrics.sum("a_total", &[("x", "3")]), None);
        assert_eq!(metrics.sum("b", &[]), Some(7.0));
        assert_eq!(
            metrics.by("a_total", "x").into_iter().collect::<Vec<_>>(),
            [("1", 2.0), ("2", 3.5)]
        );
        for name in ["c", "d", "e"] {
            assert_eq!(metrics.count(name, &[]), 0.0, "{name}");
        }
    }
}
