//! Where a rule matched, as something that an exclusion can name.

/// A collection and the name of a member, or a variable with one value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) collection: String,
    /// Without a name: all of the collection.
    pub(crate) name: Option<String>,
}

/// How much of a site shares a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Cookies and headers are sent to every path.
    Site,
    /// A parameter belongs to a page, or to a few.
    Page,
    /// The target is a part of the path or of the request line.
    Path,
}

impl Target {
    /// Reads `ARGS:q`; `None` for counts, members of `TX` and bytes that are no text: those cannot be named.
    pub(crate) fn read(variable: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(variable).ok()?;
        let (collection, name) = match text.split_once(':') {
            Some((collection, name)) => (collection, Some(name)),
            None => (text, None),
        };
        let unnamed = ["TX", "MATCHED_VARS", "MATCHED_VARS_NAMES", "MATCHED_VAR", "RULE"];
        if collection.starts_with(['&', '!']) || unnamed.contains(&collection) {
            return None;
        }
        let ignores_case = collection.starts_with("REQUEST_HEADERS");
        let fold =
            |name: &str| if ignores_case { name.to_ascii_lowercase() } else { name.to_owned() };
        let name = name.filter(|name| !name.is_empty()).map(fold);
        Some(Self { collection: collection.to_owned(), name })
    }

    /// As SecLang and the typed form write it.
    pub(crate) fn text(&self) -> String {
        match &self.name {
            Some(name) => format!("{}:{name}", self.collection),
            None => self.collection.clone(),
        }
    }

    /// Whether what matched is the name itself.
    pub(crate) fn is_name(&self) -> bool {
        self.collection.ends_with("_NAMES")
    }

    pub(crate) fn reach(&self) -> Reach {
        match self.collection.as_str() {
            "REQUEST_COOKIES"
            | "REQUEST_COOKIES_NAMES"
            | "REQUEST_HEADERS"
            | "REQUEST_HEADERS_NAMES" => Reach::Site,
            "REQUEST_FILENAME" | "REQUEST_BASENAME" | "REQUEST_URI" | "REQUEST_URI_RAW"
            | "REQUEST_LINE" | "REQUEST_METHOD" | "REQUEST_PROTOCOL" => Reach::Path,
            _ => Reach::Page,
        }
    }

    /// Whether the value is one of a few words of the protocol: an exclusion then holds for the words that were seen.
    pub(crate) fn is_word(&self) -> bool {
        let is_type = self.name.as_deref() == Some("content-type");
        ["REQUEST_METHOD", "REQUEST_PROTOCOL"].contains(&self.collection.as_str())
            || self.collection == "REQUEST_HEADERS" && is_type
    }
}
