//! What a browser sends with each request: 10 to 14 headers, most with cookies.

use crate::{random::Random, request::Headers, words};

pub(crate) const HOST: &str = "shop.example.com";

const AGENTS: &[&str] = &[
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Mobile Safari/537.36",
];

const LANGUAGES: &[&str] =
    &["en-US,en;q=0.9", "en-GB,en;q=0.8,de;q=0.5", "de-DE,de;q=0.9,en;q=0.6", "fr-FR,fr;q=0.9"];

const BRANDS: &[&str] = &[
    r#""Not)A;Brand";v="8", "Chromium";v="138", "Google Chrome";v="138""#,
    r#""Chromium";v="137", "Not/A)Brand";v="24""#,
];

/// What is asked for, as far as headers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetch {
    Page,
    Form,
    Static(&'static str),
    Api,
}

/// The headers of one request. With a body there are two more, and then fewer of these.
pub(crate) fn headers(random: &mut Random, fetch: Fetch) -> Headers {
    let (accept, mode, destination) = match fetch {
        Fetch::Page | Fetch::Form => (PAGE_ACCEPT, "navigate", "document"),
        Fetch::Static(destination) => (static_accept(destination), "no-cors", destination),
        Fetch::Api => ("application/json, text/plain, */*", "cors", "empty"),
    };
    let mut headers: Headers = vec![
        ("Host", HOST.to_owned()),
        ("Connection", "keep-alive".to_owned()),
        ("User-Agent", random.pick(AGENTS).to_owned()),
        ("Accept", accept.to_owned()),
        ("Accept-Encoding", "gzip, deflate, br, zstd".to_owned()),
        ("Accept-Language", random.pick(LANGUAGES).to_owned()),
        ("Sec-Fetch-Site", "same-origin".to_owned()),
        ("Sec-Fetch-Mode", mode.to_owned()),
        ("Sec-Fetch-Dest", destination.to_owned()),
        ("Referer", format!("https://{HOST}{}", words::path(random))),
    ];
    if matches!(fetch, Fetch::Form | Fetch::Api) {
        headers.push(("Origin", format!("https://{HOST}")));
    } else if random.chance(60) {
        headers.push(("sec-ch-ua", random.pick(BRANDS).to_owned()));
        headers.push(("sec-ch-ua-mobile", "?0".to_owned()));
    }
    if fetch == Fetch::Page && random.chance(70) {
        headers.push(("Upgrade-Insecure-Requests", "1".to_owned()));
    }
    if random.chance(70) {
        headers.push(("Cookie", cookie(random)));
    }
    headers
}

const PAGE_ACCEPT: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8";

fn static_accept(destination: &str) -> &'static str {
    match destination {
        "style" => "text/css,*/*;q=0.1",
        "image" => "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8",
        _ => "*/*",
    }
}

/// A session, and often what consent, a basket and a measurement leave behind.
fn cookie(random: &mut Random) -> String {
    let mut cookie = format!("session={}", random.hex(32));
    if random.chance(60) {
        cookie += &format!("; consent=v2.{}.{}", random.between(1, 7), random.hex(8));
    }
    if random.chance(40) {
        let ids: Vec<String> = (0..3).map(|_| random.between(1_000, 9_999).to_string()).collect();
        cookie += &format!("; basket={}", ids.join("."));
    }
    if random.chance(50) {
        let (visitor, time) = (random.between(100_000_000, 999_999_999), 1_780_000_000);
        cookie += &format!("; visit=1.{visitor}.{}", time + random.between(0, 9_999_999));
    }
    if random.chance(40) {
        cookie += &format!("; theme={}", random.pick(&["dark", "light", "auto"]));
    }
    cookie
}
