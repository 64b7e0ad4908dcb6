//! The family `glacis_rule_evidence`: what became of the requests in which rules matched.

use core::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::counter::ConstCounter,
};

use super::table;
use crate::rule_evidence::{OUTCOMES, RuleEvidence};

#[derive(Debug)]
pub(super) struct ByRule(pub(super) RuleEvidence);

#[derive(Debug, EncodeLabelSet)]
struct Label {
    rule_id: String,
    of: &'static str,
}

impl Collector for ByRule {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let rules = self.0.all();
        if rules.is_empty() {
            return Ok(());
        }
        let mut family = table::RULE_EVIDENCE.descriptor(&mut encoder)?;
        for (rule, evidence) in rules {
            for (of, count) in OUTCOMES.into_iter().zip([evidence.served, evidence.banned]) {
                let label = Label { rule_id: rule.to_string(), of };
                ConstCounter::new(count).encode(family.encode_family(&label)?)?;
            }
        }
        Ok(())
    }
}
