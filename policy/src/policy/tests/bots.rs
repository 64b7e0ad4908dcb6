//! Bots among the checks: who is denied, who is tagged, and who is neither.

use super::*;

const CURL: &[(&str, &str)] = &[("user-agent", "curl/8.5.0"), ("accept", "*/*")];
const CHROME: &str =
    "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/130.0.0.0 Safari/537.36";

type Row<'a> = (&'a str, &'a [(&'static str, &'static str)], &'a str, &'a str);

/// Each row: the client, what it sends, the verdict, and the tags.
#[track_caller]
fn check_bots(config: &str, rows: &[Row<'_>]) {
    let (policy, shared) = (policy(config), Memory::default());
    for (i, (client, fields, expected, tags)) in rows.iter().enumerate() {
        let fake = Fake { fields: fields.to_vec() };
        let mut facts = Facts::new(&fake, client.parse().ok());
        let verdict = policy.judge(&mut facts, &[], T0, &shared).verdict;
        let told = (policy.property(verdict, &[]), facts.tags.join(","));
        assert_eq!(told, ((*expected).into(), (*tags).to_owned()), "row {i} of {config}");
    }
}

#[test]
fn bots() {
    let sqlmap: &[_] = &[("user-agent", "SQLMap/1.8#stable (https://sqlmap.org)")];
    let named_only: &[_] = &[("user-agent", CHROME)];
    let google: &[_] = &[("user-agent", "Mozilla/5.0 (compatible; Googlebot/2.1) curl/8")];
    let tagged = "bot.tool.curl";
    let both = "bot.claims.googlebot,bot.tool.curl";
    check_bots(
        r#"{"address_lists": {"allow": ["10.0.0.9"]}, "bots": {}}"#,
        &[
            ("10.0.0.1", sqlmap, "denied:bot.scanner.sqlmap", "bot.scanner.sqlmap"),
            ("10.0.0.9", sqlmap, "allowed:list", ""),
            ("10.0.0.1", CURL, "passed", tagged),
            ("10.0.0.1", named_only, "passed", "bot.headers"),
            ("10.0.0.1", google, "passed", both),
            ("10.0.0.1", &[], "passed", "bot.no-agent"),
        ],
    );
    check_bots(
        r#"{"bots": {
            "scanners": "tag", "tools": "off", "shadow": true,
            "signatures": [{"name": "nikto", "contains": "nikto", "action": "off"},
                           {"name": "mine", "contains": "mybot", "action": "deny"}],
            "crawlers": {"networks": {"googlebot": ["192.0.2.0/24"]}, "action": "deny"},
            "browser_score": {"threshold": 6}}, "rate_limits": [
                {"requests": 1, "match": {"tags": ["bot.outside.googlebot"]}}]}"#,
        &[
            ("10.0.0.1", sqlmap, "passed", "bot.scanner.sqlmap"),
            ("10.0.0.1", &[("user-agent", "Nikto/2")], "passed", ""),
            ("10.0.0.1", CURL, "passed", ""),
            ("10.0.0.1", named_only, "passed", ""),
            (
                "10.0.0.1",
                &[("user-agent", "MyBot MYBOT")],
                "shadow:denied:bot.signature.mine",
                "bot.signature.mine",
            ),
            ("192.0.2.1", google, "passed", "bot.verified.googlebot"),
            // A tag of a bot is one for limits.
            ("10.0.0.1", google, "shadow:denied:bot.outside.googlebot", "bot.outside.googlebot"),
            ("10.0.0.1", google, "limited:per-address", "bot.outside.googlebot"),
        ],
    );
    check_bots(
        r#"{"bots": {"browser_score": {"threshold": 5, "action": "deny"}, "tls_fingerprints": {
            "ja3": ["0123456789ABCDEF0123456789abcdef"], "ja4": ["t13d_b_C", "t13d_a_b"]}}}"#,
        &[
            ("10.0.0.1", named_only, "denied:bot.headers", "bot.headers"),
            ("10.0.0.1", &[("user-agent", "x"), ("glacis.ja4", "t13d_a_c")], "passed", ""),
            (
                "10.0.0.1",
                &[("user-agent", "x"), ("glacis.ja4", "t13d_b_c")],
                "denied:bot.tls",
                "bot.tls",
            ),
            (
                "10.0.0.1",
                &[("user-agent", "x"), ("glacis.ja3", "0123456789abcdef0123456789abcdef")],
                "denied:bot.tls",
                "bot.tls",
            ),
        ],
    );
}

