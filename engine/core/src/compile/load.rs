//! Pass 1: inputs → directives, `Include` followed.

use seclang::{Directive, DirectiveKind, LineIndex, SourceId, Text};
use sha1::Digest;

use super::{Compiler, LoadedFile};
use crate::{
    body::protobuf::descriptor::DescriptorSet,
    error::BuildError,
    source::{Input, SourceFile},
    unicode_map::UnicodeMap,
};

/// How deep `Include` may nest. A ruleset in which one nests deeper is refused, and so is a circle of
/// files that include each other.
const INCLUDE_DEPTH_MAX: u32 = 16;

/// Files that one ruleset may consist of. One with more is refused.
const FILES_MAX: usize = 4_096;

impl Compiler<'_> {
    pub(super) fn load(&mut self, inputs: &[Input]) {
        for input in inputs {
            match input {
                Input::File(path) => match self.source.read(path, "") {
                    Ok(file) => self.load_file(file, 0),
                    Err(error) => self.file_error(path, &error.to_string()),
                },
                Input::Text { name, text } => self.load_text(name, text.clone(), 0),
            }
        }
    }

    /// An error that stands in no line: a file of the host's list that cannot be read.
    fn file_error(&mut self, path: &str, message: &str) {
        let order = (self.files.len(), 0);
        self.keep_error(BuildError::new(order, message.to_owned(), path, 0, message));
    }

    fn load_file(&mut self, file: SourceFile, depth: u32) {
        match String::from_utf8(file.bytes) {
            Ok(text) => self.load_text(&file.name, text, depth),
            Err(error) => {
                let valid = error.as_bytes().get(..error.utf8_error().valid_up_to());
                let line = 1 + valid.unwrap_or_default().iter().filter(|&&b| b == b'\n').count();
                let message = "the text is not UTF-8; write other bytes as \\xHH in patterns";
                let rendered = format!("{}:{line}:1: {message}", file.name);
                let line = u32::try_from(line).unwrap_or(u32::MAX);
                let order = (self.files.len(), 0);
                self.keep_error(BuildError::new(order, rendered, &file.name, line, message));
            }
        }
    }

    fn load_text(&mut self, name: &str, text: String, depth: u32) {
        if self.files.len() >= FILES_MAX {
            self.file_error(name, &format!("{name}: the ruleset has more than {FILES_MAX} files"));
            return;
        }
        self.digest.update(text.as_bytes());
        let source = SourceId(u32::try_from(self.files.len()).unwrap_or(u32::MAX));
        let parse = seclang::parse(source, &text);
        let lines = LineIndex::new(&text);
        self.files.push(LoadedFile { name: name.into(), text, lines });
        for error in parse.errors {
            self.error(error.span, &error.message);
        }
        for directive in parse.directives {
            if let DirectiveKind::Include { path, optional } = &directive.kind {
                self.include(name, path, *optional, depth);
            } else {
                self.directives.push(directive);
            }
        }
    }

    fn include(&mut self, from: &str, path: &Text, optional: bool, depth: u32) {
        if depth >= INCLUDE_DEPTH_MAX {
            self.error(
                path.span,
                &format!("Include is nested more than {INCLUDE_DEPTH_MAX} deep; does a file include itself?"),
            );
            return;
        }
        // A file that includes itself twice names more files than could ever be read.
        if self.files.len() >= FILES_MAX {
            self.error(path.span, &format!("the ruleset has more than {FILES_MAX} files"));
            return;
        }
        let paths = match self.source.list(&path.text, from) {
            Ok(paths) => paths,
            Err(error) => return self.error(path.span, &error.to_string()),
        };
        if paths.is_empty() && !optional {
            self.error(path.span, "no file matches; write IncludeOptional if that is all right");
        }
        for found in paths {
            match self.source.read(&found, "") {
                Ok(file) => self.load_file(file, depth + 1),
                Err(error) => self.error(path.span, &error.to_string()),
            }
        }
    }

    /// A data file that an operator names, read beside the file in which the rule stands.
    pub(super) fn read_data(&mut self, path: &str, source: SourceId) -> Result<Vec<u8>, String> {
        self.read_file(path, source).map(|file| file.bytes)
    }

    fn read_file(&mut self, path: &str, source: SourceId) -> Result<SourceFile, String> {
        let from = self.files.get(source.0 as usize).map_or("", |file| &file.name);
        let file = self.source.read(path, from).map_err(|error| error.to_string())?;
        self.digest.update(&file.bytes);
        Ok(file)
    }

    /// `SecOpenApiDocument FILE [BASE_PATH]`.
    pub(super) fn openapi_document(
        &mut self,
        directive: &Directive,
        arguments: &[Text],
    ) -> Result<(), String> {
        let (file, base_path) = match arguments {
            [file] => (file, None),
            [file, base_path] => (file, Some(base_path.text.as_str())),
            _ => {
                return Err(
                    "write SecOpenApiDocument FILE, such as openapi.yaml, and perhaps the \
                            path before all of its paths"
                        .into(),
                );
            }
        };
        let file = self.read_file(&file.text, directive.span.source)?;
        let description = self.source.api_description(&file, base_path);
        self.settings.api = Some(description.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// `SecUnicodeMapFile FILE CODEPAGE`.
    pub(super) fn unicode_map(
        &mut self,
        directive: &Directive,
        arguments: &[Text],
    ) -> Result<(), String> {
        let parts = match arguments {
            [file, page] => page.text.parse::<u32>().ok().map(|page| (&file.text, page)),
            _ => None,
        };
        let Some((file, page)) = parts else {
            return Err(
                "write SecUnicodeMapFile FILE CODEPAGE, such as unicode.mapping 20127".into()
            );
        };
        let bytes = self.read_data(file, directive.span.source)?;
        let map = UnicodeMap::parse(&String::from_utf8_lossy(&bytes), page)?;
        self.settings.unicode_map = Some(Box::new(map));
        Ok(())
    }

    /// `SecGrpcDescriptorSet FILE`.
    pub(super) fn grpc_descriptors(
        &mut self,
        directive: &Directive,
        arguments: &[Text],
    ) -> Result<(), String> {
        let [file] = arguments else {
            return Err("write SecGrpcDescriptorSet FILE, such as calls.binpb".into());
        };
        let bytes = self.read_data(&file.text, directive.span.source)?;
        let set = DescriptorSet::parse(&bytes).map_err(|why| format!("{}: {why}", file.text))?;
        self.settings.grpc_descriptors = Some(Box::new(set));
        Ok(())
    }
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::ERRORS_MAX;
    use crate::{Input, Limits, Program, Source, SourceError, SourceFile};

    /// Its one file includes itself, many times over.
    struct Circle;

    impl Source for Circle {
        fn read(&self, path: &str, _: &str) -> Result<SourceFile, SourceError> {
            let bytes = "Include a.conf\n".repeat(50).into_bytes();
            Ok(SourceFile { name: path.to_owned(), bytes })
        }

        fn list(&self, pattern: &str, _: &str) -> Result<Vec<String>, SourceError> {
            Ok(vec![pattern.to_owned()])
        }
    }

    #[test]
    fn a_file_that_includes_itself_is_refused() {
        let input = Input::File("a.conf".to_owned());
        let errors = Program::build(&[input], &Circle, Limits::default()).unwrap_err();
        assert_eq!(errors.errors().len(), ERRORS_MAX);
        assert!(errors.to_string().contains("does a file include itself?"), "{errors}");
    }
}
