//! Where others keep their rules.

use std::path::Path;

use serde_json::Value;

use super::{Given, Piece, name_all, nginx};
use crate::arguments::ImportForm;

/// Nesting of a document that is looked through.
const DEPTH_MAX: usize = 32;

const INGRESS: &str = "nginx.ingress.kubernetes.io/";

/// The base configuration in the images of ingress-nginx.
const BASE: &str = "/etc/nginx/modsecurity/modsecurity.conf";

/// The rulesets in a file.
pub(super) fn read(form: ImportForm, path: &Path, text: &str) -> Result<Vec<Given>, String> {
    let file = path.display().to_string();
    match form {
        ImportForm::ModSecurity | ImportForm::Nginx if nginx::is_nginx(text) => {
            Ok(nginx::rulesets(text, path))
        }
        ImportForm::Nginx => Ok(Vec::new()),
        ImportForm::ModSecurity => Ok(vec![Given {
            pieces: vec![Piece::Text { text: text.to_owned(), file, line: 1 }],
            removals_apply_anywhere: true,
            is_local: true,
            ..Given::default()
        }]),
        ImportForm::CorazaCaddy => Ok(caddy(text, &file)),
        ImportForm::CorazaProxyWasm => {
            let mut given = Vec::new();
            documents(text)?.iter().for_each(|document| proxy_wasm(document, 0, &file, &mut given));
            Ok(given)
        }
        ImportForm::IngressNginx => {
            let mut given = Vec::new();
            documents(text)?.iter().for_each(|document| ingress_nginx(document, &file, &mut given));
            Ok(given)
        }
    }
}

/// The rulesets of all files as those of one configuration.
pub(super) fn combined(form: ImportForm, mut given: Vec<Given>) -> Vec<Given> {
    match form {
        // Files of SecLang follow one another, as if one included them.
        ImportForm::ModSecurity => {
            let mut whole: Vec<Given> = Vec::new();
            for next in given {
                match whole.iter_mut().find(|one| one.name.is_none()) {
                    Some(one) if next.name.is_none() && one.first_wins == next.first_wins => {
                        one.pieces.extend(next.pieces);
                        one.lost.extend(next.lost);
                        one.used_by.extend(next.used_by);
                        one.mode = one.mode.or(next.mode);
                    }
                    _ => whole.push(next),
                }
            }
            given = whole;
        }
        ImportForm::IngressNginx => switches(&mut given),
        ImportForm::Nginx | ImportForm::CorazaCaddy | ImportForm::CorazaProxyWasm => {}
    }
    given.sort_by_key(|given| given.name.is_some());
    name_all(&mut given);
    given
}

/// What an Ingress leaves to the ConfigMap, and what of the ConfigMap's it repeats.
fn switches(given: &mut [Given]) {
    let is_on = given.iter().any(|one| one.name.is_none() && one.mode != Some("off"));
    for one in given.iter_mut().filter(|one| one.name.is_some()) {
        if one.mode == Some("off") {
            continue;
        }
        if !is_on && one.mode.is_some() {
            // Then ingress-nginx loads its base configuration behind the snippet.
            one.pieces.push(Piece::Base(format!("{BASE} of ingress-nginx")));
            one.mode = None;
        } else if !is_on {
            one.mode = Some("off");
        } else {
            one.mode = None;
        }
        // CRS comes last.
        one.pieces.sort_by_key(|piece| matches!(piece, Piece::Crs(_)));
    }
}

/// The documents of a YAML file, those with nothing in them left out.
fn documents(text: &str) -> Result<Vec<Value>, String> {
    serde_saphyr::from_multiple(text).map_err(|error| error.to_string())
}

