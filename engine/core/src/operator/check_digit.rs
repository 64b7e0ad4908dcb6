//! The check digits of `@verifyCC`, `@verifyCPF`, `@verifySSN`, `@verifySVNR` and `@validateNid`.
//!
//! Each takes what the operator's pattern matched; bytes that are no digits are separators.
//! Source: ModSecurity 3's operators of the same names; `@validateNid` is Coraza's.

/// The digits of a text.
fn digits(text: &[u8]) -> impl DoubleEndedIterator<Item = u32> {
    text.iter().filter(|byte| byte.is_ascii_digit()).map(|digit| u32::from(digit - b'0'))
}

/// The first `N` digits of a text, if there are so many.
fn leading_digits<const N: usize>(text: &[u8]) -> Option<[u32; N]> {
    let mut found = [0; N];
    let mut source = digits(text);
    for place in &mut found {
        *place = source.next()?;
    }
    Some(found)
}

/// How often a digit is followed by one that is `step` higher.
fn steps(digits: &[u32], step: u32) -> usize {
    digits.windows(2).filter(|pair| matches!(pair, [a, b] if a + step == *b)).count()
}

/// A number that someone typed to fill a field: one digit throughout, or counting up from 0.
fn is_filler(digits: &[u32]) -> bool {
    steps(digits, 0) + 1 == digits.len()
        || digits.iter().zip(0..).all(|(&digit, n)| digit == n % 10)
}

/// Payment cards: ISO/IEC 7812-1 (Luhn). Any number of digits but none.
pub(crate) fn luhn(number: &[u8]) -> bool {
    let mut length = 0_u64;
    let mut sum = 0_u64;
    for digit in digits(number).rev() {
        let weighted = if length.is_multiple_of(2) {
            digit
        } else {
            digit * 2 - if digit > 4 { 9 } else { 0 }
        };
        sum += u64::from(weighted);
        length += 1;
    }
    length > 0 && sum.is_multiple_of(10)
}

/// Brazil's CPF: eleven digits, of which the last two check the others modulo 11.
pub(crate) fn cpf(number: &[u8]) -> bool {
    let Some(digits) = leading_digits::<11>(number) else { return false };
    if is_filler(&digits) {
        return false;
    }
    let [body @ .., first, second] = digits;
    let check = |digits: &mut dyn Iterator<Item = u32>, highest: u32| {
        let sum: u32 = digits.zip((2..=highest).rev()).map(|(digit, weight)| digit * weight).sum();
        if sum % 11 < 2 { 0 } else { 11 - sum % 11 }
    };
    check(&mut body.into_iter(), 10) == first
        && check(&mut body.into_iter().chain([first]), 11) == second
}

/// US Social Security numbers: nine digits in a form that was ever assigned. There is no check
/// digit; area 000, 666 and from 740 on, group 00 and serial 0000 do not occur.
pub(crate) fn ssn(number: &[u8]) -> bool {
    let Some(found) = leading_digits::<9>(number) else { return false };
    if digits(number).count() != found.len() || steps(&found, 0) == 8 || steps(&found, 1) == 8 {
        return false;
    }
    let [a, b, c, d, e, serial @ ..] = found;
    let area = a * 100 + b * 10 + c;
    let group_is_zero = d + e == 0;
    let serial_is_zero = serial.iter().all(|&digit| digit == 0);
    area != 0 && area != 666 && area < 740 && !group_is_zero && !serial_is_zero
}

/// Austria's SVNR: ten digits, the fourth of which checks the others modulo 11.
///
/// Departure: ModSecurity's list of fillers is cut off before eights and nines, which then pass.
pub(crate) fn svnr(number: &[u8]) -> bool {
    const WEIGHTS: [u32; 10] = [3, 7, 9, 0, 5, 8, 4, 2, 1, 6];
    let Some(digits) = leading_digits::<10>(number) else { return false };
    if is_filler(&digits) || digits == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0] {
        return false;
    }
    let sum: u32 = digits.iter().zip(WEIGHTS).map(|(digit, weight)| digit * weight).sum();
    let [_, _, _, check, ..] = digits;
    sum % 11 % 10 == check
}

