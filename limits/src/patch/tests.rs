//! What is refused as a patch, and what the conditions of one fit.

use super::*;
use serde_json::json;

/// The rest is checked with the patches that there are, in `rules/tests/virtual_patches.rs`.
#[test]
fn wrong_patches() {
    let good = json!({"id": "a", "cve": "CVE-2021-1", "title": "t", "rule": 9_100_000,
        "expires": "2027-01-31", "forms": false, "shadow": false,
        "when": [{"target": "path", "contains": "/x"}]});
    let patch = Patch::read(&good).unwrap();
    assert!(patch.holds(1_801_439_999) && !patch.holds(1_801_440_000));
    let rows = [
        ("/id", json!("a b"), "id: write letters"),
        ("/cve", json!("2021"), "cve: write such as"),
        ("/title", json!("it's"), "title: write it without quotes"),
        ("/title", json!("a".repeat(257)), "title: write a text of up to 256"),
        ("/id", json!(""), "id: write letters"),
        ("/rule", json!(1), "rule: write a number"),
        ("/rule", json!(9_099_999), "rule: write a number"),
        ("/rule", json!(9_110_000), "rule: write a number"),
        ("/forms", json!("yes"), "forms: write true or false"),
        ("/shadow", json!(1), "shadow: write true or false"),
        ("/expires", json!("2027-02-30"), "expires: write a day"),
        ("/expires", json!("2027-1-31"), "expires: write a day"),
        ("/expires", json!("2027-01-31-1"), "expires: write a day"),
        ("/when", json!([]), "when: write a list"),
        ("/when/0", json!({"target": "body", "contains": "x"}), "when[0].target: write method"),
        ("/when/0", json!({"target": "path", "pattern": "x"}), "when[0]: there is no field"),
        (
            "/when/0",
            json!({"target": "path", "regex": "(a"}),
            "when[0].regex: \"(a\" is no pattern",
        ),
        ("/when/0", json!({"target": "path", "regex": "^a"}), "when[0].regex: write \\A or \\z"),
        ("/when/0", json!({"target": "path", "regex": "a\\b"}), "when[0].regex: behind \\ write"),
        ("/when/0", json!({"target": "path", "regex": "(?=a)"}), "when[0].regex: write groups as"),
        ("/when/0", json!({"target": "path", "regex": "[a[b]]"}), "when[0].regex: write \\["),
        ("/when/0", json!({"target": "path", "regex": "(?:a{200}){200}"}), "when[0].regex: "),
        ("/when/0", json!({"target": "path", "regex": "[a&&b]"}), "when[0].regex: write no class"),
        ("/when/0", json!({"target": "path", "regex": "[a--b]"}), "when[0].regex: write no class"),
        ("/when/0", json!({"target": "path", "regex": "[]a]"}), "when[0].regex: write \\]"),
        ("/when/0", json!({"target": "path", "regex": "[^]a]"}), "when[0].regex: write \\]"),
        ("/when/0", json!({"target": "path", "regex": "[\\A]"}), "when[0].regex: behind \\ write"),
        ("/when/0", json!({"target": "path", "regex": "a$"}), "when[0].regex: write \\A or"),
        ("/when/0", json!({"target": "path", "regex": "a++"}), "when[0].regex: write no +"),
        ("/when/0", json!({"target": "path", "regex": "a{,3}"}), "when[0].regex: write {0,"),
        ("/when/0", json!({"target": "path", "regex": "%41"}), "when[0].regex: write no quotes"),
        ("/when/0", json!({"target": "path", "equals": "a\tb"}), "when[0].equals: write a text"),
        ("/when/0", json!({"target": "path", "equals": []}), "when[0].equals: write a text"),
        ("/when/0", json!({"target": "path", "equals": vec!["a"; 17]}), "when[0].equals: "),
        ("/when/0", json!({"target": "path", "equals": "a".repeat(257)}), "when[0].equals: "),
        (
            "/when/0",
            json!({"target": "path", "equals": "a", "prefix": "a"}),
            "when[0]: write one of",
        ),
        ("/when", json!(vec![&good["when"][0]; 9]), "when: write a list"),
        ("/when/0", json!({"target": "path"}), "when[0]: write one of"),
        ("/when/0", json!({"target": "path", "prefix": ""}), "when[0].prefix: write a text"),
        ("/when/0", json!({"target": "header", "prefix": "a"}), "when[0].name: write"),
        ("/when/0", json!({"target": "header", "name": "", "prefix": "a"}), "when[0].name: write"),
        ("/when/0", json!({"target": "header", "name": "a b", "prefix": "a"}), "when[0].name: "),
        ("/when/0", json!({"target": "header", "name": [], "prefix": "a"}), "when[0].name: "),
        (
            "/when/0",
            json!({"target": "header", "name": vec!["a"; 17], "prefix": "a"}),
            "when[0].name: ",
        ),
        (
            "/when/0",
            json!({"target": "argument", "name": ["a", "b"], "prefix": "a"}),
            "when[0].name: write one name",
        ),
        (
            "/when/0",
            json!({"target": "header", "name": "a".repeat(257), "prefix": "a"}),
            "when[0].name: write",
        ),
        (
            "/when/0",
            json!({"target": "path", "regex": "a"}),
            "when[0].regex: the patch \"a\" begins with a pattern, which costs some hundred times",
        ),
        (
            "/when/0",
            json!({"target": "path", "equals": format!("/{}", "a/".repeat(32))}),
            "when[0].equals: write at most 32 segments",
        ),
        (
            "/when/0",
            json!({"target": "path", "contains": "/a\\b"}),
            "when[0].contains: write / for a separator of either kind",
        ),
        ("/when/0", json!({"target": "path", "prefix": "a\\b"}), "when[0].prefix: write / for"),
        ("", json!(7), ": write an object"),
    ];
    for (pointer, value, expected) in rows {
        let mut wrong = good.clone();
        *wrong.pointer_mut(pointer).unwrap() = value;
        let told = Patch::read(&wrong).unwrap_err().to_string();
        assert!(told.starts_with(expected), "{told}");
    }
    // The most that there may be of all.
    let most = json!({"target": "path", "equals": vec!["a".repeat(256); 16]});
    let pattern = json!({"target": "path", "regex": "\\A[^a-z\\]&]{2,3}(?:\\.|\\d)+(b|c)\\z"});
    let mut full = good;
    full["rule"] = json!(9_109_999);
    full["when"] = json!([most, most, most, most, most, most, most, pattern]);
    let patch = Patch::read(&full).unwrap();
    assert_eq!(Patch::read(&full).as_ref(), Ok(&patch));
}

