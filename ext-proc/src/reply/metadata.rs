//! The receipt as dynamic metadata: a `google.protobuf.Struct`, written as it is sent.
//!
//! It travels with every answer, and as maps of prost it would take more than the rest of the answer together.

use glacis_inspector::Receipt;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};

/// The namespace of the receipt in Envoy's dynamic metadata. The filter must list it in
/// `metadata_options.receiving_namespaces.untyped`, or Envoy drops it.
const NAMESPACE: &str = "glacis";

/// Most receipts are shorter.
const USUAL_BYTES: usize = 320;

// Fields of `google.protobuf.Value`.
const NUMBER: u32 = 2;
const STRING: u32 = 3;
const STRUCT: u32 = 5;
const LIST: u32 = 6;

/// A `Struct` with the receipt in it, under [`NAMESPACE`].
pub(crate) fn metadata(receipt: &Receipt<'_>) -> Vec<u8> {
    let mut fields = Struct(Vec::with_capacity(USUAL_BYTES));
    fields.text("verdict", receipt.verdict);
    fields.text("mode", receipt.mode.name());
    fields.text("inspected", receipt.inspected);
    fields.number("score", receipt.scores.inbound);
    fields.number("score_outbound", receipt.scores.outbound);
    if let Some(opinion) = receipt.opinion {
        fields.text("second_opinion", opinion.name());
        fields.decimal("second_opinion_score", f64::from(opinion.score) / 1_000.0);
    }
    if let Some(would_deny) = receipt.would_deny {
        fields.number("would_deny", would_deny.rule.0.into());
    }
    let mut rules = Vec::new();
    for rule in &receipt.rules {
        list_value(&mut rules, &rule.to_string());
    }
    fields.value("rules", LIST, &rules);
    fields.text("profile", receipt.profile);
    fields.text("ruleset", receipt.ruleset);
    fields.text("request_id", receipt.request_id);
    if let Some(reason) = receipt.reason {
        fields.text("reason", reason.name());
    }
    if let Some(reason) = receipt.uninspected {
        fields.text("uninspected", reason.name());
    }
    if let Some(message) = receipt.message {
        fields.text("message", &message.to_string());
    }
    if let Some(phase) = receipt.phase {
        fields.number("phase", phase.number().into());
    }
    let mut namespaces = Struct(Vec::with_capacity(fields.0.len() + NAMESPACE.len() + 16));
    namespaces.value(NAMESPACE, STRUCT, &fields.0);
    namespaces.0
}

/// The entries of a `Struct`: `map<string, Value>`, which on the wire is a list of names and values.
struct Struct(Vec<u8>);

impl Struct {
    fn text(&mut self, name: &str, text: &str) {
        self.value(name, STRING, text.as_bytes());
    }

    /// A value whose bytes are written behind their length.
    fn value(&mut self, name: &str, kind: u32, bytes: &[u8]) {
        self.name(name, delimited_bytes(bytes.len()));
        delimited(&mut self.0, kind, bytes);
    }

    /// Numbers are floating point in `Value`; scores are small.
    #[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
    fn number(&mut self, name: &str, number: i64) {
        self.decimal(name, number as f64);
    }

