//! The nearest name to one that is misspelt, for errors: by the similarity of Jaro, as clap suggests commands and options of
//! `glacis`.

/// The similarity from which on two names look like one with a slip.
const SIMILAR: f64 = 0.8;

/// Bytes of a name that is compared: none that is known is half as long.
const NAME_BYTES_MAX: usize = 64;

/// `: did you mean PREFIXname?` with the known name that is nearest to `name`, or nothing where none is near.
pub(crate) fn did_you_mean<'n>(
    name: &str,
    prefix: &str,
    known: impl IntoIterator<Item = &'n str>,
) -> String {
    if name.len() > NAME_BYTES_MAX {
        return String::new();
    }
    let lower = name.to_ascii_lowercase();
    let scored = known.into_iter().map(|known| {
        let score = strsim::jaro(&lower, &known.to_ascii_lowercase());
        (score, known)
    });
    // Of two that are as near, the first one.
    let nearest = scored
        .filter(|(score, _)| *score >= SIMILAR)
        .reduce(|best, next| if next.0 > best.0 { next } else { best });
    nearest.map(|(_, known)| format!(": did you mean {prefix}{known}?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::{Input, Limits, NoFiles, Program};

    /// The message for rules that are wrong in one place.
    fn message(text: &str) -> String {
        let input = Input::Text { name: "t".into(), text: text.into() };
        let refused = Program::build(&[input], &NoFiles, Limits::default()).unwrap_err();
        refused.errors()[0].message().to_owned()
    }

    #[test]
    fn slips_have_a_suggestion() {
        let rule = |rest: &str| format!("SecRule ARGS \"@rx a\" \"id:1,phase:2,{rest}\"");
        for (text, expected) in [
            ("SecRul ARGS \"@rx a\" \"id:1\"".to_owned(), "did you mean SecRule?"),
            ("SecRuleEngin On".to_owned(), "did you mean SecRuleEngine?"),
            ("SecRule ARGZ \"@rx a\" \"id:1,phase:2\"".to_owned(), "did you mean ARGS?"),
            (
                "SecRule REQUEST_HEADER:a \"@rx a\" \"id:1\"".to_owned(),
                "did you mean REQUEST_HEADERS?",
            ),
            ("SecRule ARGS \"@containz a\" \"id:1\"".to_owned(), "did you mean @contains?"),
            ("SecRule ARGS \"@beginswit a\" \"id:1\"".to_owned(), "did you mean @beginsWith?"),
            (rule("denny"), "did you mean deny?"),
            (rule("t:lowercas"), "did you mean t:lowercase?"),
            (rule("t:urlDecodeUnicode"), "did you mean t:urlDecodeUni?"),
            (rule("ctl:ruleRemovById=6"), "did you mean ctl:ruleRemoveById?"),
            (rule("msg:'%{REQUEST_UR}'"), "did you mean REQUEST_URI?"),
        ] {
            let found = message(&text);
            assert!(found.ends_with(expected), "{text}: {found}");
        }
    }

    #[test]
    fn other_names_have_none() {
        for text in [
            "SecFrobnicate On".to_owned(),
            "SecRule ARGS \"@quux a\" \"id:1\"".to_owned(),
            format!("SecRule ARGS \"@contains{} a\" \"id:1\"", "s".repeat(super::NAME_BYTES_MAX)),
            // What is known and refused says why instead.
            "SecRule WEBSERVER_ERROR_LOG \"@rx a\" \"id:1\"".to_owned(),
        ] {
            let found = message(&text);
            assert!(!found.contains("did you mean"), "{text}: {found}");
        }
    }
}
