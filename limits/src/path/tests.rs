//! Tables of paths, and the laws that they keep.

use super::*;

#[test]
fn one_form() {
    let rows: &[(&[u8], &[u8])] = &[
        (b"/login", b"/login"),
        (b"/login/", b"/login"),
        (b"/login?next=/a#b", b"/login"),
        (b"/login#b", b"/login"),
        (b"/%6cog%49n", b"/login"),
        (b"//login", b"/login"),
        (b"/./login/.", b"/login"),
        (b"/a/../login", b"/login"),
        (b"/a/..;x=y/login;z", b"/login"),
        (b"/a/%2e%2e/login", b"/login"),
        (b"/a%2f..%2Flogin", b"/login"),
        (b"\\login", b"/login"),
        (b"/a%5c..%5clogin", b"/login"),
        (b"/../../login", b"/login"),
        (b"/LOGIN", b"/login"),
        // Once, as applications do.
        (b"/%256cogin", b"/%6cogin"),
        (b"/%4A%4f%6A", b"/joj"),
        (b"/%4g%g4%4G", b"/%4g%g4%4g"),
        (b"/a%", b"/a%"),
        (b"/a%4", b"/a%4"),
        (b"/a%zz", b"/a%zz"),
        (b"/a%00b", b"/a\0b"),
        (b"/\xFF%ff", b"/\xFF\xFF"),
        // Dots and blanks at the end of a segment.
        (b"/login%20", b"/login"),
        (b"/login.", b"/login"),
        (b"/login. .%09%0d%0a", b"/login"),
        (b"/login%00", b"/login"),
        (b"/login%7f;x", b"/login"),
        (b"/login .;x /y", b"/login/y"),
        (b"/internal./x", b"/internal/x"),
        (b"/internal%20/x", b"/internal/x"),
        (b"/login%c2%a0%C2%85", b"/login"),
        (b"/login%e1%9a%80%e2%80%80%e2%80%8a%e2%80%a8%e2%80%af%e2%81%9f%e3%80%80", b"/login"),
        (b"/a/..%20/login", b"/login"),
        (b"/a/.%20/..;x/login", b"/login"),
        (b"/.../%20/. /login", b"/login"),
        // A dot before a name, a blank within one, and a plus are not at its end, or no blank.
        (b"/.well-known/a%20b", b"/.well-known/a b"),
        (b"/c++", b"/c++"),
        (b"/%e2%80%8b", b"/\xE2\x80\x8B"),
        (b"/a%ff%a0", b"/a\xFF\xA0"),
        // Wide dots and slashes.
        (b"/a/%ef%bc%8e%ef%bc%8e/login", b"/login"),
        (b"/a/%e2%80%a5/login%ef%b9%92", b"/login"),
        (b"/a/%E2%80%A4./login", b"/login"),
        ("/a\u{ff0f}..\u{ff3c}login\u{fe68}".as_bytes(), b"/login"),
        (b"*", b"/*"),
        (b"", b"/"),
        (b"/", b"/"),
        (b"?", b"/"),
    ];
    for (given, expected) in rows {
        let shown = String::from_utf8_lossy(given);
        let once = normalized(given);
        assert_eq!(once, *expected, "{shown}: {}", String::from_utf8_lossy(&once));
        assert!(once.len() <= given.len() + 1, "{shown}");
    }
}

