//! Where others keep their rules.

use serde_json::Value;

use super::Given;
use crate::arguments::ImportForm;

/// Nesting of a document that is looked through.
const DEPTH_MAX: usize = 32;

const INGRESS: &str = "nginx.ingress.kubernetes.io/";

/// The rulesets in a file.
pub(super) fn read(form: ImportForm, text: &str) -> Result<Vec<Given>, String> {
    match form {
        ImportForm::ModSecurity => Ok(vec![Given { text: text.to_owned(), ..Given::default() }]),
        ImportForm::CorazaCaddy => Ok(caddy(text)),
        ImportForm::CorazaProxyWasm => {
            let mut given = Vec::new();
            documents(text)?.iter().for_each(|document| proxy_wasm(document, 0, &mut given));
            Ok(given)
        }
        ImportForm::IngressNginx => {
            let mut given = Vec::new();
            documents(text)?.iter().for_each(|document| ingress_nginx(document, &mut given));
            Ok(given)
        }
    }
}

/// The documents of a YAML file, those with nothing in them left out.
fn documents(text: &str) -> Result<Vec<Value>, String> {
    serde_saphyr::from_multiple(text).map_err(|error| error.to_string())
}

/// Ingress objects with annotations, the controller's ConfigMap, and lists of them.
fn ingress_nginx(object: &Value, given: &mut Vec<Given>) {
    for item in object["items"].as_array().into_iter().flatten() {
        ingress_nginx(item, given);
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
            given.push(Given {
                name: Some(name()),
                used_by: hosts(object),
                crs: is_on("enable-owasp-core-rules"),
                mode: Some(if is_on("enable-modsecurity") { "on" } else { "off" }),
                text: said("modsecurity-snippet").unwrap_or_default().to_owned(),
                lost: lost.into_iter().collect(),
            });
        }
        Some("ConfigMap") => {
            let said = |key: &str| object["data"][key].as_str();
            let is_on = |key: &str| said(key) == Some("true");
            if said("enable-modsecurity").is_none() && said("modsecurity-snippet").is_none() {
                return;
            }
            given.push(Given {
                used_by: vec![format!("all Ingresses, by the ConfigMap {}", name())],
                crs: is_on("enable-owasp-modsecurity-crs"),
                mode: Some(if is_on("enable-modsecurity") { "on" } else { "off" }),
                text: said("modsecurity-snippet").unwrap_or_default().to_owned(),
                ..Given::default()
            });
        }
        _ => {}
    }
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
fn proxy_wasm(value: &Value, depth: usize, given: &mut Vec<Given>) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(fields) if fields.contains_key("directives_map") => maps(value, given),
        Value::Object(fields) => {
            fields.values().for_each(|field| proxy_wasm(field, depth + 1, given))
        }
        Value::Array(items) => items.iter().for_each(|item| proxy_wasm(item, depth + 1, given)),
        Value::String(text) if text.contains("directives_map") => {
            if let Ok(value) = serde_json::from_str(text) {
                proxy_wasm(&value, depth + 1, given);
            }
        }
        _ => {}
    }
}

fn maps(config: &Value, given: &mut Vec<Given>) {
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
            text,
            lost: lost.into_iter().collect(),
            ..Given::default()
        });
    }
    given.sort_by_key(|given| given.name.is_some());
}

/// Blocks `coraza_waf` of a Caddyfile, or handlers `waf` of Caddy's JSON.
fn caddy(text: &str) -> Vec<Given> {
    let mut given = Vec::new();
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        handlers(&value, 0, &mut given);
    } else {
        let mut rest = text;
        while let Some((_, block)) = rest.split_once("coraza_waf") {
            // In the global options the name stands as well, in the order of handlers.
            let Some(inside) = block.trim_start().strip_prefix('{') else {
                rest = block;
                continue;
            };
            let end = end_of_block(inside);
            given.push(caddyfile(inside.get(..end).unwrap_or_default()));
            rest = inside.get(end..).unwrap_or_default();
        }
    }
    // Several are told apart by their order.
    let many = given.len() > 1;
    for (index, given) in given.iter_mut().enumerate().filter(|(index, _)| many && *index > 0) {
        given.name = Some(format!("site-{}", index + 1));
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

fn caddyfile(block: &str) -> Given {
    let mut given = Given::default();
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
                    given.text.push_str(&format!("Include {path}\n"));
                }
                Some(word) if word.starts_with('#') => {}
                Some(_) => given.lost.push(format!("{line}: not known")),
            }
        }
        if let Some(directives) = pieces.next() {
            given.text.push_str(directives);
            given.text.push('\n');
        }
    }
    given
}

fn handlers(value: &Value, depth: usize, given: &mut Vec<Given>) {
    if depth > DEPTH_MAX {
        return;
    }
    if value["handler"] == "waf" {
        let mut text = String::new();
        for path in value["include"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            text.push_str(&format!("Include {path}\n"));
        }
        text.push_str(value["directives"].as_str().unwrap_or_default());
        given.push(Given { text, ..Given::default() });
        return;
    }
    match value {
        Value::Object(fields) => {
            fields.values().for_each(|field| handlers(field, depth + 1, given))
        }
        Value::Array(items) => items.iter().for_each(|item| handlers(item, depth + 1, given)),
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
