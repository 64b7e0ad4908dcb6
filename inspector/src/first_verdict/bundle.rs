//! Rules with all the files that they name, in one piece of bytes: for a host that has no files.

mod limits;

use core::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
use glacis_engine::{
    ApiDescription, BuildErrors, Input, Limits, NoApiDescription, Program, Source, SourceError,
    SourceFile,
};

/// Bytes of rules and data files together, unpacked: CRS 4 has 1.3 MiB.
const BUNDLE_BYTES_MAX: usize = 8 << 20;

/// The first bytes of a bundle, and the version of its form.
const MAGIC: &[u8] = b"glacis-rules/1\n";

/// Rules with all the files that they name.
///
/// It answers what a ruleset asks its [`Source`] as it was answered when the bundle was made, and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleBundle {
    inputs: Vec<Input>,
    files: BTreeMap<Asked, SourceFile>,
    lists: BTreeMap<Asked, Vec<String>>,
    limits: Limits,
    trusted_hops: Option<usize>,
}

/// A path or a pattern, and the file in which it is written.
type Asked = (String, String);

/// Why bytes are no bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleError(&'static str);

impl core::fmt::Display for BundleError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for BundleError {}

/// Hands on what a source says, and keeps it.
struct Recorder<'a> {
    source: &'a dyn Source,
    kept: RefCell<RuleBundle>,
}

impl Source for Recorder<'_> {
    fn read(&self, path: &str, from: &str) -> Result<SourceFile, SourceError> {
        let file = self.source.read(path, from)?;
        let asked = (path.to_owned(), from.to_owned());
        let bytes = match file.name.contains(".conf") {
            true => without_comments(&file.bytes),
            false => file.bytes.clone(),
        };
        let kept = SourceFile { name: file.name.clone(), bytes };
        self.kept.borrow_mut().files.insert(asked, kept);
        Ok(file)
    }

    fn api_description(
        &self,
        file: &SourceFile,
        base_path: Option<&str>,
    ) -> Result<Arc<dyn ApiDescription>, SourceError> {
        self.source.api_description(file, base_path)
    }

    fn list(&self, pattern: &str, from: &str) -> Result<Vec<String>, SourceError> {
        let list = self.source.list(pattern, from)?;
        let asked = (pattern.to_owned(), from.to_owned());
        self.kept.borrow_mut().lists.insert(asked, list.clone());
        Ok(list)
    }
}

impl RuleBundle {
    /// Rules that are there as text.
    #[must_use]
    pub fn of_text(name: &str, text: &str) -> Self {
        let input = Input::Text { name: name.to_owned(), text: text.to_owned() };
        Self { inputs: vec![input], ..Self::default() }
    }

    /// Builds a program of `inputs`, and keeps all that it was built from.
    ///
    /// # Errors
    /// What is wrong with the rules.
    pub fn gather(inputs: &[Input], source: &dyn Source) -> Result<(Self, Program), BuildErrors> {
        Self::gather_with(inputs, source, Limits::default())
    }

    /// The same with other limits, which then belong to the bundle.
    ///
    /// # Errors
    /// What is wrong with the rules.
    pub fn gather_with(
        inputs: &[Input],
        source: &dyn Source,
        limits: Limits,
    ) -> Result<(Self, Program), BuildErrors> {
        let recorder = Recorder { source, kept: RefCell::default() };
        let program = Program::build(inputs, &recorder, limits.clone())?;
        Ok((Self { inputs: inputs.to_vec(), limits, ..recorder.kept.into_inner() }, program))
    }

    /// Says how many entries of `x-forwarded-for` are of trusted proxies, as in [`Settings`](crate::Settings).
    #[must_use]
    pub fn with_trusted_hops(self, trusted_hops: usize) -> Self {
        Self { trusted_hops: Some(trusted_hops), ..self }
    }

    /// What it says of that, if it does.
    #[must_use]
    pub const fn trusted_hops(&self) -> Option<usize> {
        self.trusted_hops
    }

    /// The program.
    ///
    /// # Errors
    /// What is wrong with the rules.
    pub fn build(&self) -> Result<Program, BuildErrors> {
        Program::build(&self.inputs, self, self.limits.clone())
    }