    fn decimal(&mut self, name: &str, number: f64) {
        self.name(name, 1 + size_of::<f64>());
        encode_key(NUMBER, WireType::SixtyFourBit, &mut self.0);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// The beginning of an entry, with a value of so many bytes to follow.
    fn name(&mut self, name: &str, value_bytes: usize) {
        length(&mut self.0, 1, delimited_bytes(name.len()) + delimited_bytes(value_bytes));
        delimited(&mut self.0, 1, name.as_bytes());
        length(&mut self.0, 2, value_bytes);
    }
}

/// An entry of `google.protobuf.ListValue`.
fn list_value(list: &mut Vec<u8>, text: &str) {
    length(list, 1, delimited_bytes(text.len()));
    delimited(list, STRING, text.as_bytes());
}

/// The number of a field, below 16, and the length of what follows.
fn length(bytes: &mut Vec<u8>, field: u32, length: usize) {
    encode_key(field, WireType::LengthDelimited, bytes);
    encode_varint(length as u64, bytes);
}

fn delimited(bytes: &mut Vec<u8>, field: u32, content: &[u8]) {
    length(bytes, field, content.len());
    bytes.extend_from_slice(content);
}

/// What [`delimited`] writes, in bytes.
fn delimited_bytes(content: usize) -> usize {
    1 + encoded_len_varint(content as u64) + content
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::google::protobuf;
    use glacis_engine::{Phase, RuleId, Scores};
    use glacis_inspector::{Channel, MessageName, Mode, Opined, Peer, Uninspected, WouldDeny};
    use prost::Message as _;
    use serde_json::{Value, json};

    use super::*;

    /// What a reader of protobuf makes of it, as JSON.
    fn read(value: &protobuf::Value) -> Value {
        use protobuf::value::Kind;
        match value.kind.as_ref().unwrap() {
            Kind::NumberValue(number) => json!(number),
            Kind::StringValue(text) => json!(text),
            Kind::StructValue(fields) => of_struct(fields),
            Kind::ListValue(list) => list.values.iter().map(read).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn of_struct(fields: &protobuf::Struct) -> Value {
        let entries = fields.fields.iter().map(|(name, value)| (name.clone(), read(value)));
        Value::Object(entries.collect())
    }

    fn check(receipt: &Receipt<'_>, expected: &Value) {
        let read = protobuf::Struct::decode(metadata(receipt).as_slice()).unwrap();
        assert_eq!(of_struct(&read), json!({ "glacis": expected }), "{receipt:?}");
    }

    #[test]
    fn a_receipt_is_read_by_others_as_it_was() {
        let long = "p".repeat(70_000);
        let receipt = Receipt::observed("shop", "0a1b", "7f9c2ba4");
        let detected = WouldDeny { phase: Phase::RequestBody, rule: RuleId(949_110) };
        check(
            &Receipt { verdict: "allow", would_deny: Some(detected), ..receipt.clone() },
            &json!({
                "verdict": "allow", "mode": "detection_only", "inspected": "later",
                "score": 0.0, "score_outbound": 0.0, "would_deny": 949_110.0, "rules": [],
                "profile": "shop", "ruleset": "0a1b", "request_id": "7f9c2ba4",
            }),
        );
        check(
            &receipt,
            &json!({
                "verdict": "observed", "mode": "detection_only", "inspected": "later",
                "score": 0.0, "score_outbound": 0.0, "rules": [],
                "profile": "shop", "ruleset": "0a1b", "request_id": "7f9c2ba4",
            }),
        );
        check(
            &Receipt {
                reason: None,
                verdict: "deny",
                mode: Mode::Blocking,
                phase: Some(Phase::RequestBody),
                inspected: "partial",
                uninspected: Some(Uninspected::BodyTruncated),
                scores: Scores { inbound: 15, outbound: -4 },
                opinion: Some(Opined { score: 3_400, attack: true, refused_by_rules: true }),
                would_deny: None,
                rules: (942_000..942_032).map(RuleId).collect(),
                profile: &long,
                ruleset: "",
                request_id: "ü",
                message: Some(MessageName {
                    channel: Channel::WebSocket,
                    from: Peer::Client,
                    number: 17,
                }),
            },
            &json!({
                "verdict": "deny", "mode": "blocking", "inspected": "partial", "phase": 2.0,
                "uninspected": "body_truncated", "score": 15.0, "score_outbound": -4.0,
                "second_opinion": "attack", "second_opinion_score": 3.4,
                "rules": (942_000..942_032).map(|id| id.to_string()).collect::<Vec<_>>(),
                "profile": long, "ruleset": "", "request_id": "ü", "message": "client 17",
            }),
        );
    }
}
