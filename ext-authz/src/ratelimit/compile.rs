//! From YAML to the tree, or to what is wrong with it.

use std::{
    collections::{HashSet, hash_map},
    path::Path,
    sync::Arc,
};

use glacis_service::config::ConfigError;
use serde_saphyr::Spanned;

use super::{
    form::{DESCRIPTOR, Mapping, RATE_LIMIT, REPLACES, ROOT, elements, is_set, text},
    metadata,
    pattern::Pattern,
    rules::{Choices, Level, Limit, Node, Quantity, Rules, called},
    unit::Unit,
};

/// What a configuration may have. More of it is refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Files in the folder.
    pub(crate) files_max: usize,
    /// Descriptors in all of them.
    pub(crate) descriptors_max: usize,
    /// Descriptors in each other.
    pub(crate) depth_max: usize,
    /// Values with wildcards of one key beside each other: they are tried one after the other.
    pub(crate) wildcards_max: usize,
    /// Bytes of a domain, key, value or name.
    pub(crate) text_bytes_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            files_max: 256,
            descriptors_max: 100_000,
            depth_max: 16,
            wildcards_max: 500,
            text_bytes_max: 4_096,
        }
    }
}

/// Files that are being put together.
#[derive(Debug)]
pub(crate) struct Compiler {
    bounds: Bounds,
    /// Whether several files may be about one domain.
    merge_domains: bool,
    rules: Rules,
    descriptors: usize,
    /// What limits replace, and where that is written.
    replaced: Vec<Replaced>,
    names: HashSet<(Box<str>, Box<str>)>,
    warnings: Vec<String>,
}

#[derive(Debug)]
struct Replaced {
    domain: Box<str>,
    name: Box<str>,
    /// A warning, should nothing have that name.
    warning: String,
}

/// Where in which file something stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    file: &'a Path,
    line: u64,
    key: &'a str,
}

impl Place<'_> {
    fn refuse(self, message: &str) -> ConfigError {
        ConfigError::at(self.file, &format!("line {}, {}", self.line, self.key), message)
    }

    fn warn(self, message: &str) -> String {
        format!("{}: line {}, {}: {message}", self.file.display(), self.line, self.key)
    }
}

/// What is the same for all descriptors of a list.
struct List<'a> {
    file: &'a Path,
    domain: &'a str,
    /// The path of metrics so far.
    path: &'a str,
    /// The key of the list, such as `descriptors[2].descriptors`.
    key: &'a str,
    depth: usize,
}

impl Compiler {
    pub(crate) fn new(bounds: Bounds, merge_domains: bool) -> Self {
        Self {
            bounds,
            merge_domains,
            rules: Rules::default(),
            descriptors: 0,
            replaced: Vec::new(),
            names: HashSet::new(),
            warnings: Vec::new(),
        }
    }

    /// Adds what one file says.
    ///
    /// # Errors
    /// What is wrong with it: with file, line, key and what to write instead.
    pub(crate) fn add(&mut self, file: &Path, written: &Mapping) -> Result<(), ConfigError> {
        let line = written.domain.as_ref().map_or(1, |domain| domain.referenced.line());
        let place = Place { file, line, key: "domain" };
        let domain = text(&written.domain);
        if domain.is_empty() {
            return Err(place.refuse("there is none: write the domain that Envoy's filter names"));
        }
        self.check_length(place, domain)?;
        self.warn_of_misplaced(file, "", written, ROOT);
        let known = self.rules.domains.remove(domain);
        if known.is_some() && !self.merge_domains {
            let message = format!(
                "another file is about `{domain}` too: write all of it into one file, or \
                 merge_domains: true into the configuration of the service"
            );
            return Err(place.refuse(&message));
        }
        let mut level = known.unwrap_or_default();
        let list = List { file, domain, path: domain, key: "descriptors", depth: 1 };
        self.add_list(&mut level, elements(&written.descriptors), &list)?;
        self.rules.domains.insert(domain.into(), level);
        Ok(())
    }

    /// What was put together, and what in it has no effect.
    pub(crate) fn finish(mut self) -> (Rules, Vec<String>) {
        for Replaced { domain, name, warning } in self.replaced {
            if !self.names.contains(&(domain, name)) {
                self.warnings.push(warning);
            }
        }
        (self.rules, self.warnings)
    }

