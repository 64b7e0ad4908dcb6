//! Texts that stand for an attack: each is found in what a parser returns, and by a rule in what Glacis shows.

/// The marks. The first has no character that any format escapes; the others have those that formats disagree about.
pub const MARKS: &[&str] = &["gq7mark", "gq7<m>'k", "gq7;m=k&x", "gq7\"m,k", "gq7 m(k)"];

/// The part that all marks begin with.
pub const PREFIX: &str = "gq7";

/// SecLang that reports each mark: the rule's id is [`REPORT_ID`] plus twice the mark's index, plus one for file names.
///
/// The variables are those that the attack rules of CRS look at, with the two transformations most of them begin with.
#[must_use]
pub fn report_rules() -> String {
    let mut rules = String::from("SecAction \"id:1990,phase:1,pass,nolog\"\n");
    for (index, mark) in MARKS.iter().enumerate() {
        let pattern: String = mark.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
        for (offset, targets) in [(0, VALUES), (1, FILES)] {
            for (base, transformation) in
                [(REPORT_ID, "t:none"), (REPORT_DECODED_ID, "t:none,t:urlDecodeUni")]
            {
                let id = base + 2 * index as u64 + offset;
                rules.push_str(&format!(
                    "SecRule {targets} \"@rx {pattern}\" \"id:{id},phase:2,pass,log,{transformation},severity:NOTICE\"\n"
                ));
            }
        }
    }
    rules
}

/// The first rule that reports a mark as it stands.
pub const REPORT_ID: u64 = 1_000;

/// The first rule that reports a mark with URL escapes undone.
pub const REPORT_DECODED_ID: u64 = 1_500;

/// Where attack rules of CRS look.
const VALUES: &str = "ARGS|ARGS_NAMES|REQUEST_COOKIES|REQUEST_COOKIES_NAMES|XML:/*|XML://@*";

/// Where CRS looks at the names of files and of their fields.
const FILES: &str = "FILES|FILES_NAMES";
