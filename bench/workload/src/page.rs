//! Requests of a visitor, and the pages that are answered.

use crate::{
    body,
    browser::{self, Fetch},
    definitions::Kind,
    random::Random,
    request::{Headers, Request, Response},
    words,
};

/// The addresses of static files: folder, ending, and what a browser says that it is for.
const STATIC: &[(&str, &str, &str)] = &[
    ("/assets/css/", "css", "style"),
    ("/assets/js/", "js", "script"),
    ("/images/products/", "webp", "image"),
    ("/images/products/", "jpg", "image"),
    ("/assets/icons/", "svg", "image"),
    ("/assets/fonts/", "woff2", "font"),
];

/// A GET of a page: half of them with a query.
pub(crate) fn get_page(random: &mut Random, number: usize) -> Request {
    let mut uri = words::path(random);
    if random.chance(50) {
        uri += &query(random);
    }
    let headers = browser::headers(random, Fetch::Page);
    Request::get(Kind::GetPage.name(), number, uri, headers)
}

fn query(random: &mut Random) -> String {
    match random.between(0, 3) {
        0 => format!(
            "?q={}&page={}",
            words::words(random, 1, 4).replace(' ', "+"),
            random.between(1, 20)
        ),
        1 => format!(
            "?category={}&min_price={}&max_price={}&order={}",
            words::word(random),
            random.between(1, 50),
            random.between(51, 500),
            random.pick(&["price_asc", "price_desc", "newest", "rating"]),
        ),
        2 => format!(
            "?utm_source=newsletter&utm_medium=email&utm_campaign={}_{}&id={}",
            words::word(random),
            random.between(2024, 2026),
            random.hex(12),
        ),
        _ => format!(
            "?color={}&size={}&ref={}",
            random.pick(&["red", "blue", "dark%20green", "black", "light%20grey"]),
            random.pick(&["s", "m", "l", "xl"]),
            words::slug(random),
        ),
    }
}

/// A GET of a file that never changes.
pub(crate) fn get_static(random: &mut Random, number: usize) -> Request {
    let (folder, ending, destination) = random.pick(STATIC);
    let uri = format!("{folder}{}.{}.{ending}", words::slug(random), random.hex(8));
    let headers = browser::headers(random, Fetch::Static(destination));
    Request::get(Kind::GetStatic.name(), number, uri, headers)
}

/// A POST of 1 to 5 KB of JSON by a script of the page.
pub(crate) fn json(random: &mut Random, number: usize) -> Request {
    let uri = format!("/api/v2/{}", random.pick(&["orders", "basket", "profile", "reviews"]));
    let headers = browser::headers(random, Fetch::Api);
    let bytes = random.between(1 << 10, 5 << 10);
    let body = body::json(random, bytes);
    Request::get(Kind::Json.name(), number, uri, headers).post("application/json".to_owned(), body)
}

/// A POST of a user's name and password.
pub(crate) fn login_form(random: &mut Random, number: usize) -> Request {
    let headers = browser::headers(random, Fetch::Form);
    let body = format!(
        "username={}.{}%40example.org&password={}&csrf_token={}&next=%2Faccount&remember=on",
        words::word(random),
        words::word(random),
        random.text("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", 14),
        random.hex(40),
    );
    Request::get(Kind::LoginForm.name(), number, "/account/login".to_owned(), headers)
        .post("application/x-www-form-urlencoded".to_owned(), body.into_bytes())
}

/// A POST of a form with a picture of 100 KB to 1 MB.
pub(crate) fn upload(random: &mut Random, number: usize) -> Request {
    let headers = browser::headers(random, Fetch::Form);
    let bytes = random.between(100 << 10, 1 << 20);
    let (content_type, body) = body::multipart(random, bytes);
    Request::get(Kind::Upload.name(), number, "/account/pictures".to_owned(), headers)
        .post(content_type, body)
}

/// What the application answers: a page of 1 to 10 KB, or a picture, whose body is not inspected.
pub(crate) fn response(random: &mut Random, is_static: bool) -> Response {
    let bytes = random.between(1_200, 10 << 10);
    let (content_type, body) = if is_static {
        ("image/webp", random.bytes(bytes))
    } else {
        ("text/html; charset=utf-8", html(random, bytes))
    };
    let headers: Headers = vec![
        ("Date", "Sat, 21 Nov 2026 12:00:00 GMT".to_owned()),
        ("Content-Type", content_type.to_owned()),
        ("Content-Length", body.len().to_string()),
        ("Cache-Control", "private, max-age=60".to_owned()),
        ("Vary", "Accept-Encoding".to_owned()),
        ("X-Frame-Options", "SAMEORIGIN".to_owned()),
        ("Set-Cookie", format!("session={}; Path=/; Secure; HttpOnly", random.hex(32))),
    ];
    Response { headers, body }
}

fn html(random: &mut Random, bytes: usize) -> Vec<u8> {
    const END: &str =
        "</main>\n<script src=\"/assets/js/page.js\" defer></script>\n</body>\n</html>\n";
    let title = words::words(random, 2, 5);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <link rel=\"stylesheet\" href=\"/assets/css/page.css\">\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    );
    loop {
        let paragraph = match random.between(0, 3) {
            0 => format!(
                "<a class=\"card\" href=\"{}\"><img src=\"/images/products/{}.webp\" alt=\"{}\"></a>\n",
                words::path(random),
                words::slug(random),
                words::words(random, 2, 5),
            ),
            1 => format!(
                "<li data-id=\"{}\"><b>{}</b> <span>{}.{:02} EUR</span></li>\n",
                random.between(1_000, 9_999),
                words::words(random, 1, 3),
                random.between(1, 900),
                random.between(0, 99),
            ),
            _ => format!("<p>{}</p>\n", words::sentence(random)),
        };
        if html.len() + paragraph.len() + END.len() > bytes {
            break;
        }
        html += &paragraph;
    }
    html += END;
    html.into_bytes()
}