    fn add_list(
        &mut self,
        level: &mut Level,
        descriptors: &[Spanned<Mapping>],
        list: &List<'_>,
    ) -> Result<(), ConfigError> {
        for (index, descriptor) in descriptors.iter().enumerate() {
            let key = format!("{}[{index}]", list.key);
            let place = Place { file: list.file, line: descriptor.referenced.line(), key: &key };
            self.add_descriptor(level, &descriptor.value, place, list)?;
        }
        Ok(())
    }

    fn add_descriptor(
        &mut self,
        level: &mut Level,
        written: &Mapping,
        place: Place<'_>,
        list: &List<'_>,
    ) -> Result<(), ConfigError> {
        self.check_descriptor(written, place, list)?;
        let (key, value) = (text(&written.key), text(&written.value));
        let path = format!("{}.{}", list.path, called(key, value));
        let mut node = Node {
            limit: self.limit(written, place, list.domain, &path)?,
            below: Level::default(),
            value_to_metric: is_set(&written.value_to_metric),
            share_threshold: is_set(&written.share_threshold),
        };
        let (below, below_key) =
            (elements(&written.descriptors), format!("{}.descriptors", place.key));
        let below_list = List {
            file: list.file,
            domain: list.domain,
            path: &path,
            key: &below_key,
            depth: list.depth + 1,
        };
        self.add_list(&mut node.below, below, &below_list)?;
        let choices = level.keys.entry(key.into()).or_default();
        if !insert(choices, value, node) {
            let message = format!(
                "there is one with key `{key}` and the same value in this list already: remove one"
            );
            return Err(place.refuse(&message));
        }
        if choices.patterns.len() > self.bounds.wildcards_max {
            let max = self.bounds.wildcards_max;
            let message = format!("too many values with wildcards for key `{key}`: at most {max}");
            return Err(place.refuse(&message));
        }
        Ok(())
    }

    /// Whether a descriptor is one at all.
    fn check_descriptor(
        &mut self,
        written: &Mapping,
        place: Place<'_>,
        list: &List<'_>,
    ) -> Result<(), ConfigError> {
        let Bounds { descriptors_max, depth_max, .. } = self.bounds;
        self.descriptors += 1;
        if self.descriptors > descriptors_max {
            return Err(place.refuse(&format!("too many descriptors: at most {descriptors_max}")));
        }
        if list.depth > depth_max {
            return Err(place.refuse(&format!("too deep: at most {depth_max} in each other")));
        }
        let (key, value) = (text(&written.key), text(&written.value));
        if key.is_empty() {
            return Err(place.refuse("it has no key: write the key that Envoy's action makes"));
        }
        if key.contains('*') {
            let message = "a key has no wildcards: write the `*` into its value";
            return Err(place.refuse(message));
        }
        self.check_length(place, key)?;
        self.check_length(place, value)?;
        if is_set(&written.share_threshold) && !value.contains('*') {
            let message = "share_threshold is for values with a wildcard: write a value such as \
                           files/*, or remove it";
            return Err(place.refuse(message));
        }
        self.warn_of_misplaced(place.file, place.key, written, DESCRIPTOR);
        Ok(())
    }

    fn check_length(&self, place: Place<'_>, text: &str) -> Result<(), ConfigError> {
        let max = self.bounds.text_bytes_max;
        if text.len() > max {
            return Err(place.refuse(&format!("a text of more than {max} bytes: make it shorter")));
        }
        Ok(())
    }

    fn limit(
        &mut self,
        descriptor: &Mapping,
        place: Place<'_>,
        domain: &str,
        path: &str,
    ) -> Result<Option<Arc<Limit>>, ConfigError> {
        let Some(Spanned { value: written, referenced, .. }) = &descriptor.rate_limit else {
            self.warn_without_limit(descriptor, place);
            return Ok(None);
        };
        let key = format!("{}.rate_limit", place.key);
        let place = Place { line: referenced.line(), key: &key, ..place };
        self.warn_of_misplaced(place.file, &key, written, RATE_LIMIT);
        self.check_length(place, text(&written.name))?;
        let limit = Limit {
            path: path.into(),
            quantity: self.quantity(written, place)?,
            shadow_mode: is_set(&descriptor.shadow_mode),
            quota_mode: is_set(&descriptor.quota_mode),
            name: text(&written.name).into(),
            replaces: self.replaces(written, place, domain)?,
            detailed_metric: is_set(&descriptor.detailed_metric),
            metadata: descriptor.metadata.as_ref().map(|json| metadata::from_json(&json.value)),
        };
        if !limit.name.is_empty() {
            self.names.insert((domain.into(), (*limit.name).into()));
        }
        Ok(Some(Arc::new(limit)))
    }

