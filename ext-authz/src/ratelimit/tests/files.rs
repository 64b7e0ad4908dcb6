//! Files and folders: what is refused, what has no effect, what is found in them, and that they are read anew.

use std::path::Path;

use glacis_service::reload::Reload as _;

use super::{Files, Service, check, entries};
use crate::ratelimit::{
    compile::{Bounds, Compiler, parse},
    config::RatelimitConfig,
    folder,
    rules::{Quantity, Rules},
    service::Limits,
};

fn compile(text: &str, bounds: Bounds) -> Result<(Rules, Vec<String>), String> {
    let mut compiler = Compiler::new(bounds, false);
    let mapping = parse(text).map_err(|error| error.to_string())?;
    compiler.add(Path::new("a.yaml"), &mapping).map_err(|error| error.to_string())?;
    Ok(compiler.finish())
}

const SMALL: Bounds =
    Bounds { files_max: 2, descriptors_max: 3, depth_max: 2, wildcards_max: 1, text_bytes_max: 8 };

#[test]
fn wrong_files_are_refused_with_place_and_advice() {
    let all = Bounds::default();
    for (text, bounds, words) in [
        ("", all, &["a.yaml: line 1, domain", "write the domain"][..]),
        ("domain: ''\n", all, &["line 1, domain", "write the domain"]),
        ("domains: d\n", all, &["line 1", "unknown field `domains`", "domain"]),
        ("- domain: d\n", all, &["line 1", "mapping"]),
        ("domain: d\ndescriptors: {key: a}\n", all, &["line 2", "sequence"]),
        ("domain: d\ndescriptors:\n- ke: a\n", all, &["line 3", "unknown field `ke`", "key"]),
        (
            "domain: d\ndescriptors:\n- value: a\n",
            all,
            &["line 3, descriptors[0]: ", "it has no key"],
        ),
        ("domain: d\ndescriptors: [{key: a}, {key: ''}]\n", all, &["descriptors[1]", "no key"]),
        ("domain: d\ndescriptors: [{key: 'a*'}]\n", all, &["descriptors[0]", "into its value"]),
        (
            "domain: d\ndescriptors:\n- key: a\n- key: b\n- key: a\n",
            all,
            &["line 5, descriptors[2]", "`a`", "remove one"],
        ),
        (
            "domain: d\ndescriptors:\n- {key: a, value: x*}\n- {key: a, value: x*}\n",
            all,
            &["line 4", "remove one"],
        ),
        (
            "domain: d\ndescriptors:\n- {key: a, value: x}\n- {key: a, value: x}\n",
            all,
            &["line 4", "remove one"],
        ),
        (
            "domain: d\ndescriptors:\n- key: a\n  rate_limit:\n    unit: fortnight\n",
            all,
            &["line 5, descriptors[0].rate_limit.unit", "`fortnight`", "second, minute"],
        ),
        (
            "domain: d\ndescriptors:\n- key: a\n  rate_limit: {requests_per_unit: 1}\n",
            all,
            &["line 4, descriptors[0].rate_limit.unit", "`` is no unit", "unlimited: true"],
        ),
        (
            "domain: d\ndescriptors:\n- key: a\n  rate_limit: {unit: day, requests_per_unit: -1}\n",
            all,
            &["line 4", "u32"],
        ),
        (
            "domain: d\ndescriptors:\n- key: a\n  rate_limit: {unlimited: true, unit: day}\n",
            all,
            &["line 4, descriptors[0].rate_limit.unit", "unlimited has no unit"],
        ),
        (
            "domain: d\ndescriptors:\n- key: a\n  rate_limit: {unit: day, replaces: [{}]}\n",
            all,
            &["line 4, descriptors[0].rate_limit.replaces[0]", "no name"],
        ),
        (
            "domain: d\ndescriptors:\n- key: a\n  rate_limit: {unit: day, name: n, replaces: \
             [{name: m}, {name: n}]}\n",
            all,
            &["rate_limit.replaces[1]", "does not replace itself"],
        ),
        (
            "domain: d\ndescriptors: [{key: a, value: b, share_threshold: true}]\n",
            all,
            &["share_threshold", "files/*"],
        ),
        ("domain: d\n---\ndomain: e\n", all, &["line 3", "multiple"]),
        ("domain: d\ndomain: e\n", all, &["line 2", "duplicate"]),
        ("domain: d23456789\n", SMALL, &["domain", "more than 8 bytes"]),
        (
            "domain: d\ndescriptors: [{key: a, value: '234567890'}]\n",
            SMALL,
            &["descriptors[0]", "more than 8 bytes"],
        ),
        (
            "domain: d\ndescriptors: [{key: a}, {key: b}, {key: c}, {key: e}]\n",
            SMALL,
            &["descriptors[3]", "at most 3"],
        ),
        (
            "domain: d\ndescriptors: [{key: a, descriptors: [{key: b, descriptors: [{key: c}]}]}]\n",
            SMALL,
            &["descriptors[0].descriptors[0].descriptors[0]", "at most 2 in each other"],
        ),
        (
            "domain: d\ndescriptors: [{key: a, value: b*}, {key: a, value: c*}]\n",
            SMALL,
            &["descriptors[1]", "wildcards", "at most 1"],
        ),
    ] {
        let error = compile(text, bounds).map(|_| ()).unwrap_err();
        for word in words {
            assert!(error.contains(word), "{text}: no {word} in {error}");
        }
    }
    let deep = format!("domain: d\n{}", "{descriptors: [".repeat(500));
    assert!(compile(&deep, all).is_err());
}

