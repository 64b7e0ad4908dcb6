//! Which requests to the admin port are answered at all.
//!
//! The port listens on the loopback interface, and every page that a browser on the same machine shows can
//! send requests there. Two things are therefore looked at. The name in `Host`: a page can have its own
//! name resolve to 127.0.0.1 (DNS rebinding), but it cannot make the browser send another name than its
//! own. And where the request comes from (`Origin`, `Sec-Fetch-Site`): what another page sends is not
//! answered, unless it is a link that somebody follows. What changes something is of the type
//! `application/json` besides, which no form can send.

use core::net::IpAddr;

use http::{HeaderMap, Method, StatusCode, header, uri::Authority};

/// What of a request is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'r> {
    pub(super) method: &'r Method,
    pub(super) path: &'r str,
    pub(super) headers: &'r HeaderMap,
}

/// Why a request is not answered.
pub(super) type Refused = (StatusCode, &'static str);

/// Probes say nothing that is worth asking for, and come under any name.
pub(super) const OPEN: [&str; 3] = ["/livez", "/healthz", "/readyz"];

/// Whether a request may be answered; `names` are those of this port besides addresses and `localhost`.
pub(super) fn check(seen: &Seen<'_>, names: &[String]) -> Result<(), Refused> {
    let safe = *seen.method == Method::GET || *seen.method == Method::HEAD;
    if !safe && *seen.method != Method::POST && *seen.method != Method::PUT {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD, POST and PUT only\n"));
    }
    if safe && OPEN.contains(&seen.path) {
        return Ok(());
    }
    let host = host(seen.headers).ok_or((StatusCode::BAD_REQUEST, "one Host is needed\n"))?;
    if !is_ours(&host, names) {
        let why =
            "this port is not known under the name in Host: use its address, or see admin.hosts\n";
        return Err((StatusCode::FORBIDDEN, why));
    }
    if !is_from_here(seen, &host, safe) {
        return Err((StatusCode::FORBIDDEN, "not from another page\n"));
    }
    if !safe && !is_json(seen.headers) {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type: application/json only\n"));
    }
    Ok(())
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

fn host(headers: &HeaderMap) -> Option<Authority> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next()?.to_str().ok()?.parse().ok()?;
    hosts.next().is_none().then_some(host)
}

fn is_ours(host: &Authority, names: &[String]) -> bool {
    let name = host.host();
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    address.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn is_from_here(seen: &Seen<'_>, host: &Authority, safe: bool) -> bool {
    if let Some(origin) = text(seen.headers, "origin") {
        let from = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if !from.is_some_and(|from| from.eq_ignore_ascii_case(host.as_str())) {
            return false;
        }
    }
    match text(seen.headers, "sec-fetch-site") {
        None | Some("same-origin" | "none") => true,
        Some(_) => {
            let is = |name, value| text(seen.headers, name) == Some(value);
            safe && is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document")
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = text(headers, "content-type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_answered() {
        let json = "content-type: application/json";
        let local = "host: 127.0.0.1:9101";
        for (method, path, headers, status) in [
            ("GET", "/metrics", &[local][..], 200),
            ("GET", "/metrics", &["host: [::1]:9101"], 200),
            ("GET", "/metrics", &["host: localhost:9101"], 200),
            ("GET", "/metrics", &["host: LOCALHOST"], 200),
            ("GET", "/metrics", &["host: 10.0.0.7:9101"], 200),
            ("GET", "/metrics", &["host: waf.internal:9101"], 200),
            // DNS rebinding: the name of another page, which resolves to this machine.
            ("GET", "/metrics", &["host: evil.example:9101"], 403),
            ("GET", "/metrics", &["host: 127.0.0.1.evil.example"], 403),
            ("GET", "/metrics", &["host: localhost.evil.example"], 403),
            ("GET", "/metrics", &[local, "host: evil.example"], 400),
            ("GET", "/metrics", &[], 400),
            ("GET", "/metrics", &["host: 127.0.0.1@evil.example"], 403),
            // Probes come under any name.
            ("GET", "/readyz", &["host: pod.example"], 200),
            ("GET", "/healthz", &[], 200),
            ("GET", "/livez", &["host: pod.example"], 200),
            ("POST", "/healthz", &["host: pod.example", json], 403),
            // Our own page.
            (
                "GET",
                "/status",
                &[local, "sec-fetch-site: same-origin", "sec-fetch-mode: cors"],
                200,
            ),
            ("POST", "/explain", &[local, "origin: http://127.0.0.1:9101", json], 200),
            // Another page: its script, a picture in it, a form, a frame; and a link in it.
            ("GET", "/config", &[local, "origin: http://evil.example"], 403),
            ("GET", "/config", &[local, "origin: null"], 403),
            ("GET", "/config", &[local, "origin: http://127.0.0.1:8080"], 403),
            (
                "GET",
                "/config",
                &[
                    local,
                    "sec-fetch-site: cross-site",
                    "sec-fetch-mode: no-cors",
                    "sec-fetch-dest: image",
                ],
                403,
            ),
            (
                "GET",
                "/",
                &[
                    local,
                    "sec-fetch-site: cross-site",
                    "sec-fetch-mode: navigate",
                    "sec-fetch-dest: iframe",
                ],
                403,
            ),
            (
                "GET",
                "/",
                &[
                    local,
                    "sec-fetch-site: cross-site",
                    "sec-fetch-mode: navigate",
                    "sec-fetch-dest: document",
                ],
                200,
            ),
            (
                "POST",
                "/explain",
                &[
                    local,
                    json,
                    "sec-fetch-site: cross-site",
                    "sec-fetch-mode: navigate",
                    "sec-fetch-dest: document",
                ],
                403,
            ),
            ("PUT", "/log-level", &[local, json, "sec-fetch-site: same-site"], 403),
            ("POST", "/explain", &[local, "content-type: text/plain"], 415),
            ("PUT", "/log-level", &[local], 415),
            ("PUT", "/log-level", &[local, "content-type: application/json; charset=utf-8"], 200),
            // What asks before another page sends something is not answered either.
            ("OPTIONS", "/log-level", &[local, "origin: http://evil.example"], 405),
            ("DELETE", "/log-level", &[local], 405),
        ] {
            let mut map = HeaderMap::new();
            for header in headers {
                let (name, value) = header.split_once(": ").unwrap();
                let name: http::HeaderName = name.parse().unwrap();
                map.append(name, value.parse().unwrap());
            }
            let method: Method = method.parse().unwrap();
            let seen = Seen { method: &method, path, headers: &map };
            let found = check(&seen, &["waf.internal".to_owned()]);
            let found = found.map_or_else(|(status, _)| status.as_u16(), |()| 200);
            assert_eq!(found, status, "{method} {path} {headers:?}");
        }
    }
}