    /// The bytes.
    ///
    /// # Errors
    /// When the rules are larger than a bundle may be, unpacked: 8 MiB.
    pub fn pack(&self) -> Result<Vec<u8>, BundleError> {
        const NEVER: BundleError = BundleError("the rules cannot be packed");
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        let mut bytes = 0usize;
        let (limits, hops) = (self.limit_texts(), self.trusted_hops.map(|hops| hops.to_string()));
        let limits = limits.iter().map(|(name, value)| vec![&b"limit"[..], name, value.as_bytes()]);
        let hops = hops.iter().map(|hops| vec![&b"hops"[..], hops.as_bytes()]);
        for record in self.records().chain(limits).chain(hops) {
            let mut head = vec![u8::try_from(record.len()).map_err(|_| NEVER)?];
            for part in record {
                let length = u32::try_from(part.len()).map_err(|_| NEVER)?;
                head.extend_from_slice(&length.to_le_bytes());
                head.extend_from_slice(part);
            }
            bytes = bytes.saturating_add(head.len());
            encoder.write_all(&head).map_err(|_| NEVER)?;
        }
        if bytes > BUNDLE_BYTES_MAX {
            return Err(BundleError("the rules are larger than 8 MiB"));
        }
        let packed = encoder.finish().map_err(|_| NEVER)?;
        Ok([MAGIC, &packed].concat())
    }

    /// The bytes, if they are what `program` was built from when they are read again: comments are gone then, and
    /// nothing may be missing.
    ///
    /// # Errors
    /// When they are not, and as [`Self::pack`].
    pub fn pack_like(&self, program: &Program) -> Result<Vec<u8>, BundleError> {
        let packed = self.pack()?;
        let again = Self::unpack(&packed)?.build();
        match again.is_ok_and(|again| is_like(&again, program)) {
            true => Ok(packed),
            false => Err(BundleError("the rules mean something else without their comments")),
        }
    }

    /// The limits that are not the engine's own, so that older modules read bundles without any.
    fn limit_texts(&self) -> Vec<(&'static [u8], String)> {
        let usual = limits::values(&Limits::default());
        let own = limits::values(&self.limits).into_iter().zip(usual);
        let own = own.filter(|(own, usual)| own != usual);
        own.map(|((name, value), _)| (name.as_bytes(), value.to_string())).collect()
    }

    /// Each input, file and list: its kind, then what belongs to it.
    fn records(&self) -> impl Iterator<Item = Vec<&[u8]>> {
        let inputs = self.inputs.iter().map(|input| match input {
            Input::File(path) => vec![&b"file"[..], path.as_bytes()],
            Input::Text { name, text } => vec![&b"text"[..], name.as_bytes(), text.as_bytes()],
        });
        let files = self.files.iter().map(|((path, from), file)| {
            let (path, from) = (path.as_bytes(), from.as_bytes());
            vec![&b"read"[..], path, from, file.name.as_bytes(), &file.bytes]
        });
        let lists = self.lists.iter().flat_map(|((pattern, from), list)| {
            let asked = [pattern.as_bytes(), from.as_bytes()];
            // A record for each name; the first, without one, says that there is a list.
            let names = list.iter().map(|name| Some(name.as_bytes()));
            core::iter::once(None)
                .chain(names)
                .map(move |name| [&b"list"[..]].into_iter().chain(asked).chain(name).collect())
        });
        inputs.chain(files).chain(lists)
    }

    /// Reads the bytes.
    ///
    /// # Errors
    /// When they are no bundle, are damaged, or hold more than 8 MiB.
    pub fn unpack(bytes: &[u8]) -> Result<Self, BundleError> {
        let packed = bytes.strip_prefix(MAGIC);
        let packed =
            packed.ok_or(BundleError("these are no rules as `glacis bundle` prints them"))?;
        let mut text = Vec::new();
        let max = u64::try_from(BUNDLE_BYTES_MAX).unwrap_or(u64::MAX);
        let mut decoder = ZlibDecoder::new(packed).take(max.saturating_add(1));
        decoder.read_to_end(&mut text).map_err(|_| DAMAGED)?;
        if text.len() > BUNDLE_BYTES_MAX {
            return Err(BundleError("the rules are larger than 8 MiB"));
        }
        let mut bundle = Self::default();
        let mut rest = &*text;
        while !rest.is_empty() {
            let record = record(&mut rest).ok_or(DAMAGED)?;
            bundle.take(&record).ok_or(DAMAGED)?;
        }
        Ok(bundle)
    }

