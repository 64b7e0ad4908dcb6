//! The paths on which GraphQL is served (`SecGraphqlPath`).
//!
//! A path that some server could take for one of them is one of them: what is read as GraphQL and is none is inspected as
//! text. So paths are compared without regard to case, to empty segments, `.` and `..`, to parameters behind a semicolon
//! and to a slash at the end.

use seclang::Text;

use super::Fault;
use crate::transform::normalise_path::normalise_path_win;

/// The paths, each in the form that requests are compared in.
#[derive(Clone, Debug, Default)]
pub(crate) struct GraphqlPaths {
    whole: Vec<Vec<u8>>,
    prefixes: Vec<Vec<u8>>,
}

impl GraphqlPaths {
    /// Adds the arguments of a directive.
    pub(crate) fn add(&mut self, name: &str, arguments: &[Text]) -> Result<(), Fault> {
        if arguments.is_empty() {
            return Err((None, format!("{name} needs at least one path, such as /graphql")));
        }
        for (position, argument) in arguments.iter().enumerate() {
            let text = argument.text.as_str();
            if !text.starts_with('/') || text.contains(['?', '#', '%', ';']) {
                let why = format!("expected a path such as /graphql or /graphql/*, not `{text}`");
                return Err((Some(position), why));
            }
            match text.strip_suffix('*') {
                Some(prefix) => self.prefixes.push(prefix.to_ascii_lowercase().into_bytes()),
                None => self.whole.push(compared(text.as_bytes())),
            }
        }
        Ok(())
    }

    /// Whether a path, percent-decoded once, is one of them.
    pub(crate) fn contain(&self, path: &[u8]) -> bool {
        if self.whole.is_empty() && self.prefixes.is_empty() {
            return false;
        }
        let path = compared(path);
        self.whole.contains(&path) || self.prefixes.iter().any(|prefix| path.starts_with(prefix))
    }
}

fn compared(path: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(path.len());
    for segment in path.split_inclusive(|&byte| byte == b'/') {
        let end = segment.iter().position(|&byte| byte == b';');
        plain.extend_from_slice(end.and_then(|end| segment.get(..end)).unwrap_or(segment));
        if end.is_some() && segment.ends_with(b"/") {
            plain.push(b'/');
        }
    }
    let mut normal = Vec::with_capacity(plain.len());
    if !normalise_path_win(&plain, &mut normal) {
        normal = plain;
    }
    while normal.ends_with(b"/") {
        normal.pop();
    }
    normal.make_ascii_lowercase();
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_may_mean_one_of_them_are_of_them() {
        let text = |text: &str| Text { text: text.to_owned(), ..Text::default() };
        let mut paths = GraphqlPaths::default();
        paths.add("SecGraphqlPath", &[text("/graphql"), text("/api/gql/*")]).unwrap();
        for (path, expected) in [
            ("/graphql", true),
            ("/graphql/", true),
            ("/GraphQL", true),
            ("//graphql", true),
            ("/a/../graphql", true),
            ("/./graphql;v=1", true),
            ("/graphql;v=1/", true),
            ("\\graphql", true),
            ("/graphql2", false),
            ("/graphql/x", false),
            ("/api/gql/Op", true),
            ("/api/gql/a/b", true),
            ("/api/gql", false),
            ("/", false),
            ("", false),
        ] {
            assert_eq!(paths.contain(path.as_bytes()), expected, "{path}");
        }
        assert!(!GraphqlPaths::default().contain(b"/graphql"));
        for wrong in ["graphql", "/a?b", "*"] {
            assert!(GraphqlPaths::default().add("SecGraphqlPath", &[text(wrong)]).is_err());
        }
        assert!(GraphqlPaths::default().add("SecGraphqlPath", &[]).is_err());
    }
}
