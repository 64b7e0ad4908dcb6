//! The units of time in which requests are counted.

use core::fmt;

/// A unit of time. Its windows begin at multiples of its length since 1970, as those of envoyproxy/ratelimit
/// do: a month is 30 days, a year 365.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

const DAY: u32 = 86_400;

impl Unit {
    const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// The unit of this name, in any case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name))
    }

    /// The unit of this number in `RateLimitResponse.RateLimit.Unit` and in `RateLimitUnit`, which are the
    /// same.
    pub(crate) fn numbered(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.number() == number)
    }

    /// Its number there.
    pub(crate) const fn number(self) -> i32 {
        match self {
            Self::Second => 1,
            Self::Minute => 2,
            Self::Hour => 3,
            Self::Day => 4,
            Self::Week => 7,
            Self::Month => 5,
            Self::Year => 6,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// Its length in seconds.
    pub(crate) const fn seconds(self) -> u32 {
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => DAY,
            Self::Week => 7 * DAY,
            Self::Month => 30 * DAY,
            Self::Year => 365 * DAY,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::{
        service::ratelimit::v3::rate_limit_response::rate_limit, r#type::v3::RateLimitUnit,
    };

    use super::*;

    #[test]
    fn numbers_are_those_of_the_protocol() {
        for unit in Unit::ALL {
            let name = unit.name().to_ascii_uppercase();
            let number = unit.number();
            assert_eq!(rate_limit::Unit::from_str_name(&name).map(i32::from), Some(number));
            // Our copy of that one is of a time before weeks.
            let known = RateLimitUnit::from_str_name(&name).map(i32::from);
            assert_eq!(known.unwrap_or(7), number);
            assert_eq!(Unit::numbered(number), Some(unit));
            assert_eq!(Unit::named(&name), Some(unit));
        }
        assert_eq!(Unit::numbered(0), None);
        assert_eq!(Unit::named("fortnight"), None);
    }
}