    fn take(&mut self, record: &[&[u8]]) -> Option<()> {
        let own = |bytes: &[u8]| core::str::from_utf8(bytes).map(str::to_owned).ok();
        match *record {
            [b"file", path] => self.inputs.push(Input::File(own(path)?)),
            [b"text", name, text] => {
                self.inputs.push(Input::Text { name: own(name)?, text: own(text)? });
            }
            [b"read", path, from, name, bytes] => {
                let file = SourceFile { name: own(name)?, bytes: bytes.to_vec() };
                self.files.insert((own(path)?, own(from)?), file);
            }
            [b"list", pattern, from] => {
                self.lists.insert((own(pattern)?, own(from)?), Vec::new());
            }
            [b"list", pattern, from, name] => {
                self.lists.get_mut(&(own(pattern)?, own(from)?))?.push(own(name)?);
            }
            [b"limit", name, value] => {
                *limits::place(&mut self.limits, &own(name)?)? = own(value)?.parse().ok()?;
            }
            [b"hops", hops] => self.trusted_hops = Some(own(hops)?.parse().ok()?),
            _ => return None,
        }
        Some(())
    }
}

/// Whether two programs are the same in all that they tell of their rules. Their hashes are not, because of the
/// comments.
fn is_like(one: &Program, other: &Program) -> bool {
    let told = |program: &Program| -> Vec<String> {
        program.rules().map(|rule| format!("{rule:?}")).collect()
    };
    one.rule_engine() == other.rule_engine()
        && told(one) == told(other)
        && one.fast_path().eq(other.fast_path())
}

const DAMAGED: BundleError = BundleError("the rules are damaged");

/// The next record, which is taken away.
fn record<'a>(rest: &mut &'a [u8]) -> Option<Vec<&'a [u8]>> {
    let (parts, mut behind) = rest.split_first()?;
    let mut record = Vec::new();
    for _ in 0..*parts {
        let (length, after) = behind.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (part, after) = after.split_at_checked(length)?;
        record.push(part);
        behind = after;
    }
    *rest = behind;
    Some(record)
}

impl Source for RuleBundle {
    fn read(&self, path: &str, from: &str) -> Result<SourceFile, SourceError> {
        let file = self.files.get(&(path.to_owned(), from.to_owned())).cloned();
        file.ok_or_else(|| SourceError::new(format!("{path}: it is not in the bundle")))
    }

    /// Documents are compared with requests by the host of the full inspection only, which sees every request where the
    /// rules name one: see [`FirstVerdict::judge`](super::FirstVerdict).
    fn api_description(
        &self,
        _file: &SourceFile,
        _base_path: Option<&str>,
    ) -> Result<Arc<dyn ApiDescription>, SourceError> {
        Ok(Arc::new(NoApiDescription))
    }

    fn list(&self, pattern: &str, from: &str) -> Result<Vec<String>, SourceError> {
        let list = self.lists.get(&(pattern.to_owned(), from.to_owned())).cloned();
        list.ok_or_else(|| SourceError::new(format!("{pattern}: it is not in the bundle")))
    }
}

