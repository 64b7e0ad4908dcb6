//! What body processors find, on its way into the collections.

use super::decimal;
use crate::{
    body::{BodySink, Room},
    limits::Limits,
    store::{List, Slice, Store},
    transaction::Flags,
    xpath::{State, XPath},
};

/// Puts what a body processor finds into the collections, up to the limits.
pub(super) struct Sink<'t> {
    pub(super) store: &'t mut Store,
    pub(super) flags: &'t mut Flags,
    pub(super) limits: &'t Limits,
    pub(super) arguments: List,
    /// Whether what is added are parts of a multipart body, which have names of their own.
    pub(super) multipart: bool,
    /// Arguments that may still be added.
    pub(super) left: usize,
    /// Bytes of arguments, part headers and names of files that may still be added: see
    /// [`Transaction::observed_bytes_max`](crate::Transaction).
    pub(super) bytes_left: usize,
    pub(super) files_bytes: usize,
    pub(super) paths: Paths<'t>,
}

/// The paths that rules look for in an XML body, and how far each has been followed.
#[derive(Default)]
pub(super) struct Paths<'t> {
    paths: &'t [XPath],
    /// The expressions, as the names of what is found.
    names: Vec<Slice>,
    /// A state of each path for each open element, the document around them first.
    states: Vec<State>,
}

impl<'t> Paths<'t> {
    pub(super) fn new(paths: &'t [XPath], store: &mut Store) -> Self {
        let names = paths.iter().map(|path| store.push(path.expression().as_bytes())).collect();
        Self { paths, names, states: paths.iter().map(XPath::start).collect() }
    }

    /// The paths with their names and their states in the element opened last.
    fn current(&self) -> impl Iterator<Item = (&'t XPath, Slice, State)> {
        let inner = self.states.len().saturating_sub(self.paths.len());
        let states = self.states.get(inner..).unwrap_or_default();
        let named = self.paths.iter().zip(&self.names);
        named.zip(states).map(|((path, name), state)| (path, *name, *state))
    }

    fn open(&mut self, element: &[u8]) {
        let outer = self.states.len().saturating_sub(self.paths.len());
        for (at, path) in self.paths.iter().enumerate() {
            if let Some(state) = self.states.get_mut(outer + at) {
                let inner = path.enter(state, element);
                self.states.push(inner);
            }
        }
    }

    /// Takes note of an attribute of the element opened last.
    fn attribute(&mut self, name: &[u8], value: &[u8]) {
        let inner = self.states.len().saturating_sub(self.paths.len());
        let states = self.states.get_mut(inner..).unwrap_or_default();
        for (path, state) in self.paths.iter().zip(states) {
            path.note_attribute(state, name, value);
        }
    }

    fn close(&mut self) {
        let outer = self.states.len().saturating_sub(self.paths.len());
        // The document itself is never left.
        if outer >= self.paths.len() {
            self.states.truncate(outer);
        }
    }
}

impl Sink<'_> {
    fn add(&mut self, list: List, max: usize, name: &[u8], value: &[u8]) -> Room {
        if self.store.list(list).len() >= max {
            return Room::Full;
        }
        self.store.add_pair(list, name, value);
        Room::Left
    }

    /// Cuts a name and what belongs to it at the bytes that may still be added. `None` where there are none left.
    fn fitting<'v>(&mut self, name: &'v [u8], value: &'v [u8]) -> Option<(&'v [u8], &'v [u8])> {
        let left = self.bytes_left;
        self.bytes_left = left.saturating_sub(name.len().saturating_add(value.len()));
        let short_name = name.get(..left).unwrap_or(name);
        let short_value = value.get(..left - short_name.len()).unwrap_or(value);
        self.flags.request_body_truncated |=
            short_name.len() < name.len() || short_value.len() < value.len();
        (left > 0).then_some((short_name, short_value))
    }

    /// `MULTIPART_NAME`. There are no more of them than parts, which the processor counts.
    fn part_name(&mut self, name: &[u8]) {
        if self.multipart {
            self.add(List::MultipartNames, self.limits.multipart_parts_max, name, name);
        }
    }

    /// Adds a text or an attribute, once for all and once for each path that takes it.
    fn xml(
        &mut self,
        list: List,
        name: &[u8],
        value: &[u8],
        takes: impl Fn(&XPath, State) -> bool,
    ) -> Room {
        let max = self.limits.xml_nodes_max;
        if self.store.list(list).len() >= max {
            return Room::Full;
        }
        let name = self.store.push(name);
        let value = self.store.push(value);
        self.store.add_slices(list, name, value);
        for (path, name, state) in self.paths.current() {
            if takes(path, state) {
                if self.store.list(List::XmlPaths).len() >= max {
                    return Room::Full;
                }
                self.store.add_slices(List::XmlPaths, name, value);
            }
        }
        Room::Left
    }
}

impl BodySink for Sink<'_> {
    fn argument(&mut self, name: &[u8], value: &[u8]) -> Room {
        let Some(left) = self.left.checked_sub(1) else {
            self.flags.arguments_dropped = true;
            return Room::Full;
        };
        self.left = left;
        let Some((name, value)) = self.fitting(name, value) else { return Room::Left };
        self.part_name(name);
        self.store.add_pair(self.arguments, name, value);
        Room::Left
    }

    fn file(&mut self, field: &[u8], file_name: &[u8], content: &[u8]) -> Room {
        if self.store.list(List::FilesContent).len() >= self.limits.upload_files_max {
            return Room::Full;
        }
        let mut digits = [0; 20];
        let size = decimal(content.len() as u64, &mut digits);
        self.files_bytes += content.len();
        self.part_name(field);
        self.store.add_pair(List::FilesSizes, field, size);
        self.store.add_pair(List::FilesContent, field, content);
        self.store.note_file();
        self.file_name(field, file_name)
    }

    fn file_name(&mut self, field: &[u8], file_name: &[u8]) -> Room {
        let Some((field, file_name)) = self.fitting(field, file_name) else { return Room::Left };
        self.add(List::MultipartFileNames, self.limits.multipart_parts_max, field, file_name);
        self.add(List::Files, 2 * self.limits.multipart_parts_max, field, file_name)
    }

    fn part_header(&mut self, part: &[u8], line: &[u8]) -> Room {
        let max = self.limits.multipart_parts_max * self.limits.multipart_part_headers_max;
        let Some((part, line)) = self.fitting(part, line) else { return Room::Left };
        self.add(List::PartHeaders, max, part, line)
    }

    fn xml_text(&mut self, text: &[u8]) -> Room {
        self.xml(List::XmlText, b"/*", text, |path, state| path.takes_text(state))
    }

    fn xml_attribute(&mut self, name: &[u8], value: &[u8]) -> Room {
        self.paths.attribute(name, value);
        let takes = |path: &XPath, state| path.takes_attribute(state, name);
        self.xml(List::XmlAttributes, b"//@*", value, takes)
    }

    fn xml_open(&mut self, name: &[u8]) {
        self.paths.open(name);
    }

    fn xml_close(&mut self) {
        self.paths.close();
    }
}
