//! The paths of `servers`, before all paths of a document. Schemes and hosts are not compared.

use serde_json::Value;

use crate::{
    error::{DocumentError, Place},
    limits::Limits,
    path::Template,
};

/// The base paths of the servers that a document, a path item or an operation names.
pub(super) fn of(
    holder: &Value,
    place: &Place<'_>,
    limits: &Limits,
) -> Result<Vec<Template>, DocumentError> {
    let place = Place::In(place, "servers");
    let servers = match holder.get("servers") {
        None => return Ok(vec![base_path("/", &place)?]),
        Some(Value::Array(servers)) if servers.is_empty() => {
            return Ok(vec![base_path("/", &place)?]);
        }
        Some(Value::Array(servers)) => servers,
        Some(_) => return Err(DocumentError::new(&place, "expected a list of servers")),
    };
    let mut bases: Vec<Template> = Vec::new();
    for (at, server) in servers.iter().enumerate() {
        let place = Place::Item(&place, at);
        let url = server.get("url").and_then(Value::as_str);
        let url = url.ok_or_else(|| DocumentError::new(&place, "a server needs `url`"))?;
        for url in expanded(url, server, &place, limits)? {
            let base = base_path(path_of(&url), &place)?;
            if !bases.contains(&base) {
                bases.push(base);
            }
        }
    }
    Ok(bases)
}

/// A path before all others.
pub(super) fn base_path(path: &str, place: &Place<'_>) -> Result<Template, DocumentError> {
    let path = path.trim_end_matches('/');
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let template = Template::parse(&path).map_err(|why| DocumentError::new(place, why))?;
    match template.names().first() {
        None => Ok(template),
        Some(name) => {
            Err(DocumentError::new(place, format!("the server variable `{name}` is not declared")))
        }
    }
}

/// The path of a URL, which may be relative.
fn path_of(url: &str) -> &str {
    let Some((_, rest)) = url.split_once("://") else { return url };
    rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/")
}

/// The URL with each value of its variables.
fn expanded(
    url: &str,
    server: &Value,
    place: &Place<'_>,
    limits: &Limits,
) -> Result<Vec<String>, DocumentError> {
    let mut urls = vec![url.to_owned()];
    let variables = server.get("variables").and_then(Value::as_object);
    for (name, variable) in variables.into_iter().flatten() {
        let written = format!("{{{name}}}");
        // Of variables of the host nothing is compared.
        let is_used = |url: &String| path_of(url).contains(&written);
        if !urls.iter().any(is_used) {
            let default = variable.get("default").and_then(Value::as_str).unwrap_or_default();
            urls.iter_mut().for_each(|url| *url = url.replace(&written, default));
            continue;
        }
        let values: Vec<&str> = match variable.get("enum").and_then(Value::as_array) {
            Some(values) => values.iter().filter_map(Value::as_str).collect(),
            None => variable.get("default").and_then(Value::as_str).into_iter().collect(),
        };
        if urls.len() * values.len() > limits.base_paths_max {
            let max = limits.base_paths_max;
            let message = format!("the variables of the server stand for more than {max} paths");
            return Err(DocumentError::new(place, message));
        }
        urls = urls
            .iter()
            .flat_map(|url| values.iter().map(|value| url.replace(&written, value)))
            .collect();
    }
    Ok(urls)
}