/// The same rules with empty lines for comments, so that messages still name the right line. What looks like a
/// comment inside of a directive that goes on over several lines stays.
fn without_comments(text: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(text.len());
    let mut goes_on = false;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let ends_with_backslash = line.trim_ascii_end().ends_with(b"\\");
        match line.trim_ascii_start().first() {
            Some(b'#') if !goes_on && !ends_with_backslash => {
                kept.extend(line.ends_with(b"\n").then_some(b'\n'));
            }
            _ => kept.extend_from_slice(line),
        }
        goes_on = ends_with_backslash;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle() -> RuleBundle {
        let asked = |path: &str, from: &str| (path.to_owned(), from.to_owned());
        let file = |name: &str, bytes: &[u8]| SourceFile { name: name.into(), bytes: bytes.into() };
        RuleBundle {
            inputs: vec![
                Input::File("a.conf".to_owned()),
                Input::Text { name: "b".to_owned(), text: "SecRuleEngine On".to_owned() },
            ],
            files: [
                (asked("a.conf", ""), file("/a.conf", b"Include d/*.conf\n")),
                (
                    asked("d/c.conf", "/a.conf"),
                    file("/d/c.conf", b"SecRule ARGS \"@pmFromFile w\" \"id:1\""),
                ),
                (asked("w", "/d/c.conf"), file("/d/w", b"one\n\xff\n")),
            ]
            .into(),
            lists: [
                (asked("d/*.conf", "/a.conf"), vec!["d/c.conf".to_owned()]),
                (asked("e/*", "/a.conf"), Vec::new()),
            ]
            .into(),
            limits: Limits { headers_max: 7, rule_steps_max: 1, ..Limits::default() },
            trusted_hops: Some(2),
        }
    }

    /// The names are those of the fields, and each leads to its own.
    #[test]
    fn all_limits() {
        let mut limits = Limits::default();
        let shown = format!("{limits:?}");
        let values = limits::values(&limits);
        assert_eq!(values.len(), shown.split(": ").count() - 1);
        for (i, (name, value)) in values.into_iter().enumerate() {
            assert!(shown.contains(&format!("{name}: {value}")), "{name}");
            *limits::place(&mut limits, name).unwrap() = i;
        }
        let values = limits::values(&limits).into_iter();
        assert!(values.enumerate().all(|(i, (_, value))| i == value));
        assert_eq!(limits::place(&mut limits, "other"), None);
    }

    #[test]
    fn there_and_back() {
        let packed = bundle().pack().unwrap();
        assert_eq!(RuleBundle::unpack(&packed).unwrap(), bundle());
    }

    #[test]
    fn packs_what_the_program_was_built_from() {
        let rule = |id: u32, operator: &str, actions: &str| {
            format!("SecRule ARGS \"{operator}\" \"id:{id},phase:1,deny{actions}\"\n")
        };
        let one = rule(1, "@contains attack", "");
        let bundle = RuleBundle::of_text("rules", &one);
        for (text, expected) in [
            (one.clone(), true),
            (format!("# a comment\n{one}"), false),
            (rule(2, "@contains attack", ""), false),
            (rule(1, "@contains attack", ",tag:a"), false),
            (rule(1, "@contains attack", ",chain") + "SecRule ARGS \"@rx .\" \"t:none\"", false),
            (rule(1, "@unconditionalMatch", ""), false),
            (format!("{}{one}", rule(2, "@contains attack", "")), false),
            (one.replace('\n', "\nSecRuleEngine On\n"), false),
        ] {
            let program = RuleBundle::of_text("rules", &text).build().unwrap();
            assert_eq!(bundle.pack_like(&program).is_ok(), expected, "{text}");
        }
    }

    /// Whatever is cut off or changed is refused, or is a bundle all the same; nothing panics.
    #[test]
    fn damaged() {
        let packed = bundle().pack().unwrap();
        for end in 0..packed.len() {
            assert!(RuleBundle::unpack(&packed[..end]).is_err(), "cut at {end}");
        }
        for place in 0..packed.len() {
            let mut wrong = packed.clone();
            wrong[place] ^= 0x41;
            assert!(RuleBundle::unpack(&wrong).is_err(), "changed at {place}");
        }
    }

    #[test]
    fn no_more_than_8_mib() {
        let large = |bytes| RuleBundle::of_text("large", &" ".repeat(bytes));
        let message = large(BUNDLE_BYTES_MAX).pack().unwrap_err().to_string();
        assert_eq!(message, "the rules are larger than 8 MiB");
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&vec![0; BUNDLE_BYTES_MAX + 1]).unwrap();
        let bomb = [MAGIC, &encoder.finish().unwrap()].concat();
        assert_eq!(RuleBundle::unpack(&bomb).unwrap_err().to_string(), message);
    }

    #[test]
    fn comments() {
        for (text, expected) in [
            (
                "# a\nSecRule A \\\n  # not a comment\\\n  \"id:1\"\n  # b\n#c",
                "\nSecRule A \\\n  # not a comment\\\n  \"id:1\"\n\n",
            ),
            ("# goes on \\\nSecRule", "# goes on \\\nSecRule"),
            ("a # b\n", "a # b\n"),
            ("", ""),
        ] {
            let kept = without_comments(text.as_bytes());
            assert_eq!(String::from_utf8(kept).unwrap(), expected);
        }
    }
}
