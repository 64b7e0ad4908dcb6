//! A real browser, Chromium without a window, led over the DevTools protocol.
//!
//! It listens on no port: commands go through its pipe (`--remote-debugging-pipe`: file descriptors 3 and 4,
//! messages of JSON that end with a zero byte), which a small shell puts in the place of standard input
//! and output.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::failure::{Failure, Outcome, doing, io};

/// Names of the program, in the order in which they are looked for.
const PROGRAMS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// A browser starts slowly on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The most bytes of a message.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Where Chromium is: as `GLACIS_CHROMIUM` says, or on the path; `None` when there is none.
pub fn find() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("GLACIS_CHROMIUM") {
        return Some(PathBuf::from(given)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let places =
        PROGRAMS.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places.into_iter().find(|place| place.is_file())
}

/// A running browser with one page, ended when dropped.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    commands: Option<ChildStdin>,
    messages: Receiver<Value>,
    last_id: u64,
    session: String,
    /// What went wrong in the page so far: exceptions, and what the log says at the level `error`.
    pub faults: Vec<String>,
}

impl Browser {
    /// Starts it, with its files in `folder`.
    ///
    /// # Errors
    ///
    /// If it does not start or does not answer.
    pub fn start(program: &Path, folder: &Path) -> Outcome<Self> {
        let profile = format!("--user-data-dir={}", folder.join("chromium").display());
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null", "sh"])
            .arg(program)
            .args(["--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu"])
            // Tests may run as root; it opens nothing but our page.
            .args(["--no-sandbox", "--disable-dev-shm-usage", "--disable-extensions", &profile])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--window-size=1200,1700",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(doing("start Chromium"))?;
        let (commands, output) = (child.stdin.take(), child.stdout.take());
        let (sender, messages) = channel();
        thread::spawn(move || {
            let mut output = BufReader::new(output?);
            loop {
                let mut message = Vec::new();
                let read = output.read_until(0, &mut message).ok()?;
                if read == 0 || read > MESSAGE_BYTES_MAX {
                    return None::<()>;
                }
                message.pop();
                sender.send(serde_json::from_slice(&message).ok()?).ok()?;
            }
        });
        let session = String::new();
        let mut browser =
            Self { child, commands, messages, last_id: 0, session, faults: Vec::new() };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", &attach)?;
        attached["sessionId"].as_str().unwrap_or_default().clone_into(&mut browser.session);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, &json!({}))?;
        }
        Ok(browser)
    }

    /// Opens an address in the page.
    ///
    /// # Errors
    ///
    /// If the browser does not answer.
    pub fn open(&mut self, address: &str) -> Outcome<()> {
        self.call("Page.navigate", &json!({"url": address})).map(drop)
    }

    /// Shows the page as on a machine that is set to this colour scheme (`light` or `dark`).
    ///
    /// # Errors
    ///
    /// If the browser does not answer.
    pub fn prefer_colours(&mut self, scheme: &str) -> Outcome<()> {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", &json!({"features": features})).map(drop)
    }

    /// Shows the page in a window of this size, in pixels; below 600 as on a phone.
    ///
    /// # Errors
    ///
    /// If the browser does not answer.
    pub fn resize(&mut self, width: u32, height: u32) -> Outcome<()> {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.call("Emulation.setDeviceMetricsOverride", &size).map(drop)
    }

    /// The value of an expression of JavaScript in the page.
    ///
    /// # Errors
    ///
    /// If it throws, or the browser does not answer.
    pub fn value(&mut self, expression: &str) -> Outcome<Value> {
        let parameters =
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.call("Runtime.evaluate", &parameters)?;
        match answer.get("exceptionDetails") {
            Some(details) => Err(Failure::new(format!("{expression}: {details}"))),
            None => Ok(answer["result"]["value"].take()),
        }
    }

    /// Waits until an expression is true.
    ///
    /// # Errors
    ///
    /// If that takes too long; the text of the page is told.
    pub fn wait_for(&mut self, expression: &str) -> Outcome<()> {
        let begun = Instant::now();
        while self.value(expression)? != json!(true) {
            if begun.elapsed() > PATIENCE {
                let text = self.value("document.body.innerText")?;
                let faults = self.faults.join("\n");
                return Err(Failure::new(format!("not true: {expression}\n{faults}\n{text}")));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Presses a key and lets it go.
    ///
    /// # Errors
    ///
    /// If the browser does not answer.
    pub fn press(&mut self, key: &str) -> Outcome<()> {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            "Tab" => (9, ""),
            _ => (0, key),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = text.into();
            }
            self.call("Input.dispatchKeyEvent", &event)?;
        }
        Ok(())
    }

    /// Writes a picture of what the page shows (PNG), for people.
    ///
    /// # Errors
    ///
    /// If the browser does not answer, or the file cannot be written.
    pub fn picture(&mut self, path: &Path) -> Outcome<()> {
        self.capture(path, &json!({"format": "png"}))
    }

    /// The same of the upper left part only: width and height in pixels of the page.
    ///
    /// # Errors
    ///
    /// As [`Browser::picture`].
    pub fn picture_within(&mut self, path: &Path, size: (u32, u32)) -> Outcome<()> {
        let clip = json!({"x": 0, "y": 0, "width": size.0, "height": size.1, "scale": 0.8});
        self.capture(path, &json!({"format": "png", "clip": clip}))
    }

    fn capture(&mut self, path: &Path, parameters: &Value) -> Outcome<()> {
        let answer = self.call("Page.captureScreenshot", parameters)?;
        let data = answer["data"].as_str().unwrap_or_default();
        let bytes = STANDARD.decode(data).map_err(doing("read the picture"))?;
        std::fs::write(path, bytes).map_err(io("write", path))
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Outcome<Value> {
        self.last_id += 1;
        let id = self.last_id;
        let mut command = json!({"id": id, "method": method, "params": parameters});
        if !self.session.is_empty() {
            command["sessionId"] = self.session.as_str().into();
        }
        let Some(commands) = &mut self.commands else {
            return Err(Failure::new("Chromium has no pipe"));
        };
        let written = write!(commands, "{command}\0").and_then(|()| commands.flush());
        written.map_err(doing("command Chromium"))?;
        loop {
            let mut message = match self.messages.recv_timeout(PATIENCE) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(Failure::new(format!("Chromium does not answer to {method}")));
                }
            };
            self.note(&message);
            if message["id"] == id {
                return match message.get("error") {
                    Some(error) => Err(Failure::new(format!("{method}: {error}"))),
                    None => Ok(message["result"].take()),
                };
            }
        }
    }

    fn note(&mut self, message: &Value) {
        let parameters = &message["params"];
        let fault = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => Some(&parameters["exceptionDetails"]),
            Some("Log.entryAdded") if parameters["entry"]["level"] == "error" => {
                Some(&parameters["entry"])
            }
            _ => None,
        };
        self.faults.extend(fault.map(Value::to_string));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // At the end of its pipe it ends with all its processes.
        self.commands = None;
        let begun = Instant::now();
        while !matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
            if begun.elapsed() > Duration::from_secs(5) {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}
