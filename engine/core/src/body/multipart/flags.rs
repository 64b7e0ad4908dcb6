//! What the `MULTIPART_*` variables say.

/// What the `MULTIPART_*` variables say, each the flag of the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MultipartFlags {
    /// The processor failed: part of `MULTIPART_STRICT_ERROR`.
    pub error: bool,
    /// `MULTIPART_BOUNDARY_QUOTED`.
    pub boundary_quoted: bool,
    /// `MULTIPART_BOUNDARY_WHITESPACE`: white space around the `=` of the boundary parameter.
    pub boundary_whitespace: bool,
    /// `MULTIPART_DATA_BEFORE`: bytes before the first boundary.
    pub data_before: bool,
    /// `MULTIPART_DATA_AFTER`: bytes after the final boundary's line.
    pub data_after: bool,
    /// `MULTIPART_HEADER_FOLDING`.
    pub header_folding: bool,
    /// `MULTIPART_INVALID_HEADER_FOLDING`: a folding that begins with neither space nor tab.
    pub invalid_header_folding: bool,
    /// A header or boundary line ends in CRLF; only `MULTIPART_CRLF_LF_LINES` tells.
    pub crlf_line: bool,
    /// `MULTIPART_LF_LINE`: a header or boundary line ends in a bare LF.
    pub lf_line: bool,
    /// `MULTIPART_MISSING_SEMICOLON`: none between media type and boundary parameter.
    pub missing_semicolon: bool,
    /// `MULTIPART_INVALID_QUOTING`.
    pub invalid_quoting: bool,
    /// `MULTIPART_INVALID_PART`: a part without a name, or whose headers or body are missing.
    pub invalid_part: bool,
    /// `MULTIPART_FILE_LIMIT_EXCEEDED`: the sink took no more files.
    pub file_limit_exceeded: bool,
    /// `MULTIPART_UNMATCHED_BOUNDARY`.
    pub unmatched_boundary: UnmatchedBoundary,
}

impl MultipartFlags {
    /// `MULTIPART_STRICT_ERROR`: any flag but the unmatched boundary, as in ModSecurity 3.
    #[must_use]
    pub fn strict_error(&self) -> bool {
        self.error
            || self.boundary_quoted
            || self.boundary_whitespace
            || self.data_before
            || self.data_after
            || self.header_folding
            || self.invalid_header_folding
            || self.lf_line
            || self.missing_semicolon
            || self.invalid_quoting
            || self.invalid_part
            || self.file_limit_exceeded
    }

    /// `MULTIPART_CRLF_LF_LINES`: both line ends are used.
    #[must_use]
    pub fn crlf_lf_lines(&self) -> bool {
        self.crlf_line && self.lf_line
    }
}

/// Whether something looks like a boundary and is not the one of the `Content-Type`.
///
/// The numbers are those of `MULTIPART_UNMATCHED_BOUNDARY`: `@eq 1` is the permissive test and
/// `!@eq 0` the strict one. ModSecurity 3 gives 2 to every complete body; here 2 needs a line that looks
/// like a boundary, so that the strict test means something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnmatchedBoundary {
    /// 0: there is none.
    #[default]
    None,
    /// 1: there is one, and no matching boundary comes after it.
    Unresolved,
    /// 2: there is one, and a matching boundary comes after it, as in a file with lines of dashes.
    Resolved,
}

impl UnmatchedBoundary {
    /// The value of `MULTIPART_UNMATCHED_BOUNDARY`.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Unresolved => 1,
            Self::Resolved => 2,
        }
    }
}
