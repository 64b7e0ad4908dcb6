//! `large`: the time and the memory of large benign bodies in each format, where rules may block, and the verdict on
//! the same bodies with an attack in them.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use glacis_engine::Transaction;
use serde_json::json;

use crate::{
    Outcome,
    clock::cpu_time,
    load::{PEAK_MEMORY, forget_peak, status},
    program,
    request::Request,
};

const ATTACK: &str = "1' UNION SELECT password FROM users -- ";

/// Words of the texts. Rules match none of them.
const WORDS: &[&str] = &[
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog",
    "while",
    "nobody",
    "looks",
    "and",
    "old",
    "people",
    "told",
    "stories",
    "about",
    "weather,",
    "harvest",
    "gardens.",
    "Later",
    "that",
    "year",
    "many",
    "letters",
    "arrived",
    "at",
    "home",
    "with",
    "greetings",
    "of",
    "friends.",
    "They",
    "had",
    "seen",
    "mountains,",
    "rivers",
    "lakes",
    "along",
    "their",
    "journey",
    "north",
];

/// How a body is built from parts.
#[derive(Clone, Copy, Debug)]
enum Format {
    FormText,
    FormFields,
    FormBase64,
    MultipartText,
    MultipartFields,
    MultipartFile,
    JsonText,
    JsonBase64,
    JsonRecords,
    XmlText,
    XmlRecords,
    Plain,
    Csv,
    OctetStream,
}

const FORMATS: &[(&str, Format)] = &[
    ("form-text", Format::FormText),
    ("form-fields", Format::FormFields),
    ("form-base64", Format::FormBase64),
    ("multipart-text", Format::MultipartText),
    ("multipart-fields", Format::MultipartFields),
    ("multipart-file", Format::MultipartFile),
    ("json-text", Format::JsonText),
    ("json-base64", Format::JsonBase64),
    ("json-records", Format::JsonRecords),
    ("xml-text", Format::XmlText),
    ("xml-records", Format::XmlRecords),
    ("plain", Format::Plain),
    ("csv", Format::Csv),
    ("octet-stream", Format::OctetStream),
];

/// Fields of a form with many of them.
const FIELDS: usize = 500;

/// Prints, for each format, the CPU time, the memory, the steps and the verdict of a benign body of about so many
/// bytes, and the verdicts where an attack is in its first, middle and last part.
pub(crate) fn run(rules: &str, bytes: &str, only: &str) -> Outcome<()> {
    let program = program(rules)?;
    let bytes: usize = bytes.parse()?;
    for &(name, format) in FORMATS.iter().filter(|(name, _)| only.is_empty() || *name == only) {
        let mut transaction = Transaction::new(program.clone());
        let benign = request(format, bytes, None);
        forget_peak()?;
        let (mut fastest, mut first) = (u128::MAX, 0);
        for round in 0..3 {
            let begin = cpu_time();
            benign.inspect(&mut transaction);
            let time = cpu_time().saturating_sub(begin).as_nanos();
            fastest = fastest.min(time);
            first = if round == 0 { time } else { first };
        }
        let peak = status(PEAK_MEMORY)?;
        let steps = transaction.rule_steps();
        let limits: Vec<_> = transaction.flags().names().collect();
        let benign_answer = benign.answer(&transaction);
        let attacks: Vec<_> = [0, 50, 100]
            .iter()
            .map(|&percent| {
                request(format, bytes, Some(percent)).inspect(&mut transaction);
                transaction.verdict().refusal().map_or(0, |refusal| refusal.status)
            })
            .collect();
        let told = json!({
            "format": name,
            "bytes": benign.bytes(),
            "ms": fastest / 1_000_000,
            "first_ms": first / 1_000_000,
            "ms_per_10mb": fastest as f64 * 10.0 / benign.bytes() as f64,
            "peak_mib": peak >> 20,
            "steps": steps,
            "limits": limits,
            "benign": benign_answer,
            "attacks": attacks,
        });
        println!("{told}");
    }
    Ok(())
}

struct Texts {
    state: u64,
}

impl Texts {
    fn below(&mut self, end: usize) -> usize {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.state >> 33).unwrap_or(0) % end.max(1)
    }

    fn words(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 16);
        while text.len() < bytes {
            let word = self.below(WORDS.len());
            text.push_str(WORDS.get(word).unwrap_or(&"a"));
            text.push(if self.below(12) == 0 { '\n' } else { ' ' });
        }
        text
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap_or(0)
    }

    fn base64(&mut self, bytes: usize) -> String {
        STANDARD.encode((0..bytes * 3 / 4).map(|_| self.byte()).collect::<Vec<u8>>())
    }
}

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";

/// The content that a body is made of.
struct Content {
    texts: Texts,
    /// At so many hundredths of the body there is an attack.
    attack: Option<usize>,
}

impl Content {
    /// One text with the attack in it.
    fn text(&mut self, bytes: usize) -> String {
        let mut text = self.texts.words(bytes);
        if let Some(percent) = self.attack {
            text.insert_str(text.len() * percent / 100, ATTACK);
        }
        text
    }