    fn quantity(&mut self, written: &Mapping, place: Place<'_>) -> Result<Quantity, ConfigError> {
        let name = text(&written.unit);
        let key = format!("{}.unit", place.key);
        let line = written.unit.as_ref().map_or(place.line, |unit| unit.referenced.line());
        let place = Place { line, key: &key, ..place };
        match (is_set(&written.unlimited), Unit::named(name)) {
            (true, Some(_)) => {
                Err(place.refuse("unlimited has no unit: remove `unit` or `unlimited`"))
            }
            (true, None) => {
                if written.requests_per_unit.is_some() {
                    let message = "requests_per_unit has no effect beside unlimited: true";
                    self.warnings.push(place.warn(message));
                }
                Ok(Quantity::Unlimited)
            }
            (false, Some(unit)) => {
                let per_unit = written.requests_per_unit.as_ref().map_or(0, |field| field.value);
                if written.requests_per_unit.is_none() {
                    let message = "there is no requests_per_unit: it is 0, and nothing is allowed";
                    self.warnings.push(place.warn(message));
                }
                Ok(Quantity::Requests { per_unit, unit })
            }
            (false, None) => {
                let message = format!(
                    "`{name}` is no unit: write second, minute, hour, day, week, month or year, or \
                     unlimited: true"
                );
                Err(place.refuse(&message))
            }
        }
    }

    fn replaces(
        &mut self,
        written: &Mapping,
        place: Place<'_>,
        domain: &str,
    ) -> Result<Vec<Box<str>>, ConfigError> {
        let mut names = Vec::new();
        for (index, element) in elements(&written.replaces).iter().enumerate() {
            let key = format!("{}.replaces[{index}]", place.key);
            let place = Place { line: element.referenced.line(), key: &key, ..place };
            self.warn_of_misplaced(place.file, &key, &element.value, REPLACES);
            let name = text(&element.value.name);
            if name.is_empty() {
                return Err(place.refuse("it has no name: write that of the limit to replace"));
            }
            if name == text(&written.name) {
                return Err(place.refuse("a limit does not replace itself: name another one"));
            }
            self.check_length(place, name)?;
            let warning = place.warn("no limit of this domain has this name: nothing is replaced");
            self.replaced.push(Replaced { domain: domain.into(), name: name.into(), warning });
            names.push(name.into());
        }
        Ok(names)
    }

    /// What needs a limit to have an effect.
    fn warn_without_limit(&mut self, descriptor: &Mapping, place: Place<'_>) {
        for (key, is_set) in [
            ("shadow_mode", is_set(&descriptor.shadow_mode)),
            ("quota_mode", is_set(&descriptor.quota_mode)),
            ("detailed_metric", is_set(&descriptor.detailed_metric)),
            ("metadata", descriptor.metadata.is_some()),
        ] {
            if is_set {
                let message =
                    format!("{key} has no effect: it is for a descriptor with a rate_limit");
                self.warnings.push(place.warn(&message));
            }
        }
    }

    fn warn_of_misplaced(&mut self, file: &Path, at: &str, written: &Mapping, meant: &[&str]) {
        for (key, line) in written.misplaced(meant) {
            let message = format!(
                "it has no effect here, where {} are read: move it or remove it",
                meant.join(", ")
            );
            let dot = if at.is_empty() { "" } else { "." };
            let place = Place { file, line, key: &format!("{at}{dot}{key}") };
            self.warnings.push(place.warn(&message));
        }
    }
}

/// `false` when there is one already.
fn insert(choices: &mut Choices, value: &str, node: Node) -> bool {
    if value.is_empty() {
        return choices.any.replace(Box::new(node)).is_none();
    }
    match Pattern::new(value) {
        Some(pattern) => {
            let is_new = choices.patterns.iter().all(|(other, _)| other.written() != value);
            choices.patterns.push((pattern, node));
            is_new
        }
        None => match choices.values.entry(value.into()) {
            hash_map::Entry::Occupied(_) => false,
            hash_map::Entry::Vacant(place) => {
                place.insert(node);
                true
            }
        },
    }
}

#[cfg(test)]
/// Reads the text of one file.
///
/// # Errors
/// When it is not YAML of this form.
pub(crate) fn parse(text: &str) -> Result<Mapping, ConfigError> {
    glacis_service::config::parse(text)
}
