//! Whether a series grows: a straight line through it, how well that fits, and how often the series rises.

/// Below this growth over the whole run a series passes, in percent; from the next on it fails.
const WARN_PERCENT: f64 = 10.0;
const FAIL_PERCENT: f64 = 20.0;
/// Growth below so much is none, in the unit of the series: one file more is no leak, nor is a MiB.
const NOTHING: f64 = 2.0;

/// What is thought of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It grows by less than a tenth.
    Pass,
    /// By a tenth to a fifth.
    Warn,
    /// By more.
    Fail,
}

/// What a series does over time.
#[derive(Clone, Copy, Debug)]
pub struct Trend {
    /// Growth in an hour, by the line.
    pub slope_per_hour: f64,
    /// Growth from the first to the last look, by the line, in percent of where the line begins.
    pub growth_percent: f64,
    /// How well the line fits (the coefficient of determination): 1 is a straight line, 0 is none.
    pub r_squared: f64,
    /// The share of looks that were higher than the one before.
    pub rising: f64,
    /// What is thought of it.
    pub judgement: Judgement,
}

/// The trend of `(seconds, value)`; nothing for fewer than three.
///
/// The judgement is of the growth alone: a line that fits badly grows little, and a leak that comes in leaps fits
/// badly but grows.
pub fn trend(series: &[(f64, f64)]) -> Option<Trend> {
    let count = series.len() as f64;
    let (first, last) = (series.first()?, series.last()?);
    if series.len() < 3 {
        return None;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| series.iter().map(of).sum::<f64>() / count;
    let (mean_time, mean_value) = (mean(|look| look.0), mean(|look| look.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        series.iter().map(|(time, value)| of(time - mean_time, value - mean_value)).sum()
    };
    let (times, both, values) = (sum(&|t, _| t * t), sum(&|t, v| t * v), sum(&|_, v| v * v));
    let slope = if times > 0.0 { both / times } else { 0.0 };
    let r_squared = if times * values > 0.0 { both * both / (times * values) } else { 0.0 };
    let begins = mean_value + slope * (first.0 - mean_time);
    let growth = slope * (last.0 - first.0);
    let growth_percent = if begins > 0.0 { growth / begins * 100.0 } else { 0.0 };
    let rises = series.windows(2).filter(|pair| pair[1].1 > pair[0].1).count();
    let judgement = match growth_percent {
        _ if growth < NOTHING => Judgement::Pass,
        percent if percent < WARN_PERCENT => Judgement::Pass,
        percent if percent <= FAIL_PERCENT => Judgement::Warn,
        _ => Judgement::Fail,
    };
    let rising = rises as f64 / (count - 1.0);
    Some(Trend { slope_per_hour: slope * 3600.0, growth_percent, r_squared, rising, judgement })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A series of 100 looks, a second apart: what is thought of it, its growth in percent, its fit, its rises.
    #[track_caller]
    fn check(name: &str, value: impl Fn(u32) -> f64, wanted: (Judgement, f64, f64, f64)) {
        let series: Vec<_> = (0..100).map(|at| (f64::from(at), value(at))).collect();
        let trend = trend(&series).unwrap_or_else(|| unreachable!("{name}"));
        let (judgement, growth, fit, rising) = wanted;
        assert_eq!(trend.judgement, judgement, "{name}: {trend:?}");
        assert!((trend.growth_percent - growth).abs() < 0.6, "{name}: {trend:?}");
        assert!((trend.r_squared - fit).abs() < 0.05, "{name}: {trend:?}");
        assert!((trend.rising - rising).abs() < 0.02, "{name}: {trend:?}");
    }

    #[test]
    fn series_are_judged() {
        use Judgement::{Fail, Pass, Warn};
        let line = |percent: f64| move |at: u32| 100.0 + f64::from(at) * percent / 99.0;
        check("flat", |_| 100.0, (Pass, 0.0, 0.0, 0.0));
        check("a little", line(9.0), (Pass, 9.0, 1.0, 1.0));
        check("a tenth", line(11.0), (Warn, 11.0, 1.0, 1.0));
        check("a fifth", line(21.0), (Fail, 21.0, 1.0, 1.0));
        check("shrinking", line(-50.0), (Pass, -50.0, 1.0, 0.0));
        // Up and down, and nowhere.
        check("saw", |at| 100.0 + f64::from(at % 2) * 10.0, (Pass, 0.3, 0.0, 0.5));
        // Leaps: few rises, and a leak all the same.
        check("leaps", |at| 100.0 + f64::from(at / 25) * 20.0, (Fail, 80.0, 0.94, 0.03));
        // One file more of ten is a tenth, and nothing.
        check("one more", |at| 10.0 + f64::from(at / 50), (Pass, 15.2, 0.75, 0.01));
    }

    #[test]
    fn two_looks_are_no_trend() {
        assert!(trend(&[(0.0, 1.0), (1.0, 2.0)]).is_none());
    }
}