#[test]
fn a_patch_as_a_chain_of_rules() {
    let when = json!([
        {"target": "method", "equals": "Post"},
        {"target": "path", "prefix": ["/a-b", "/c"]},
        {"target": "query", "contains": "x=1"},
        {"target": "header", "name": "X-A", "suffix": "z"},
        {"target": "argument", "name": "Q", "regex": "a+|b"},
    ]);
    let patch = json!({"id": "a", "cve": "CVE-2021-1", "title": "t", "rule": 9_100_000,
        "when": when});
    let told = Patch::read(&patch).unwrap().to_seclang();
    let head = "id:9100000,phase:1,deny,status:403,log,msg:'t',tag:'virtual-patch/a',\
                tag:'CVE-2021-1'";
    let first =
        format!(r#"SecRule REQUEST_METHOD "@rx \A(?:post)\z" "{head},t:none,t:lowercase,chain""#);
    let gap = r"[\x00-\x20.\x2f\x5c]*(?:(?:[\x2f\x5c][^\x2f\x5c]*)*[\x2f\x5c]\x2e\x2e[\x00-\x20.\x2f\x5c]*)?(?:\x3b.*)?";
    let end = r"[\x00-\x20.]*(?:[\x3b\x2f\x5c]|\z)";
    let path = format!(r"(?is)(?:\A{gap}[\x2f\x5c]a\x2db{end}|\A{gap}[\x2f\x5c]c{end})");
    let path = format!(r#"SecRule REQUEST_FILENAME "@rx {path}""#);
    let path = format!(r#"{path} "t:none,t:urlDecodeUni,t:urlDecodeUni,t:lowercase,chain""#);
    let expected = [
        first.as_str(),
        path.as_str(),
        r#"SecRule QUERY_STRING "@rx (?:x\x3d1)" "t:none,t:urlDecode,t:lowercase,chain""#,
        r#"SecRule REQUEST_HEADERS:x-a "@rx (?:z)\z" "t:none,t:lowercase,chain""#,
        r#"SecRule ARGS_GET:/^\x20*q(?:[\[\x00].*)?$/ "@rx (?is)(?:a+|b|\A.{1000}.)" "t:none,t:lowercase""#,
    ];
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
}

/// A request with a target, and two fields of one name.
struct Request(&'static str);

impl Head for Request {
    fn method(&self) -> Vec<u8> {
        b"POST".to_vec()
    }

    fn target(&self) -> Vec<u8> {
        self.0.as_bytes().to_vec()
    }

    fn headers(&self, name: &str) -> Vec<Vec<u8>> {
        let values = if name == "x-a" { &["One", "Two"][..] } else { &[] };
        values.iter().map(|value| value.as_bytes().to_vec()).collect()
    }
}

#[test]
fn what_conditions_fit() {
    let path = |operator: &str, value: &str| json!({"target": "path", operator: value});
    let query = |operator: &str, value: &str| json!({"target": "query", operator: value});
    let q = |value: &str| json!({"target": "argument", "name": "Q", "equals": value});
    let a_b = |value: &str| json!({"target": "argument", "name": "a_b", "equals": value});
    let x_a =
        |operator: &str, value: &str| json!({"target": "header", "name": "X-A", operator: value});
    let rows = [
        (json!({"target": "method", "equals": "Post"}), "/", true),
        (json!({"target": "method", "equals": "pos"}), "/", false),
        (path("equals", "/a/b"), "/A/b?x", true),
        (path("equals", "/a/b"), "/a/bc", false),
        (json!({"target": "path", "equals": ["/a", "/b"]}), "/b", true),
        (path("prefix", "/a/"), "/a/x", true),
        (path("prefix", "/a/"), "/a", false),
        (path("prefix", "/a/"), "/b/a/", false),
        (path("prefix", "/"), "/", true),
        (path("prefix", "/"), "/x", true),
        (path("suffix", ".php"), "/x.PHP", true),
        (path("suffix", ".php"), "/x.php5", false),
        (path("contains", "b"), "/ab", true),
        (path("contains", "b"), "/a", false),
        (path("contains", "/../"), "/x/../y", true),
        // Decoded three times, and not four times.
        (path("contains", "/../"), "/x/%252e%2e%252fy", true),
        (path("contains", "/../"), "/x/%25252e./y", true),
        (path("contains", "/../"), "/x/%2525252e./y", false),
        (path("equals", "/a/b"), "/%u0041/%uff42", true),
        (path("equals", "/a/b"), "/%u00e1/b", false),
        (path("equals", "/a/b"), "/a/%u00b", false),
        // However it is spelled.
        (path("equals", "/a/b"), "//a/.//b/%20.;x/y", true),
        (path("equals", "/a/b"), "/;x=y/a;x\\b", true),
        (path("equals", "/a/b"), "/x/y/../../a/x/..;y/b", true),
        (path("equals", "/a/b"), "/a//../b", true),
        (path("equals", "/a/b"), "/a/x/b", false),
        (path("equals", "/a/b"), "/a/../x/b", false),
        (path("equals", "/a/b"), "/a/b/c/..", true),
        (path("equals", "/a/b"), "/a/b/../c", false),
        (path("equals", "/a/b"), "/x/a/b", false),
        (path("equals", "/a/b"), "/a/b#/c", true),
        // A server may cut parameters before it decodes them.
        (path("equals", "/a/b"), "/a/b;%2f..%2fc", true),
        (path("equals", "/a/b"), "/a;%252fc/b", true),
        (path("equals", "/a/"), "/a", false),
        (path("equals", "/a/"), "/a/", true),
        // Segments, not bytes.
        (path("prefix", "/a"), "/ab", false),
        (path("prefix", "/a"), "/a;b", true),
        (path("prefix", "/a"), "/a.", true),
        (path("prefix", "/a"), "/a.b", false),
        (path("prefix", "/a/b/"), "/a/x/../b/c", true),
        (path("prefix", "/a/b/"), "/x/../a/./b;c/d", true),
        (path("prefix", "/a/;"), "/a/;b", true),
        (path("prefix", "//a/"), "/a/", false),
        (path("prefix", "//a/"), "/;/a/", true),
        (path("suffix", "/b"), "/ab", false),
        (path("suffix", "/b"), "/a/b/.", true),
        (path("suffix", "/a/b"), "/x/a/;/b", true),
        (path("suffix", "a/b"), "/xa//b", true),
        (path("suffix", ".php"), "/x.php/", true),
        (path("suffix", ".php"), "/x.php/y/..", true),
        (path("suffix", ".."), "/x...;y", true),
        (path("suffix", ";a"), "/x;ab/c", true),
        (path("contains", "/a/b"), "/x//a\\bc", true),
        (path("contains", "/a/b"), "/xa/b", false),
        (path("contains", "a/b"), "/xa/b", true),
        (path("contains", "/..;/"), "/x/..;a=b/y", true),
        (path("contains", "/..;/"), "/x/../y", false),
        (path("contains", "/../a/"), "/x/.././a/", true),
        (path("contains", ";s=/a"), "/x;s=1/a", true),
        (path("contains", "a\\b"), "/a%5Cbc", true),
        (path("contains", "a\\b"), "/a/b", false),
        (path("regex", "\\A/v[0-9]+\\z"), "/V12", true),
        (path("regex", "\\A/v[0-9]+\\z"), "/v1/v", false),
        (path("regex", "\\A/a\\/v[0-9]+\\z"), "//a;x/;y/./V12/;z", true),
        (path("regex", "\\A/[/]"), "\\/", true),
        (query("contains", "a b"), "/?q=A+b", true),
        (query("contains", "a b"), "/?q=a%20b", true),
        (query("contains", "a b"), "/?q=a%2520b", false),
        (query("contains", "?"), "/?a?b", true),
        (query("contains", "?"), "/?a", false),
        (x_a("equals", "two"), "/", true),
        (x_a("equals", "three"), "/", false),
        (x_a("prefix", "on"), "/", true),
        (json!({"target": "header", "name": "x-b", "contains": "o"}), "/", false),
        (q("1=2"), "/?q=1=2", true),
        (q("1=2"), "/?x=1&&%51=1%3d2&y", true),
        (q("1=2"), "/?q%3d1=2", false),
        (q("1=2"), "/?q=1&q", false),
        (q("1"), "/?%20+q=1", true),
        (q("1"), "/?q[]=1", true),
        (q("1"), "/?q%00x=1", true),
        (q("1"), "/?qx=1", false),
        (q("1"), "/?xq=1", false),
        (q("1"), "/?q.=1", false),
        (a_b("1"), "/?a.b=1", true),
        (a_b("1"), "/?a%20b=1", true),
        (a_b("1"), "/?a[b=1", true),
        (a_b("1"), "/?a-b=1", false),
        (json!({"target": "header", "name": ["x-b", "X-A"], "equals": "two"}), "/", true),
    ];
    let first = json!({"target": "method", "equals": "post"});
    for (condition, target, expected) in rows {
        let patch = |when: Value| {
            let patch = json!({"id": "a", "cve": "CVE-2021-1", "title": "t",
                "rule": 9_100_000, "when": when});
            Patch::read(&patch).unwrap()
        };
        let request = Request(target);
        let matches = |patch: &Patch| patch.matches(&Prepared::new(&request));
        assert_eq!(matches(&patch(json!([first, condition]))), expected, "{condition} {target}");
        // All conditions of a patch have to hold.
        let other = json!({"target": "path", "prefix": "/other"});
        assert!(!matches(&patch(json!([first, condition, other]))), "{condition} {target}");
    }
}

/// A request with this target, and this value in the field `x-a`.
struct Sized(String, String);

impl Head for Sized {
    fn method(&self) -> Vec<u8> {
        b"GET".to_vec()
    }

    fn target(&self) -> Vec<u8> {
        self.0.clone().into_bytes()
    }

    fn headers(&self, _: &str) -> Vec<Vec<u8>> {
        vec![self.1.clone().into_bytes()]
    }
}

/// At each limit, and one above it.
#[test]
fn what_is_too_long() {
    let rows = [
        (format!("/{}", "a".repeat(PATH_BYTES_MAX - 1)), false),
        (format!("/{}", "a".repeat(PATH_BYTES_MAX)), true),
        (format!("/{}?b", "a".repeat(PATH_BYTES_MAX)), true),
        (format!("/?{}", "a".repeat(TARGET_BYTES_MAX - 2)), false),
        (format!("/?{}", "a".repeat(TARGET_BYTES_MAX - 1)), true),
        ("/a".repeat(PATH_SEGMENTS_MAX - 1), false),
        ("/a".repeat(PATH_SEGMENTS_MAX), true),
        ("%252f".repeat(PATH_SEGMENTS_MAX - 1), false),
        ("%252f".repeat(PATH_SEGMENTS_MAX), true),
    ];
    let patch = |condition: Value| {
        let first = json!({"target": "method", "equals": "GET"});
        let patch = json!({"id": "a", "cve": "CVE-2021-1", "title": "t", "rule": 9_100_000,
            "when": [first, condition]});
        Patch::read(&patch).unwrap()
    };
    let conditions = [
        json!({"target": "path", "equals": "/b"}),
        json!({"target": "query", "equals": "b"}),
        json!({"target": "argument", "name": "b", "contains": "b"}),
    ];
    for (target, expected) in rows {
        let head = Sized(target, String::new());
        let prepared = Prepared::new(&head);
        assert_eq!(prepared.is_too_long(), expected, "{}", head.0.len());
        for condition in conditions.clone() {
            assert_eq!(patch(condition).matches(&prepared), expected, "{}", head.0.len());
        }
    }
    // What a pattern looks at ends there; beyond, it counts as found.
    for (bytes, expected) in [(PATTERN_BYTES_MAX, false), (PATTERN_BYTES_MAX + 1, true)] {
        let value = "a".repeat(bytes);
        let head = Sized(format!("/?q={value}"), value);
        let prepared = Prepared::new(&head);
        for target in [
            json!({"target": "header", "name": "x-a", "regex": "b"}),
            json!({"target": "argument", "name": "q", "regex": "b"}),
        ] {
            assert_eq!(patch(target).matches(&prepared), expected, "{bytes}");
        }
        let looked_at = if expected { 0 } else { 2 * bytes };
        assert_eq!(prepared.work().pattern_bytes, looked_at);
    }
}