#[test]
fn paths_that_could_mean_another() {
    for (path, expected) in [
        ("/", false),
        ("/a/b.c/d-e_f~g", false),
        ("/a%20b%3a/%e4", false),
        ("/a?x=..//;%2f", false),
        ("/a/.b/c", false),
        ("/a./.b/c", true),
        ("/a.", true),
        ("/a%20", true),
        ("/a%20/b", true),
        ("/a ", true),
        ("/a%c2%a0/b", true),
        ("/a%e3%80%80", true),
        ("/%20", true),
        ("/a+", false),
        ("/c++/", false),
        ("/%20a/b%20c", false),
        ("/.;x./a", true),
        ("/.%3b./a", true),
        ("/.%7f./a", true),
        ("/%ef%bc%8e%ef%bc%8e/a", true),
        ("/\u{ff0e}/a", true),
        ("/a%EF%BC%8Fb", true),
        ("/%e2%80%a5", true),
        ("/%ef%bc%8d/%e2%80%a6/%ef%bd%9e", false),
        ("/a/../b", true),
        ("/a..b", true),
        ("/./a", true),
        ("/a/.", true),
        ("//a", true),
        ("/a/", false),
        ("/a\\b", true),
        ("/a;b", true),
        ("/a#b", true),
        ("/a%2Fb", true),
        ("/a%2eb", true),
        ("/a%5Cb", true),
        ("/a%3bb", true),
        ("/a%252f", true),
        ("/a%00", true),
        ("/a%1f", true),
        ("/a%7F", true),
        ("/a%2E%2f", true),
        ("/a%2fb", true),
        ("/a%2Eb", true),
        ("/a%3Bb", true),
        ("/a%5cb", true),
        ("/a%7fb", true),
        ("/a%24%26%3a%3c%5b%5d%7e", false),
        ("/a%c0%af", true),
        ("/a\u{1}", true),
        ("/a\u{1f}b", true),
        ("/a\u{7f}b", true),
        ("/a b", false),
        // Overlong: '.', '/', '\' and NUL, in two, three and four bytes.
        ("/%c0%ae", true),
        ("/%C1%9c", true),
        ("/%c0%80", true),
        ("/%u002e", true),
        ("/%e0%80%ae", true),
        ("/%E0%80%AF", true),
        ("/%e0%81%9c", true),
        ("/%e0%80%80", true),
        ("/%e0%9f%bf", true),
        ("/%f0%80%80%ae", true),
        ("/%F0%80%80%AF", true),
        ("/%f0%80%81%9c", true),
        ("/%f0%80%80%80", true),
        ("/%f0%8f%bf%bf", true),
        ("/%f8%80%80%80%ae", true),
        ("/%fc%80%80%80%80%ae", true),
        // The least characters of three and four bytes, and what is no UTF-8 at all.
        ("/%c2%80/%e0%a0%80/%f0%90%80%80", false),
        ("/\u{80}/\u{800}/\u{10000}", false),
        ("/%e0/%e0%20a/%f0", false),
    ] {
        assert_eq!(is_ambiguous(path.as_bytes()), expected, "{path}");
    }
    for path in [&b"/\xc0\xae"[..], b"/\xe0\x80\xaf", b"/%e0\x80\xaf", b"/\xf0\x80\x80\xaf"] {
        assert!(is_ambiguous(path), "{path:x?}");
    }
}

#[test]
fn templates() {
    let longest = "/a".repeat(TEMPLATE_SEGMENTS_MAX);
    let (dotted, longer) = (longest.replace('/', "./") + ".", longest.clone() + "/a");
    let rows: &[(&str, &[&str], &[&str])] = &[
        ("/", &["/", ""], &["/a"]),
        ("/login", &["/login", "/LOGIN/", "/a/../login?x"], &["/", "/login/x", "/logins"]),
        ("/Users/{id}/orders", &["/users/7/orders"], &["/users/orders", "/users/7/orders/8"]),
        ("/{a}/{b}", &["/x/y"], &["/x", "/x/y/z"]),
        ("/static/**", &["/static", "/static/a/b"], &["/statics"]),
        ("/static/**/", &["/static", "/static/a/b"], &["/statics"]),
        ("/**", &["/", "/a", "/a/b"], &[]),
        ("/c++/{x}", &["/C++/.a"], &["/c/a", "/c++/."]),
        (&longest, &[&longest, &dotted], &[&longer, &longest[2..]]),
    ];
    for (text, inside, outside) in rows {
        let template = Template::parse(text).unwrap();
        for (paths, expected) in [(inside, true), (outside, false)] {
            for path in *paths {
                let matched = template.matches(&NormalPath::new(path.as_bytes()));
                assert_eq!(matched, expected, "{text} {path}");
            }
        }
    }
}

/// What is exempt by its path is compared in one form, too: a path that becomes another one by more than
/// what all readers do must be ambiguous, or `/open/../x` would be exempt as `/x` is.
#[test]
fn a_path_that_changes_is_ambiguous() {
    const PIECES: [&str; 24] = [
        "/",
        ".",
        ";",
        " ",
        "%20",
        "%2e",
        "%2f",
        "\\",
        "%5c",
        "a",
        "B",
        "%61",
        "+",
        "%",
        "\t",
        "%c2%a0",
        "\u{3000}",
        "\u{ff0e}",
        "%ef%bc%8f",
        "\u{2025}",
        "%00",
        "%7f",
        "-",
        "\u{e9}",
    ];
    let mut random = crate::xorshift::Xorshift::new(7);
    let mut plain = 0;
    for _ in 0..50_000 {
        let length = random.below(7);
        let path: String = (0..length).map(|_| PIECES[random.below(24) as usize]).collect();
        let path = format!("/{path}");
        if is_ambiguous(path.as_bytes()) {
            continue;
        }
        plain += 1;
        let by_all = percent_decoded(path.as_bytes()).to_ascii_lowercase();
        let by_all = by_all.strip_suffix(b"/").filter(|path| !path.is_empty()).unwrap_or(&by_all);
        assert_eq!(normalized(path.as_bytes()), by_all, "{path}");
    }
    assert!(plain > 1_000, "{plain}");
}

