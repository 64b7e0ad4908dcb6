//! Whose defaults the settings of CRS have.

use glacis_engine::Input;

/// The name under which the settings of [`Defaults::inputs`] appear in messages.
pub const DEFAULTS_NAME: &str = "glacis:defaults";

/// The name under which the rules of [`Defaults::inputs`] against attacks appear in messages.
pub const ATTACKS_NAME: &str = "glacis:attacks";

/// The name under which the rules of [`Defaults::weigh`] appear in messages.
pub const WEAK_NAME: &str = "glacis:weak";

/// What applies where neither `crs-setup.conf` nor a typed setting says anything.
///
/// `docs/reference/defaults.md` lists what differs, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Defaults {
    /// Those of Glacis: media types, methods and header fields that browsers, telemetry and APIs send today.
    #[default]
    Glacis,
    /// Those of CRS.
    Crs,
}

impl Defaults {
    /// Every one.
    pub const ALL: [Self; 2] = [Self::Glacis, Self::Crs];

    /// `glacis` or `crs`, as configurations write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Glacis => "glacis",
            Self::Crs => "crs",
        }
    }

    /// The rules, to stand behind `crs-setup.conf` and before the rules of CRS; nothing for [`Self::Crs`].
    ///
    /// They have the ids 100060 to 100079 and 100040 to 100049.
    #[must_use]
    pub fn inputs(self) -> Vec<Input> {
        let texts: &[(&str, &str)] = match self {
            Self::Glacis => &[
                (DEFAULTS_NAME, include_str!("../base/defaults.conf")),
                (ATTACKS_NAME, include_str!("../base/attacks.conf")),
            ],
            Self::Crs => &[],
        };
        let input =
            |&(name, text): &(&str, &str)| Input::Text { name: name.into(), text: text.into() };
        texts.iter().map(input).collect()
    }

    /// Puts the rules that count weak signals for less before the rules of CRS that add up scores
    /// (`REQUEST-949-BLOCKING-EVALUATION.conf`); nowhere for [`Self::Crs`], or where there is no such file.
    ///
    /// They have the ids 100080 to 100089.
    pub fn weigh(self, inputs: &mut Vec<Input>) {
        let text = match self {
            Self::Glacis => include_str!("../base/weak.conf"),
            Self::Crs => return,
        };
        if let Some(at) = inputs.iter().position(adds_up_scores) {
            let input = Input::Text { name: WEAK_NAME.to_owned(), text: text.to_owned() };
            inputs.insert(at, input);
        }
    }
}

fn adds_up_scores(input: &Input) -> bool {
    match input {
        Input::File(path) => {
            let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
            name.starts_with("REQUEST-") && name.contains("-BLOCKING-EVALUATION")
        }
        Input::Text { .. } => false,
    }
}
