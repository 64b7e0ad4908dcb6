//! Changes of a text that a grammar has made, token by token.

use crate::random::Random;

/// A text as a list of tokens.
pub type Tokens = Vec<Vec<u8>>;

/// How many changes a text gets: one of these. Most texts with several are rejected by every parser.
const CHANGES: &[usize] = &[0, 0, 0, 1, 1, 1, 1, 2, 2, 4];

/// Tokens of a text become the text.
#[must_use]
pub fn joined(tokens: &[Vec<u8>]) -> Vec<u8> {
    tokens.concat()
}

/// Changes `tokens` up to four times; `odd` has tokens that parsers of the format disagree about.
pub fn mutate(tokens: &mut Tokens, odd: &[&[u8]], random: &mut Random) {
    let changes = random.pick(CHANGES);
    for _ in 0..changes {
        change(tokens, odd, random);
    }
}

fn change(tokens: &mut Tokens, odd: &[&[u8]], random: &mut Random) {
    if tokens.is_empty() {
        return;
    }
    let at = random.below(tokens.len());
    let other = random.below(tokens.len());
    match random.below(14) {
        0 => drop(tokens.remove(at)),
        1 => {
            let token = tokens.get(at).cloned().unwrap_or_default();
            tokens.insert(other, token);
        }
        2 => tokens.swap(at, other),
        3 => {
            let token = tokens.remove(at);
            tokens.insert(other.min(tokens.len()), token);
        }
        4..=8 => tokens.insert(at, random.pick(odd).to_vec()),
        9 => {
            if let Some(token) = tokens.get_mut(at) {
                *token = random.pick(odd).to_vec();
            }
        }
        10 => tokens.truncate(at.max(1)),
        11 => change_case(tokens.get_mut(at), random),
        12 => change_byte(tokens.get_mut(at), random),
        _ => insert_within(tokens.get_mut(at), random.pick(odd), random),
    }
}

fn change_case(token: Option<&mut Vec<u8>>, random: &mut Random) {
    let Some(token) = token else { return };
    match random.below(3) {
        0 => token.make_ascii_uppercase(),
        1 => token.make_ascii_lowercase(),
        _ => {
            let at = random.below(token.len());
            if let Some(byte) = token.get_mut(at).filter(|byte| byte.is_ascii_alphabetic()) {
                *byte ^= 0x20;
            }
        }
    }
}

/// Bytes that formats give a meaning to.
const BYTES: &[u8] =
    b"\0\t\n\x0b\x0c\r \"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\x1e\x7f\x80\x85\xa0\xc0\xef\xfe\xff";

fn change_byte(token: Option<&mut Vec<u8>>, random: &mut Random) {
    let Some(token) = token else { return };
    let at = random.below(token.len());
    if let Some(byte) = token.get_mut(at) {
        *byte = random.pick(BYTES);
    }
}

fn insert_within(token: Option<&mut Vec<u8>>, odd: &[u8], random: &mut Random) {
    let Some(token) = token else { return };
    let at = random.below(token.len() + 1);
    token.splice(at..at, odd.iter().copied());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_follow_from_the_seed_and_change_something() {
        let tokens: Tokens = ["a", "=", "b"].map(|token| token.as_bytes().to_vec()).to_vec();
        let changed = |number| {
            let mut tokens = tokens.clone();
            mutate(&mut tokens, &[b";"], &mut Random::of(1, "", number));
            joined(&tokens)
        };
        assert_eq!(
            (0..50).map(changed).collect::<Vec<_>>(),
            (0..50).map(changed).collect::<Vec<_>>()
        );
        let different: std::collections::BTreeSet<_> = (0..500).map(changed).collect();
        assert!(different.len() > 100, "{}", different.len());
    }
}