/// The route by which the quickstart keeps paths off its open route knows what is ambiguous here. Envoy reads
/// paths as bytes, and takes some beyond ASCII over HTTP/2; no URL has these, so that all of them are closed.
#[test]
fn open_routes_are_not_for_ambiguous_paths() {
    const CONFIGS: [&str; 2] = [
        include_str!("../../../envoy-configs/quickstart/envoy.yaml"),
        include_str!("../../../envoy-configs/resilience/envoy.yaml"),
    ];
    const PIECES: [&str; 25] = [
        "/",
        "/",
        "a",
        ".",
        ";",
        "%",
        "\\",
        "+",
        "~",
        "%20",
        "%2",
        "%2e",
        "%2F",
        "%5C",
        "%3b",
        "%7F",
        "%25",
        "%u",
        "%c",
        "0",
        "%e0%8",
        "%C2%A0",
        "%e2%80",
        "%e3%80%80",
        "%ef%bc%8e",
    ];
    for config in CONFIGS {
        let routes = config.split("- name: closed-ambiguous-").skip(1);
        let regexes: Vec<_> = routes
            .map(|route| route.split('\'').nth(1).unwrap())
            .map(|regex| regex_lite::Regex::new(&format!("^(?:{regex})$")).unwrap())
            .collect();
        assert_eq!(regexes.len(), 2);
        let mut random = crate::xorshift::Xorshift::new(7);
        let check = |path: &str| {
            let wanted = is_ambiguous(path.as_bytes());
            let plain = path.bytes().all(|byte| matches!(byte, b'!'..=b'~'));
            let closed = regexes.iter().any(|regex| regex.is_match(path));
            assert_eq!(closed, wanted || !plain, "{path}");
            wanted
        };
        let escaped = |byte: u8| {
            if byte < 0x80 { format!("%{byte:02x}") } else { format!("%{byte:02X}") }
        };
        for code in (0..=0xFFFF).filter_map(char::from_u32) {
            let text: String = code.to_string().bytes().map(escaped).collect();
            check(&format!("/open/{text}/a"));
            check(&format!("/open/{text}b"));
        }
        for first in 0xC0..=0xFF {
            (0x80..=0xBF)
                .for_each(|second| _ = check(&format!("/open/%{first:x}%{second:X}%80%80b")));
        }
        let mut ambiguous = 0;
        for _ in 0..20_000 {
            let length = random.below(6);
            let path: String = (0..length).map(|_| PIECES[random.below(25) as usize]).collect();
            ambiguous += u32::from(check(&format!("/open/{path}")));
        }
        assert!((5_000..19_000).contains(&ambiguous), "{ambiguous}");
    }
}

#[test]
fn wrong_templates() {
    let long = "/a".repeat(TEMPLATE_SEGMENTS_MAX + 1);
    let rows = [
        ("", TemplateError::NoSlash),
        ("login", TemplateError::NoSlash),
        ("/a//b", TemplateError::NotNormal),
        ("/a/../b", TemplateError::NotNormal),
        ("/a/./b", TemplateError::NotNormal),
        ("/a?b", TemplateError::NotNormal),
        ("/a#b", TemplateError::NotNormal),
        ("/a\\b", TemplateError::NotNormal),
        ("/a;b", TemplateError::NotNormal),
        ("/%61", TemplateError::NotNormal),
        ("/a.", TemplateError::NotNormal),
        ("/a /b", TemplateError::NotNormal),
        ("/\u{ff0e}a", TemplateError::NotNormal),
        ("/a/**/b", TemplateError::Wildcard),
        ("/a**", TemplateError::Wildcard),
        ("/a/*", TemplateError::Wildcard),
        ("/a{b}", TemplateError::Wildcard),
        ("/{a", TemplateError::Wildcard),
        ("/a}", TemplateError::Wildcard),
        ("/{}", TemplateError::Wildcard),
        ("/{a}{b}", TemplateError::Wildcard),
        (&long, TemplateError::TooLong),
    ];
    for (text, expected) in rows {
        assert_eq!(Template::parse(text), Err(expected), "{text}");
    }
    assert!(Template::parse(&long[2..]).is_ok());
    for (error, expected) in [
        (TemplateError::NoSlash, "begins with '/'"),
        (TemplateError::NotNormal, "it has a query, an escape"),
        (TemplateError::Wildcard, "write {name} for one whole segment"),
        (TemplateError::TooLong, "write at most 32 segments"),
    ] {
        assert!(error.to_string().contains(expected), "{error}");
    }
}