    /// So many texts, of which one is the attack.
    fn parts(&mut self, count: usize, bytes: usize) -> Vec<String> {
        let chosen = self.attack.map(|percent| count.saturating_sub(1) * percent / 100);
        let part =
            |at| if chosen == Some(at) { ATTACK.to_owned() } else { self.texts.words(bytes) };
        (0..count).map(part).collect()
    }

    /// A short text that is the attack, where there is one.
    fn note(&self) -> &'static str {
        self.attack.map_or("none", |_| ATTACK)
    }

    fn bytes(&mut self, bytes: usize) -> Vec<u8> {
        let mut body: Vec<u8> = (0..bytes).map(|_| self.texts.byte()).collect();
        if let Some(percent) = self.attack {
            let at = body.len() * percent / 100;
            body.splice(at..at, ATTACK.bytes());
        }
        body
    }
}

fn request(format: Format, bytes: usize, attack: Option<usize>) -> Request {
    let mut content = Content { texts: Texts { state: 7 }, attack };
    let (media_type, body) = match format {
        Format::FormText | Format::FormFields | Format::FormBase64 => {
            (FORM, form(format, bytes, &mut content).into_bytes())
        }
        Format::MultipartText => (MULTIPART, multipart(&[content.text(bytes)], None)),
        Format::MultipartFields => {
            (MULTIPART, multipart(&content.parts(FIELDS, bytes / FIELDS), None))
        }
        Format::MultipartFile => (MULTIPART, multipart(&[content.text(bytes)], Some("notes.txt"))),
        Format::JsonText | Format::JsonBase64 | Format::JsonRecords => {
            (JSON, json(format, bytes, &mut content).into_bytes())
        }
        Format::XmlText => {
            ("text/xml", format!("<doc><text>{}</text></doc>", content.text(bytes)).into_bytes())
        }
        Format::XmlRecords => {
            let notes = content.parts(bytes / 700, 650).into_iter().enumerate();
            let items =
                notes.map(|(at, note)| format!("<item id=\"{at}\"><note>{note}</note></item>"));
            ("text/xml", format!("<list>{}</list>", items.collect::<String>()).into_bytes())
        }
        Format::Plain => ("text/plain", content.text(bytes).into_bytes()),
        Format::Csv => {
            let notes = content.parts(bytes / 90, 40).into_iter().enumerate();
            let row = |(at, note): (usize, String)| {
                format!(
                    "{at},user{at}@example.com,2026-11-23,{},{}\n",
                    at % 900,
                    note.replace('\n', " ")
                )
            };
            ("text/csv", notes.map(row).collect::<String>().into_bytes())
        }
        Format::OctetStream => ("application/octet-stream", content.bytes(bytes)),
    };
    Request::post("/", media_type, body)
}

fn form(format: Format, bytes: usize, content: &mut Content) -> String {
    let escaped = |text: &str| text.replace(' ', "+").replace('\n', "%0A");
    match format {
        Format::FormFields => {
            let fields = content.parts(FIELDS, bytes / FIELDS).into_iter().enumerate();
            let fields = fields.map(|(at, value)| format!("field{at}={}", escaped(&value)));
            fields.collect::<Vec<_>>().join("&")
        }
        Format::FormBase64 => {
            let image = content.texts.base64(bytes).replace('+', "%2B").replace('/', "%2F");
            format!("image={}&note={}", image.replace('=', "%3D"), escaped(content.note()))
        }
        _ => format!("a=1&text={}", escaped(&content.text(bytes))),
    }
}

fn json(format: Format, bytes: usize, content: &mut Content) -> String {
    match format {
        Format::JsonRecords => {
            let notes = content.parts(bytes / 170, 60).into_iter().enumerate();
            let records = notes.map(|(at, note)| {
                let email = format!("user{at}@example.com");
                json!({"id": at, "email": email, "active": at % 2 == 0,
                    "created": "2026-11-23T10:00:00Z", "note": note})
                .to_string()
            });
            format!("[{}]", records.collect::<Vec<_>>().join(","))
        }
        Format::JsonBase64 => {
            let image = content.texts.base64(bytes);
            format!("{{\"id\":7,\"image\":\"{image}\",\"note\":\"{}\"}}", content.note())
        }
        _ => json!({"id": 7, "text": content.text(bytes)}).to_string(),
    }
}

const MULTIPART: &str = "multipart/form-data; boundary=boundary";

fn multipart(values: &[String], file: Option<&str>) -> Vec<u8> {
    let file = file
        .map_or(String::new(), |file| format!("; filename=\"{file}\"\r\nContent-Type: text/plain"));
    let mut body = String::new();
    for (at, value) in values.iter().enumerate() {
        body += &format!(
            "--boundary\r\nContent-Disposition: form-data; name=\"f{at}\"{file}\r\n\r\n{value}\r\n"
        );
    }
    body += "--boundary--\r\n";
    body.into_bytes()
}
