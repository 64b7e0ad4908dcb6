//! Macro expansion at run time.

use super::{Transaction, request::decimal, values::selected};
use crate::{
    expand::{Expression, Segment},
    pattern::Meter,
    program::{Program, Select},
    store::List,
    transform::Transformation,
    variable::Variable,
};

/// `MODSEC_BUILD`: two digits each for the parts of the version, and ModSecurity's number for a release.
const MODSEC_BUILD: &[u8] = b"030014100";

/// The scheme whose credentials name a user, and the space behind it.
const BASIC: &[u8] = b"Basic ";

/// What macros stand for, as far as there is room: a variable may hold a whole body, of which a text takes no more than
/// its limit.
struct Expansion<'o> {
    out: &'o mut Vec<u8>,
    /// Bytes that may still be appended.
    left: usize,
    /// Whether bytes were left out.
    cut: bool,
}

impl Expansion<'_> {
    fn push(&mut self, bytes: &[u8]) {
        let taken = bytes.get(..self.left).unwrap_or(bytes);
        self.out.extend_from_slice(taken);
        self.left -= taken.len();
        self.cut |= taken.len() < bytes.len();
    }
}

impl Transaction {
    /// Appends the expansion of `expression` to `out`, up to the limit; a text without macros is as long as
    /// its rule.
    pub(super) fn expand(&mut self, program: &Program, expression: &Expression, out: &mut Vec<u8>) {
        if let Some(text) = expression.literal() {
            out.extend_from_slice(text);
            return;
        }
        self.expand_segments(program, expression.segments(), out);
    }

    /// Appends what the segments, taken together, stand for.
    pub(super) fn expand_segments(
        &mut self,
        program: &Program,
        segments: &[Segment],
        out: &mut Vec<u8>,
    ) {
        let mut expansion = Expansion { out, left: program.limits.expansion_bytes_max, cut: false };
        self.write_segments(program, segments, &mut expansion);
        self.flags.values_cut |= expansion.cut;
    }

    fn write_segments(&mut self, program: &Program, segments: &[Segment], out: &mut Expansion<'_>) {
        for segment in segments {
            match segment {
                Segment::Literal(text) => out.push(text),
                Segment::Tx(slot) => out.push(self.tx.slot(*slot).unwrap_or_default()),
                Segment::Scalar(variable) => self.write_variable(*variable, out),
                Segment::Member(variable, key) => self.write_member(program, *variable, key, out),
            }
        }
    }

    /// Appends the value of a variable, all of it.
    pub(super) fn write_scalar(&self, variable: Variable, out: &mut Vec<u8>) {
        self.write_variable(variable, &mut Expansion { out, left: usize::MAX, cut: false });
    }

    fn write_variable(&self, variable: Variable, out: &mut Expansion<'_>) {
        match variable {
            Variable::MatchedVar => {
                out.push(self.matches.vars().last().map_or(&[], |var| &var.value));
            }
            Variable::MatchedVarName => {
                out.push(self.matches.vars().last().map_or(&[], |var| &var.name));
            }
            Variable::HighestSeverity => {
                let mut digits = [0; 20];
                out.push(decimal(u64::from(self.highest_severity), &mut digits));
            }
            Variable::MscPcreError => {
                out.push(if self.flags.patterns_failed { b"1" } else { b"0" });
            }
            Variable::MscPcreLimitsExceeded => {
                out.push(if self.budget.gave_up() { b"1" } else { b"0" });
            }
            Variable::MscStepsLimitExceeded => {
                out.push(if self.flags.rules_cut_off { b"1" } else { b"0" });
            }
            Variable::Sessionid => self.write_key(Variable::Session, out),
            Variable::Userid => self.write_key(Variable::User, out),
            Variable::ModsecBuild => out.push(MODSEC_BUILD),
            Variable::Webappid => out.push(self.program.settings.web_app_id.as_bytes()),
            Variable::RemoteUser => self.write_remote_user(out),
            Variable::FullRequest => {
                self.full_request().for_each(|part| out.push(part));
            }
            Variable::FullRequestLength => {
                let mut digits = [0; 20];
                let bytes: usize = self.full_request().map(<[u8]>::len).sum();
                out.push(decimal(bytes as u64, &mut digits));
            }
            // A collection without a name: its first member, as ModSecurity 3 resolves it.
            _ if super::values::lists(variable).is_some() => {
                self.write_first(variable, &Select::All, out);
            }
            _ => out.push(self.store.bytes(self.scalar(variable))),
        }
    }