#[test]
fn what_has_no_effect_is_said() {
    for (text, expected) in [
        ("domain: d\ndescriptors:\n", &[][..]),
        ("domain: d\nkey: a\n", &["line 2, key: it has no effect here"]),
        (
            "domain: d\ndescriptors:\n- key: a\n  name: n\n  rate_limit:\n    unit: day\n    \
             requests_per_unit: 1\n    shadow_mode: true\n",
            &[
                "line 4, descriptors[0].name",
                "line 8, descriptors[0].rate_limit.shadow_mode: it has no effect here",
            ],
        ),
        (
            "domain: d\ndescriptors: [{key: a, shadow_mode: true, detailed_metric: true}]\n",
            &["shadow_mode has no effect", "detailed_metric has no effect"],
        ),
        ("domain: d\ndescriptors: [{key: a, shadow_mode: false, value_to_metric: true}]\n", &[]),
        (
            "domain: d\ndescriptors: [{key: a, rate_limit: {unlimited: true, requests_per_unit: 1}}]\n",
            &["requests_per_unit has no effect beside unlimited"],
        ),
        (
            "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day}}]\n",
            &["it is 0, and nothing is allowed"],
        ),
        (
            "domain: d\ndescriptors:\n- key: a\n  rate_limit: {unit: day, requests_per_unit: 1, \
             replaces: [{name: m}, {name: n}]}\n- key: b\n  rate_limit: {unit: day, name: n, \
             requests_per_unit: 1}\n",
            &["rate_limit.replaces[0]: no limit of this domain has this name"],
        ),
    ] {
        let (_, warnings) = compile(text, Bounds::default()).unwrap();
        assert_eq!(warnings.len(), expected.len(), "{text}: {warnings:#?}");
        for (warning, expected) in warnings.iter().zip(expected) {
            assert!(warning.starts_with("a.yaml: line "), "{warning}");
            assert!(warning.contains(expected), "{text}: no {expected} in {warning}");
        }
    }
}

/// YAML as envoyproxy/ratelimit reads it: plain scalars are texts where texts are asked for.
const SHOP: &str = "
domain: shop
descriptors:
  - key: tenant
    rate_limit: {unit: MINUTE, requests_per_unit: 10}
  - key: tenant
    value: 42
    rate_limit: {unit: minute, requests_per_unit: 20}
  - key: tenant
    value: yes
  - key: tenant
    value: ''   # refused were it not within a list of its own
    descriptors: []
