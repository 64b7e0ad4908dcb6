//! The settings of the Core Rule Set that most people change, in a typed form.

use core::fmt::Write as _;

use glacis_engine::Input;

/// The id of the rule that sets them; see [`base`](crate::base).
const ID: u32 = 100_090;

/// What is set; the rest stays as `crs-setup.conf` and CRS's own defaults say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrsSettings {
    /// `tx.blocking_paranoia_level`, 1 to 4.
    pub paranoia: Option<u8>,
    /// `tx.detection_paranoia_level`, 1 to 4: rules of levels above the blocking one only log.
    pub detection_paranoia: Option<u8>,
    /// `tx.inbound_anomaly_score_threshold`: the score from which a request is refused.
    pub inbound_threshold: Option<u32>,
    /// `tx.outbound_anomaly_score_threshold`: the same for responses.
    pub outbound_threshold: Option<u32>,
}

impl CrsSettings {
    /// The settings as rules, to stand behind `crs-setup.conf` and before the rules of CRS; nothing when
    /// nothing is set.
    #[must_use]
    pub fn input(&self) -> Option<Input> {
        let levels = [
            ("blocking_paranoia_level", self.paranoia.map(u32::from)),
            ("detection_paranoia_level", self.detection_paranoia.map(u32::from)),
            ("inbound_anomaly_score_threshold", self.inbound_threshold),
            ("outbound_anomaly_score_threshold", self.outbound_threshold),
        ];
        let mut actions = String::new();
        for (name, value) in levels {
            if let Some(value) = value {
                // Writing to a `String` cannot fail.
                let _ = write!(actions, ",setvar:tx.{name}={value}");
            }
        }
        let text = format!("SecAction \"id:{ID},phase:1,pass,nolog,t:none{actions}\"\n");
        (!actions.is_empty()).then(|| Input::Text { name: "glacis:settings".to_owned(), text })
    }
}
