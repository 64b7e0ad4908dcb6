//! Pictures of the admin page for documents, by a real browser.

use std::path::Path;

use glacis_tests::browser::{self, Browser};
use glacis_tests::failure::{Failure, Outcome, doing};
use glacis_tests::http::{self, Request};
use glacis_tests::stack::Stack;

/// Requests that pass before pictures are taken, so that the page has something to show.
const ORDINARY: usize = 60;

/// What a document can hold without making a copy of the repository slow.
const BYTES_MAX: u64 = 150_000;

/// Opens the story of an SQL injection, or else of the newest request.
const STORY: &str = "const rows = [...document.querySelectorAll('#recent tr')]; \
    (rows.find((row) => row.innerText.includes('SQL injection')) ?? rows[0]).querySelector('.open').click()";

/// Writes `page.png` and `story.png` into the folder.
pub(crate) fn take(stack: &Stack, folder: &Path) -> Outcome<()> {
    let program = browser::find()
        .ok_or_else(|| Failure::new("there is no Chromium here (GLACIS_CHROMIUM)"))?;
    std::fs::create_dir_all(folder).map_err(doing("make the folder of pictures"))?;
    for number in 0..ORDINARY {
        // Clients of their own: each has a rate limit.
        let client = std::net::Ipv4Addr::new(127, 8, 0, u8::try_from(number % 200).unwrap_or(0));
        stack.send(client, &Request::get(&format!("/echo?page={number}")).browser())?;
    }
    let admin = std::net::SocketAddr::from(([127, 0, 0, 1], stack.ports.ext_proc_admin));
    http::fetch(admin, "/readyz")?;
    let mut page = Browser::start(&program, stack.folder.path())?;
    page.prefer_colours("light")?;
    page.open(&format!("http://{admin}/"))?;
    page.wait_for("document.querySelectorAll('#recent tr').length > 4")?;
    page.wait_for("document.querySelectorAll('#rules tr').length > 4")?;
    page.wait_for("document.querySelectorAll('#tops li').length > 4")?;
    page.wait_for("document.querySelectorAll('#latency svg').length >= 1")?;
    page.resize(1200, 1000)?;
    picture(&mut page, &folder.join("page.png"), (1200, 1000))?;
    page.value(STORY)?;
    page.wait_for("document.getElementById('story').dataset.state === 'told'")?;
    // Away from the button on which the focus is.
    page.value("document.getElementById('allow').open = true; document.activeElement.blur()")?;
    picture(&mut page, &folder.join("story.png"), (1200, 1000))
}

fn picture(page: &mut Browser, path: &Path, size: (u32, u32)) -> Outcome<()> {
    page.picture_within(path, size)?;
    let bytes = path.metadata().map_err(doing("read the picture"))?.len();
    println!("{} ({} KB)", path.display(), bytes / 1000);
    if bytes > BYTES_MAX {
        return Err(Failure::new(format!("{}: more than {BYTES_MAX} bytes", path.display())));
    }
    Ok(())
}
