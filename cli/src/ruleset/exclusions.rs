//! Files of exclusions, as `glacis learn` writes them and the configuration of services has them.

use std::{fs, path::Path};

use glacis_rules::{Date, Exclusion, ExclusionList, ExclusionRules, exclusion_rules};

use super::Rules;
use crate::{
    inspect::now,
    output::{self, Fault},
};

/// Bytes of a file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// All exclusions that are named and hold today, as SecLang.
pub(super) fn read(rules: &[Rules]) -> Result<ExclusionRules, Fault> {
    let mut exclusions = Vec::new();
    for rules in rules {
        if let Rules::Exclusions(path) = rules {
            exclusions.extend(of_file(path)?);
        }
    }
    exclusion_rules(&exclusions).map_err(|error| Fault::Input(error.to_string()))
}

fn of_file(path: &Path) -> Result<Vec<Exclusion>, Fault> {
    let fault = |error: String| Fault::Input(format!("{}: {error}", path.display()));
    let size = fs::metadata(path).map_err(|error| fault(error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(fault(format!("it is larger than {FILE_BYTES_MAX} bytes")));
    }
    let text = fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
    let list: ExclusionList =
        serde_saphyr::from_str(&text).map_err(|error| fault(error.to_string()))?;
    let today = Date::at(now());
    let all = list.exclusions.iter().map(Exclusion::from);
    let (valid, expired): (Vec<_>, Vec<_>) = all.partition(|one| one.holds_on(today));
    for exclusion in expired {
        let subject = exclusion.subject();
        let name = path.display();
        output::remark(format_args!("{name}: the exclusion of {subject} has expired: left out"));
    }
    // Services reject an exclusion without an owner. Here it is tried, before anybody answers for it.
    let owned = |mut exclusion: Exclusion| {
        if exclusion.owner.trim().is_empty() {
            "nobody".clone_into(&mut exclusion.owner);
        }
        exclusion
    };
    Ok(valid.into_iter().map(owned).collect())
}