/// Scanners by the user-agents that they send by default, or that contain their names.
#[test]
fn scanners() {
    let policy = policy(r#"{"bots": {}}"#);
    let padded = |text: &str, before: usize, after: usize| {
        format!("{}{text}{}", " ".repeat(before), "a".repeat(after))
    };
    let rows = [
        ("dirsearch/0.4.3".to_owned(), "dirsearch"),
        ("katana/1.1.0".to_owned(), "katana"),
        ("Katana - Open-source project (github.com/projectdiscovery/katana)".to_owned(), "katana"),
        ("httpx - Open-source project (github.com/projectdiscovery/httpx)".to_owned(), "httpx"),
        ("Mozilla/5.0 (jaeles v0.17)".to_owned(), "jaeles"),
        ("ghauri/1.3".to_owned(), "ghauri"),
        ("Dalfox/2.9".to_owned(), "dalfox"),
        ("Mozilla/5.0 Burp Suite Professional".to_owned(), "burp"),
        ("Mozilla/5.0 (X11) BurpSuite/2024".to_owned(), "burp"),
        ("Mozilla/5.0 OWASP ZAP".to_owned(), "zap"),
        ("ZAP/2.15".to_owned(), "zap"),
        (
            "Mozilla/5.0 (compatible; CensysInspect/1.1; +https://about.censys.io/)".to_owned(),
            "censys",
        ),
        (
            "Expanse, a Palo Alto Networks company, searches across the global IPv4 space"
                .to_owned(),
            "expanse",
        ),
        ("Mozilla/5.0 zmap/3.0".to_owned(), "zmap"),
        ("sqlmap".to_owned(), "sqlmap"),
        // At the end of a long one, or of one so long that nobody knows what is in its middle.
        (padded("sqlmap/1.7", 2_048, 0), "sqlmap"),
        (padded("sqlmap/1.7", 2_048, 2_038), "sqlmap"),
        (padded("sqlmap/1.7", 50_000, 0), ""),
        (padded("sqlmap/1.7", 0, 50_000), ""),
        (padded("sqlmap/1.7", 25_000, 25_000), ""),
    ];
    for (agent, name) in rows {
        let agent: &'static str = agent.leak();
        let fields = vec![("user-agent", agent)];
        let judgement = judge(&policy, Some("192.0.2.1"), &Fake { fields }, &Memory::default());
        let expected = match name {
            "" => "denied:bot.long-agent".to_owned(),
            name => format!("denied:bot.scanner.{name}"),
        };
        assert_eq!(policy.property(judgement.verdict, &[]), expected, "{agent:.80}");
    }
    // The ends of a long one are looked at all the same, for limits and logs.
    let agent: &'static str = padded("sqlmap/1.7", 50_000, 0).leak();
    let fake = Fake { fields: vec![("user-agent", agent)] };
    let mut facts = Facts::new(&fake, None);
    policy.judge(&mut facts, &[], T0, &Memory::default());
    assert_eq!(facts.tags, ["bot.long-agent", "bot.scanner.sqlmap"]);
}

/// Who browses or calls an API by ordinary means is not refused by what is there by default,
/// nor is any of our own tools.
#[test]
fn ordinary_clients_are_not_refused_as_bots() {
    let policy = policy(r#"{"bots": {}}"#);
    let agents = [
        CHROME,
        "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/17.5 Safari/605.1.15",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) Mobile/15E148",
        "Opera/9.80 (Windows NT 6.1) Presto/2.12 Version/12.18",
        "curl/8.5.0",
        "Wget/1.21.4",
        "Go-http-client/1.1",
        "Go-http-client/2.0",
        "Java/17.0.9",
        "Java-http-client/21.0.1",
        "Apache-HttpClient/5.2 (Java/17.0.9)",
        "okhttp/4.12.0",
        "python-requests/2.31.0",
        "Python-urllib/3.12",
        "python-httpx/0.27.0",
        "httpx.rb/1.3.1",
        "Mozilla/5.0 (Linux; Android 14) [FB_IAB/FB4A;FBAV/470.0;FBPN/com.facebook.katana;]",
        "com.facebook.katana/470.0",
        "AppZap/2.1",
        "Zapier",
        "BurpeeTimer/2.0",
        "GizmaP/1.0 (roadzmap)",
        "Python/3.11 aiohttp/3.9.5",
        "axios/1.7.2",
        "node",
        "undici",
        "aws-sdk-go-v2/1.30.0 os/linux lang/go#1.22",
        "Boto3/1.34.0 md/Botocore#1.34.0",
        "grpc-java-netty/1.64.0",
        "grpc-go/1.64.0",
        "PostmanRuntime/7.39.0",
        "kube-probe/1.30",
        "ELB-HealthChecker/2.0",
        "Prometheus/2.53.0",
        "Envoy/HC",
        "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
        "MyApp/3 CFNetwork/1494 Darwin/23.4.0",
        "Dalvik/2.1.0 (Linux; U; Android 13)",
        "",
    ];
    let accepts: [&[(&str, &str)]; 3] = [
        &[],
        &[("accept", "*/*")],
        &[("accept", "text/html"), ("accept-language", "en"), ("accept-encoding", "gzip")],
    ];
    for (agent, accept) in agents.iter().flat_map(|agent| accepts.map(|accept| (agent, accept))) {
        let fields = [accept, &[("user-agent", agent), (":scheme", "https")]].concat();
        let judgement = judge(&policy, Some("192.0.2.1"), &Fake { fields }, &Memory::default());
        assert_eq!(policy.property(judgement.verdict, &[]), "passed", "{agent} {accept:?}");
    }
}