    /// The user whom the host names, or the one that the client says it is, as in ModSecurity 3.
    ///
    /// Source: RFC 7617, section 2.
    fn write_remote_user(&self, out: &mut Expansion<'_>) {
        if let Some(user) = &self.remote_user {
            out.push(user);
            return;
        }
        let value = self.store.find(List::RequestHeaders, b"authorization").unwrap_or_default();
        let Some((scheme, credentials)) = value.split_at_checked(BASIC.len()) else { return };
        if !scheme.eq_ignore_ascii_case(BASIC) {
            return;
        }
        let mut decoded = Vec::new();
        let changed = Transformation::Base64Decode.apply(credentials.trim_ascii(), &mut decoded);
        let text = if changed { &decoded } else { credentials };
        // Credentials without a colon name nobody.
        if let Some(end) = memchr::memchr(b':', text) {
            out.push(text.get(..end).unwrap_or_default());
        }
    }

    /// The parts of `FULL_REQUEST`, one behind the other.
    fn full_request(&self) -> impl Iterator<Item = &[u8]> {
        let line = self.store.bytes(self.scalar(Variable::RequestLine));
        let headers = self.store.list(List::RequestHeaders).iter().flat_map(|pair| {
            [self.store.bytes(pair.name), b": ", self.store.bytes(pair.value), b"\n"]
        });
        let body: &[u8] = &self.store.request_body;
        [line, b"\n"].into_iter().chain(headers).chain([&b"\n"[..], body])
    }

    fn write_member(
        &mut self,
        program: &Program,
        variable: Variable,
        key: &[u8],
        out: &mut Expansion<'_>,
    ) {
        match variable {
            Variable::Rule => self.write_rule(program, key, out),
            Variable::Env => out.push(self.env.other(key).unwrap_or_default()),
            Variable::Tx => out.push(self.tx.other(key).unwrap_or_default()),
            Variable::MatchedVars | Variable::MatchedVarsNames => {
                let mut vars = self.matches.vars().iter();
                if let Some(var) = vars.find(|var| var.name.eq_ignore_ascii_case(key)) {
                    let names = variable == Variable::MatchedVarsNames;
                    out.push(if names { &var.name } else { &var.value });
                }
            }
            _ => match self.persistent(variable) {
                Some(opened) => {
                    out.push(opened.collection.value(key).unwrap_or_default());
                }
                None => self.write_first(variable, &Select::Key(key.into()), out),
            },
        }
    }

    /// The key under which a collection was opened.
    fn write_key(&self, collection: Variable, out: &mut Expansion<'_>) {
        let opened = self.persistent(collection).and_then(|opened| opened.key.as_ref());
        out.push(opened.map_or(&[], |key| key));
    }

    fn write_first(&self, variable: Variable, select: &Select, out: &mut Expansion<'_>) {
        let Some((lists, part)) = super::values::lists(variable) else { return };
        let mut pairs = lists.iter().flat_map(|&list| self.store.list(list));
        // A macro names all members or one by its key: there is no pattern to pay for.
        let mut meter = Meter::default();
        let found = pairs.find(|pair| selected(select, self.store.bytes(pair.name), &mut meter));
        if let Some(pair) = found {
            out.push(self.store.bytes(part.of(pair).0));
        }
    }

    /// `%{rule.id}` and its like.
    fn write_rule(&mut self, program: &Program, key: &[u8], out: &mut Expansion<'_>) {
        let Some(rule) = self.current_rule.and_then(|index| program.rules.get(index.get())) else {
            return;
        };
        match key {
            b"id" => out.push(rule.id.to_string().as_bytes()),
            b"rev" => out.push(rule.meta.rev.as_bytes()),
            b"msg" => out.push(rule.meta.msg_text.as_bytes()),
            // The number, as in ModSecurity 3; names are for logs.
            b"severity" => {
                if let Some(severity) = rule.meta.severity {
                    out.push(decimal(u64::from(severity), &mut [0; 20]));
                }
            }
            b"logdata" => {
                // `logdata` may itself name rule.logdata; then it is empty inside.
                let current = self.current_rule.take();
                if let Some(text) = &rule.meta.logdata {
                    self.write_segments(program, text.segments(), out);
                }
                self.current_rule = current;
            }
            _ => {}
        }
    }
}