/// Ingress objects with annotations, the controller's ConfigMap, and lists of them.
fn ingress_nginx(object: &Value, file: &str, given: &mut Vec<Given>) {
    for item in object["items"].as_array().into_iter().flatten() {
        ingress_nginx(item, file, given);
    }
    let name = || {
        let part = |key: &str| object["metadata"][key].as_str().unwrap_or("default").to_owned();
        format!("{}.{}", part("namespace"), part("name"))
    };
    match object["kind"].as_str() {
        Some("Ingress") => {
            let annotations = &object["metadata"]["annotations"];
            let said = |key: &str| annotations[format!("{INGRESS}{key}")].as_str();
            let is_on = |key: &str| said(key) == Some("true");
            let touched = ["enable-modsecurity", "enable-owasp-core-rules", "modsecurity-snippet"];
            if !touched.iter().any(|key| said(key).is_some()) {
                return;
            }
            let lost = said("modsecurity-transaction-id").map(|value| {
                format!("modsecurity-transaction-id {value}: requests go by the name that Envoy gives them, x-request-id")
            });
            // The snippet comes before everything else: settings in it win, and CRS's see its variables.
            let mut pieces = snippet(said("modsecurity-snippet"), file, &name());
            if is_on("enable-owasp-core-rules") {
                pieces.push(Piece::Crs("enable-owasp-core-rules".to_owned()));
            }
            given.push(Given {
                name: Some(name()),
                used_by: hosts(object),
                mode: said("enable-modsecurity").map(|on| if on == "true" { "on" } else { "off" }),
                pieces,
                lost: lost.into_iter().collect(),
                inherits: true,
                first_wins: true,
                removals_apply_anywhere: true,
                ..Given::default()
            });
        }
        Some("ConfigMap") => {
            let said = |key: &str| object["data"][key].as_str();
            let is_on = |key: &str| said(key) == Some("true");
            if said("enable-modsecurity").is_none() && said("modsecurity-snippet").is_none() {
                return;
            }
            let mut pieces = snippet(said("modsecurity-snippet"), file, &name());
            pieces.push(Piece::Base(format!("{BASE} of ingress-nginx")));
            if is_on("enable-owasp-modsecurity-crs") {
                pieces.push(Piece::Crs("enable-owasp-modsecurity-crs".to_owned()));
            }
            given.push(Given {
                used_by: vec![format!("all Ingresses, by the ConfigMap {}", name())],
                mode: Some(if is_on("enable-modsecurity") { "on" } else { "off" }),
                pieces,
                first_wins: true,
                removals_apply_anywhere: true,
                ..Given::default()
            });
        }
        _ => {}
    }
}

fn snippet(text: Option<&str>, file: &str, name: &str) -> Vec<Piece> {
    let piece = |text: &str| Piece::Text {
        text: text.to_owned(),
        file: format!("{file}, {name}"),
        line: 1,
    };
    text.map(piece).into_iter().collect()
}

/// Hosts and paths of an Ingress.
fn hosts(ingress: &Value) -> Vec<String> {
    let mut hosts = Vec::new();
    for rule in ingress["spec"]["rules"].as_array().into_iter().flatten() {
        let host = rule["host"].as_str().unwrap_or("*");
        let paths = rule["http"]["paths"].as_array().into_iter().flatten();
        hosts.extend(paths.map(|path| format!("{host}{}", path["path"].as_str().unwrap_or("/"))));
    }
    hosts
}

/// Every `directives_map` in a document, also in JSON that is text in it.
fn proxy_wasm(value: &Value, depth: usize, file: &str, given: &mut Vec<Given>) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(fields) if fields.contains_key("directives_map") => maps(value, file, given),
        Value::Object(fields) => {
            fields.values().for_each(|field| proxy_wasm(field, depth + 1, file, given))
        }
        Value::Array(items) => {
            items.iter().for_each(|item| proxy_wasm(item, depth + 1, file, given))
        }
        Value::String(text) if text.contains("directives_map") => {
            if let Ok(value) = serde_json::from_str(text) {
                proxy_wasm(&value, depth + 1, file, given);
            }
        }
        _ => {}
    }
}

fn maps(config: &Value, file: &str, given: &mut Vec<Given>) {
    let default = config["default_directives"].as_str();
    for (name, lines) in config["directives_map"].as_object().into_iter().flatten() {
        let lines = lines.as_array().into_iter().flatten().filter_map(Value::as_str);
        let text = lines.collect::<Vec<_>>().join("\n");
        let authorities = config["per_authority_directives"].as_object().into_iter().flatten();
        let used_by =
            authorities.filter(|(_, of)| of.as_str() == Some(name)).map(|(host, _)| host.clone());
        let is_default = default == Some(name);
        let labels = config["metric_labels"].as_object().filter(|_| is_default);
        let lost = labels.map(|labels| {
            let names: Vec<&str> = labels.keys().map(String::as_str).collect();
            format!(
                "metric_labels {}: labels are added where metrics are scraped",
                names.join(", ")
            )
        });
        given.push(Given {
            name: (!is_default).then(|| name.clone()),
            used_by: used_by.collect(),
            pieces: vec![Piece::Text { text, file: format!("{file}, {name}"), line: 1 }],
            lost: lost.into_iter().collect(),
            ..Given::default()
        });
    }
}