";

const PATHS: &str = "
domain: paths
descriptors:
  - key: path
    value: /api/*/orders
    rate_limit: {unit: hour, requests_per_unit: 1}
  - key: path
    value: /api/*
    share_threshold: true
    rate_limit: {unit: hour, requests_per_unit: 2}
    descriptors:
      - key: user
        rate_limit: {unit: hour, requests_per_unit: 3}
        detailed_metric: true
  - key: path
    value: /api/v1/health
    rate_limit: {unlimited: true}
  - key: path
    value_to_metric: true
    rate_limit: {unit: hour, requests_per_unit: 4}
  - key: host
    value: a*
    value_to_metric: true
    descriptors:
      - key: method
        value: GET
        rate_limit: {unit: hour, requests_per_unit: 5}
      - key: method
        detailed_metric: true
        rate_limit: {unit: hour, requests_per_unit: 6}
  - key: host
    value: b*
    share_threshold: true
    value_to_metric: true
    descriptors:
      - key: method
        rate_limit: {unit: hour, requests_per_unit: 7}
  - key: host
    value: free
  - key: host
    rate_limit: {unit: hour, requests_per_unit: 8}
";

#[test]
fn descriptors_find_their_limit() {
    assert!(compile(SHOP, Bounds::default()).unwrap_err().contains("line 11, descriptors[3]"));
    let shop = SHOP.replace("value: ''", "value: other");
    // The file, a descriptor; requests, name in metrics, and what is counted together.
    for (file, descriptor, expected) in [
        (shop.as_str(), "tenant=7", Some((10, "shop.tenant", ""))),
        (&shop, "tenant=42", Some((20, "shop.tenant_42", ""))),
        (&shop, "tenant=042", Some((10, "shop.tenant", ""))),
        (&shop, "tenant=", Some((10, "shop.tenant", ""))),
        // It is named, and nothing is said of it.
        (&shop, "tenant=yes", None),
        (&shop, "tenant=true", Some((10, "shop.tenant", ""))),
        (&shop, "tenant=7,path=/", None),
        (&shop, "user=7", None),
        (&shop, "", None),
        // Keys and values are not one text: this is no way to `tenant`, `42`.
        (&shop, "tenant_42=", None),
        (PATHS, "path=/api/v1/orders", Some((1, "paths.path_/api/*/orders", ""))),
        (PATHS, "path=/api/v1/items", Some((2, "paths.path_/api/*", "/api/*"))),
        (PATHS, "path=/api/v1/health", Some((0, "paths.path_/api/v1/health", ""))),
        (PATHS, "path=/shop", Some((4, "paths.path_/shop", ""))),
        (PATHS, "path=", Some((4, "paths.path", ""))),
        (PATHS, "path=/api/v1/items,user=ann", Some((3, "paths.path_/api/*.user_ann", "/api/*"))),
        // The first wildcard that matches is followed, and there is no way back.
        (PATHS, "path=/api/v1/orders,user=ann", None),
        (PATHS, "host=abc,method=GET", Some((5, "paths.host_abc.method_GET", ""))),
        (PATHS, "host=abc,method=PUT", Some((6, "paths.host_abc.method_PUT", ""))),
        (PATHS, "host=bcd,method=PUT", Some((7, "paths.host_b*.method", "b*"))),
        (PATHS, "host=free", None),
        (PATHS, "host=other", Some((8, "paths.host", ""))),
        (PATHS, "host=other,method=GET", None),
    ] {
        let (rules, warnings) = compile(file, Bounds::default()).unwrap();
        assert_eq!(warnings, [""; 0]);
        let domain = if file == PATHS { "paths" } else { "shop" };
        let found = rules.find(domain, &entries(descriptor)).map(|matched| {
            let shared: Vec<_> = matched.shared.iter().flatten().copied().collect();
            let requests = match matched.limit.quantity {
                Quantity::Unlimited => 0,
                Quantity::Requests { per_unit, .. } => per_unit,
            };
            (requests, matched.path.to_string(), shared.join(" "))
        });
        let expected =
            expected.map(|(number, path, shared)| (number, path.to_owned(), shared.to_owned()));
        assert_eq!(found, expected, "{descriptor}");
    }
}

