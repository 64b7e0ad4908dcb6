//! The files of the page for people, as they are: there is no build step.

use glacis_service::admin::{AdminAnswer, typed};
use http::StatusCode;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
/// Browsers download what they do not know (`text/markdown`).
const TEXT: &str = "text/plain; charset=utf-8";

/// Path, media type, content.
const ASSETS: [(&str, &str, &str); 11] = [
    ("/", HTML, include_str!("../page/page.html")),
    ("/page.css", CSS, include_str!("../page/page.css")),
    ("/page.js", JAVASCRIPT, include_str!("../page/page.js")),
    ("/checks.js", JAVASCRIPT, include_str!("../page/checks.js")),
    ("/story.js", JAVASCRIPT, include_str!("../page/story.js")),
    ("/plots.js", JAVASCRIPT, include_str!("../page/plots.js")),
    ("/elements.js", JAVASCRIPT, include_str!("../page/elements.js")),
    ("/icon.svg", SVG, include_str!("../page/icon.svg")),
    ("/docs/tuning.md", TEXT, include_str!("../../../docs/tuning.md")),
    ("/docs/doctor.md", TEXT, include_str!("../../../docs/reference/doctor.md")),
    ("/docs/explain.md", TEXT, include_str!("../../../docs/explain.md")),
];

/// The file at this path.
pub(super) fn asset(path: &str) -> Option<AdminAnswer> {
    let (_, content_type, body) = ASSETS.iter().find(|(known, ..)| *known == path)?;
    Some(typed(StatusCode::OK, content_type, *body))
}
