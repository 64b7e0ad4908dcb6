//! Wildcards in one component of a path: `*`, `?`, `[a-z]`, `[!a-z]`.
//!
//! As in Apache's `Include`, a wildcard does not match the dot at the beginning of a hidden file's
//! name. That also keeps the `..data` folder of a mounted Kubernetes ConfigMap from being read twice.

/// Whether `pattern` has a wildcard at all.
pub(crate) fn has_wildcard(pattern: &str) -> bool {
    pattern.contains(['*', '?', '['])
}

/// Whether `pattern` stands for `name`. Takes time in the product of both lengths at most.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut seen) = (0, 0);
    // Where to go on when what follows the last `*` does not fit: that `*` then takes one more.
    let mut retry: Option<(usize, usize)> = None;
    while let Some(&letter) = name.get(seen) {
        if pattern.get(at) == Some(&'*') {
            retry = Some((at + 1, seen));
            at += 1;
        } else if let Some(length) = one(pattern.get(at..).unwrap_or_default(), letter) {
            at += length;
            seen += 1;
        } else if let Some((after_star, taken)) = retry {
            retry = Some((after_star, taken + 1));
            (at, seen) = (after_star, taken + 1);
        } else {
            return false;
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|&rest| rest == '*')
}

/// How many characters of `pattern` stand for the one `letter`; `None` when they do not.
fn one(pattern: &[char], letter: char) -> Option<usize> {
    match *pattern.first()? {
        '?' => Some(1),
        '[' => match class(pattern, letter) {
            Some((found, length)) => found.then_some(length),
            // A bracket that is not closed is an ordinary character.
            None => (letter == '[').then_some(1),
        },
        plain => (plain == letter).then_some(1),
    }
}

/// Whether the class at the start of `pattern` has `letter`, and how long the class is.
fn class(pattern: &[char], letter: char) -> Option<(bool, usize)> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let first = 1 + usize::from(negated);
    // A closing bracket that comes first is a member.
    let close = first + 1 + pattern.get(first + 1..)?.iter().position(|&c| c == ']')?;
    let mut members = pattern.get(first..close)?;
    let mut found = false;
    while let Some(&low) = members.first() {
        let (high, length) = match members {
            [_, '-', high, ..] => (*high, 3),
            _ => (low, 1),
        };
        found |= (low..=high).contains(&letter);
        members = members.get(length..).unwrap_or_default();
    }
    Some((found != negated, close + 1))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        let table = [
            ("*.conf", "a.conf", true),
            ("*.conf", ".conf", false),
            ("*.conf", "a.conf.example", false),
            (".*", ".hidden", true),
            ("*", "..data", false),
            ("REQUEST-9??-*.conf", "REQUEST-942-SQLI.conf", true),
            ("REQUEST-9??-*.conf", "REQUEST-42-SQLI.conf", false),
            ("a[0-9b]c", "a5c", true),
            ("a[0-9b]c", "abc", true),
            ("a[0-9b]c", "acc", false),
            ("a[!0-9]c", "a5c", false),
            ("a[^0-9]c", "axc", true),
            ("a[]]c", "a]c", true),
            ("a[bc", "a[bc", true),
            ("a[bc", "abc", false),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxxd", false),
            ("a", "ab", false),
            ("ab", "a", false),
            ("a**", "a", true),
            ("?", "é", true),
        ];
        for (pattern, name, expected) in table {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_take_bounded_time() {
        assert!(!matches(&"*a".repeat(100), &"a".repeat(255).replace("aaa", "aab")));
    }
}