/// Chile's RUT: seven or eight digits, and a digit or `k` that checks them modulo 11.
pub(crate) fn rut(number: &[u8]) -> bool {
    const CHECKS: &[u8; 11] = b"0123456789k";
    let counts = |byte: &u8| byte.is_ascii_digit() || byte.eq_ignore_ascii_case(&b'k');
    let mut last = number.iter().rev().filter(|byte| counts(byte));
    let Some(check) = last.next() else { return false };
    let mut sum = 0;
    let mut length = 0;
    for (digit, weight) in last.zip((2..=7).cycle()) {
        if !digit.is_ascii_digit() || length == 8 {
            return false;
        }
        sum += u32::from(digit - b'0') * weight;
        length += 1;
    }
    let expected = CHECKS.get((11 - sum as usize % 11) % 11);
    length >= 7 && expected == Some(&check.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::{cpf, luhn, rut, ssn, svnr};

    #[track_caller]
    fn check(verify: fn(&[u8]) -> bool, number: &str, valid: bool) {
        assert_eq!(verify(number.as_bytes()), valid, "{number}");
    }

    #[test]
    fn cards() {
        check(luhn, "4111 1111 1111 1111", true);
        check(luhn, "4111-1111-1111-1112", false);
        check(luhn, "378282246310005", true);
        check(luhn, "378282246310006", false);
        check(luhn, "5500000000000004", true);
        check(luhn, "5500000000000040", false);
        check(luhn, "0", true);
        check(luhn, "18", true);
        check(luhn, "91", true);
        check(luhn, "81", false);
        check(luhn, "", false);
        check(luhn, "no digits", false);
    }

    #[test]
    fn cpfs() {
        check(cpf, "529.982.247-25", true);
        check(cpf, "52998224725", true);
        check(cpf, "529.982.247-26", false);
        check(cpf, "529.982.247-15", false);
        check(cpf, "010.817.514-60", true);
        check(cpf, "111.111.111-11", false);
        check(cpf, "012.345.678-90", false);
        check(cpf, "529.982.247-2", false);
        check(cpf, "529982247250", true);
        check(cpf, "", false);
        check(cpf, "529.982\0.247-25", true);
    }

    #[test]
    fn ruts() {
        check(rut, "12.345.678-5", true);
        check(rut, "12345678-5", true);
        check(rut, "12345678-6", false);
        check(rut, "6.543.210-k", false);
        check(rut, "6.543.210-2", true);
        check(rut, "7654321-6", true);
        check(rut, "20.347.878-k", true);
        check(rut, "20347878K", true);
        check(rut, "20347878k0", false);
        check(rut, "123456-0", false);
        check(rut, "123456785-0", false);
        check(rut, "k", false);
        check(rut, "", false);
    }

    #[test]
    fn ssns() {
        check(ssn, "123-45-6788", true);
        check(ssn, "123-45-6789", false);
        check(ssn, "111-11-1111", false);
        check(ssn, "000-45-6788", false);
        check(ssn, "666-45-6788", false);
        check(ssn, "739-45-6788", true);
        check(ssn, "740-45-6788", false);
        check(ssn, "123-00-6788", false);
        check(ssn, "123-45-0000", false);
        check(ssn, "123-45-678", false);
        check(ssn, "123-45-67880", false);
    }

    #[test]
    fn svnrs() {
        check(svnr, "1237 010180", true);
        check(svnr, "1238 010180", false);
        check(svnr, "1237 010181", false);
        check(svnr, "8888888888", false);
        check(svnr, "9999999999", false);
        check(svnr, "1111111111", false);
        check(svnr, "123701018", false);
    }
}
