//! Dynamic metadata of answers.

use super::{Files, Service};

#[test]
fn dynamic_metadata_tells_of_descriptors_and_limits() {
    let file = "
domain: edge
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 1}
    metadata: {plan: {name: small, seats: 3}, tags: [a, true, null]}
  - key: path
    rate_limit: {unit: minute, requests_per_unit: 9}
    metadata: {plan: {name: large, region: eu}}
";
    let files = Files::new(&[("edge.yaml", file)]);
    let service = Service::new(&files.config("dynamic_metadata: true\n"));
    let metadata = |request: &str| {
        let metadata = service.send(request).unwrap().dynamic_metadata.unwrap();
        format!("{:?}", json(&metadata))
    };
    let first = metadata("edge user=a path=/**2");
    assert!(first.contains(r#""domain": "edge""#), "{first}");
    assert!(first.contains(r#""entries": ["user=a"]"#), "{first}");
    assert!(first.contains(r#""hitsAddend": 2"#), "{first}");
    assert!(first.contains(r#""name": "small""#) && first.contains(r#""region": "eu""#), "{first}");
    // A limit that refuses adds nothing.
    let second = metadata("edge user=a path=/");
    assert!(second.contains(r#""name": "large""#) && !second.contains("seats"), "{second}");
    let third = metadata("edge other=a");
    assert!(!third.contains("metadata"), "{third}");
    let without = Service::new(&files.config(""));
    assert_eq!(without.send("edge user=a").unwrap().dynamic_metadata, None);
}

/// A struct as maps that are in order.
fn json(fields: &envoy_types::pb::google::protobuf::Struct) -> Debugged {
    let fields = fields.fields.iter().map(|(key, value)| (key.clone(), value_of(value)));
    Debugged::Map(fields.collect())
}

fn value_of(value: &envoy_types::pb::google::protobuf::Value) -> Debugged {
    use envoy_types::pb::google::protobuf::value::Kind;
    match value.kind.as_ref().unwrap() {
        Kind::StructValue(fields) => json(fields),
        Kind::ListValue(list) => Debugged::List(list.values.iter().map(value_of).collect()),
        Kind::StringValue(text) => Debugged::Plain(format!("{text:?}")),
        Kind::NumberValue(number) => Debugged::Plain(number.to_string()),
        Kind::BoolValue(value) => Debugged::Plain(value.to_string()),
        Kind::NullValue(_) => Debugged::Plain("null".to_owned()),
    }
}

enum Debugged {
    Plain(String),
    List(Vec<Self>),
    Map(std::collections::BTreeMap<String, Self>),
}

impl std::fmt::Debug for Debugged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plain(text) => f.write_str(text),
            Self::List(values) => f.debug_list().entries(values).finish(),
            Self::Map(fields) => f.debug_map().entries(fields).finish(),
        }
    }
}
