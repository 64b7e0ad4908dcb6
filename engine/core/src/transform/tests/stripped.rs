//! What [`crate::scan`] takes of values before they are transformed.

use crate::{
    scan::{ByteSet, Marks, stripped},
    transform::TABLE,
    xorshift::Xorshift,
};

const PIECES: &[&[u8]] = &[
    b"a",
    b"Select",
    b" ",
    b"\t",
    b"\n",
    b"\x0B",
    b"\0",
    b"\"",
    b"'",
    b"\\",
    b"^",
    b",",
    b";",
    b"+",
    b"%",
    b"%41",
    b"%u0041",
    b"%2",
    b"&",
    b"&lt;",
    b"&#65;",
    b"&AMP",
    b"/",
    b"*",
    b"/*",
    b"*/",
    b"(",
    b"..",
    b"\xA0",
    b"\xC2\xA0",
    b"\xC3\xA4",
    b"u",
    b"4",
    b"-",
    b"--",
    b"#",
    b"<",
    b"x",
    b"lt",
    b"\\x41",
    b"0x41",
];

/// The law, for each transformation and for chains of them.
#[test]
fn what_is_kept_is_the_same_once_stripped() {
    let mut random = Xorshift(0x5DEE_CE66_D123_4567);
    let mut kept = vec![0; TABLE.len()];
    for _ in 0..20_000 {
        let value: Vec<u8> = (0..random.below(9))
            .flat_map(|_| PIECES[random.below(PIECES.len())])
            .copied()
            .collect();
        let before = stripped(&value).to_ascii_lowercase();
        let marks = Marks::new(&stripped(&value), ByteSet::of(&value));
        let mut chained = value.clone();
        for _ in 0..4 {
            let at = random.below(TABLE.len());
            let (name, step) = TABLE[at];
            if !step.keeps_stripped(marks) {
                continue;
            }
            kept[at] += 1;
            let mut out = Vec::new();
            if step.apply(&chained, &mut out) {
                let after = stripped(&out).to_ascii_lowercase();
                assert_eq!(
                    after.escape_ascii().to_string(),
                    before.escape_ascii().to_string(),
                    "{name} of {} from {}",
                    chained.escape_ascii(),
                    value.escape_ascii()
                );
                chained = out;
            }
        }
    }
    for ((name, step), kept) in TABLE.iter().zip(kept) {
        assert_eq!(kept > 500, step.keeps_stripped(Marks::default()), "{name}: {kept}");
    }
}