#[test]
fn folders() {
    let one = "domain: a\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]\n";
    let more =
        "domain: a\ndescriptors: [{key: l, rate_limit: {unit: day, requests_per_unit: 2}}]\n";
    let other =
        "domain: b\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 3}}]\n";
    // Several domains; what is hidden or no YAML is left out.
    let files = Files::new(&[
        ("a.yaml", one),
        ("b.yml", other),
        (".c.yaml", "no: 1"),
        ("README.md", "no: 1"),
    ]);
    let service = Service::new(&files.config(""));
    check(
        &service,
        &[("a k=x", "OK [OK 0 of 1/day, 77628 s]"), ("b k=x", "OK [OK 2 of 3/day, 77628 s]")],
    );
    // Two files about one domain.
    let files = Files::new(&[("a.yaml", one), ("b.yaml", more)]);
    let refused = Limits::read(&files.config("")).unwrap_err().to_string();
    for word in ["b.yaml: line 1, domain", "another file", "merge_domains: true"] {
        assert!(refused.contains(word), "no {word} in {refused}");
    }
    let service = Service::new(&files.config("merge_domains: true\n"));
    check(&service, &[("a k=x l=x", "OK [OK 0 of 1/day, 77628 s] [OK 1 of 2/day, 77628 s]")]);
    // No folder, and nothing in it.
    let empty = Files::new(&[("a.txt", one)]);
    for (config, words) in [
        (empty.config(""), ["rate_limit_service.config", "no .yaml file"]),
        (RatelimitConfig { config: "/nowhere".into(), ..empty.config("") }, ["/nowhere", "write"]),
    ] {
        let refused = Limits::read(&config).unwrap_err().to_string();
        for word in words {
            assert!(refused.contains(word), "no {word} in {refused}");
        }
    }
    let files = Files::new(&[("a.yaml", one), ("b.yaml", more), ("c.yaml", other)]);
    let refused = folder::read(&files.0, true, SMALL).unwrap_err().to_string();
    assert!(refused.contains("too many files: at most 2"), "{refused}");
}

#[test]
fn a_folder_is_read_anew_and_the_last_good_one_stays() {
    let text = |number: u32| {
        format!(
            "domain: a\ndescriptors: [{{key: k, rate_limit: {{unit: day, requests_per_unit: {number}}}}}]\n"
        )
    };
    let files = Files::new(&[("a.yaml", &text(5))]);
    let mut service = Service::new(&files.config(""));
    check(&service, &[("a k=x", "OK [OK 4 of 5/day, 77628 s]")]);
    assert_eq!(service.reloader.as_read(), service.reloader.now());
    assert_eq!(service.reloads.last(), None);
    files.write("a.yaml", &text(7));
    assert_ne!(service.reloader.as_read(), service.reloader.now());
    service.reloader.reload();
    assert_eq!(service.reloader.as_read(), service.reloader.now());
    assert_eq!(service.reloads.last().unwrap().error, None);
    // What was counted stays counted.
    check(&service, &[("a k=x", "OK [OK 5 of 7/day, 77628 s]")]);
    files.write("b.yaml", "domain: b\ndescriptors: [{}]\n");
    service.reloader.reload();
    assert_eq!(service.reloader.as_read(), service.reloader.now());
    let error = service.reloads.last().unwrap().error.unwrap();
    assert!(error.contains("b.yaml"), "{error}");
    check(&service, &[("a k=x", "OK [OK 4 of 7/day, 77628 s]")]);
    let metrics = service.metrics();
    for line in [r#"{result="success"} 1"#, r#"{result="failure"} 1"#] {
        assert!(metrics.contains(&format!("glacis_ratelimit_reloads_total{line}\n")), "{metrics}");
    }
}