/// Blocks `coraza_waf` of a Caddyfile, or handlers `waf` of Caddy's JSON.
fn caddy(text: &str, file: &str) -> Vec<Given> {
    let mut given = Vec::new();
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        handlers(&value, 0, file, &mut given);
    } else {
        let mut rest = text;
        while let Some((_, block)) = rest.split_once("coraza_waf") {
            // In the global options the name stands as well, in the order of handlers.
            let Some(inside) = block.trim_start().strip_prefix('{') else {
                rest = block;
                continue;
            };
            let end = end_of_block(inside);
            given.push(caddyfile(inside.get(..end).unwrap_or_default(), file));
            rest = inside.get(end..).unwrap_or_default();
        }
    }
    given
}

/// Where a block ends, texts between backticks left aside.
fn end_of_block(inside: &str) -> usize {
    let (mut depth, mut quoted) = (1_usize, false);
    for (index, character) in inside.char_indices() {
        match character {
            '`' => quoted = !quoted,
            '{' if !quoted => depth += 1,
            '}' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index;
        }
    }
    inside.len()
}

fn caddyfile(block: &str, file: &str) -> Given {
    let mut given = Given { is_local: true, ..Given::default() };
    let mut text = String::new();
    let mut pieces = block.split('`');
    while let Some(outside) = pieces.next() {
        for line in outside.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match line.split_whitespace().next() {
                Some("load_owasp_crs") => given.lost.push(
                    "load_owasp_crs: in Caddy it only offers the files; the rules are those that are included".to_owned(),
                ),
                Some("directives") | None => {}
                Some("include") => {
                    let path = line.trim_start_matches("include").trim();
                    text.push_str(&format!("Include {path}\n"));
                }
                Some(word) if word.starts_with('#') => {}
                Some(_) => given.lost.push(format!("{line}: not known")),
            }
        }
        if let Some(directives) = pieces.next() {
            text.push_str(directives);
            text.push('\n');
        }
    }
    given.pieces.push(Piece::Text { text, file: file.to_owned(), line: 1 });
    given
}

fn handlers(value: &Value, depth: usize, file: &str, given: &mut Vec<Given>) {
    if depth > DEPTH_MAX {
        return;
    }
    if value["handler"] == "waf" {
        let mut text = String::new();
        for path in value["include"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            text.push_str(&format!("Include {path}\n"));
        }
        text.push_str(value["directives"].as_str().unwrap_or_default());
        let pieces = vec![Piece::Text { text, file: file.to_owned(), line: 1 }];
        given.push(Given { pieces, is_local: true, ..Given::default() });
        return;
    }
    match value {
        Value::Object(fields) => {
            fields.values().for_each(|field| handlers(field, depth + 1, file, given))
        }
        Value::Array(items) => items.iter().for_each(|item| handlers(item, depth + 1, file, given)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::documents;

    #[test]
    fn documents_of_a_file() {
        for (text, expected) in [
            ("", json!([])),
            ("# nothing\n", json!([])),
            ("a: x\n", json!([{ "a": "x" }])),
            ("a: x\n---\nb: z\n", json!([{ "a": "x" }, { "b": "z" }])),
            ("--- # one\na: x\n--- # two\nb: z\n", json!([{ "a": "x" }, { "b": "z" }])),
            ("---\n---\na: x\n---\n# nothing\n", json!([{ "a": "x" }])),
            ("a: x\n...\n---\nb: z\n...\n", json!([{ "a": "x" }, { "b": "z" }])),
            ("%YAML 1.2\n---\na: x\n", json!([{ "a": "x" }])),
            ("a: x\n...\n%YAML 1.2\n---\nb: z\n", json!([{ "a": "x" }, { "b": "z" }])),
            // In a text it is text.
            ("a: |\n  ---\n  x\n", json!([{ "a": "---\nx\n" }])),
        ] {
            assert_eq!(documents(text).map(serde_json::Value::from), Ok(expected), "{text}");
        }
        assert!(documents("a: x\n---\nb: [\n").is_err());
    }
}
