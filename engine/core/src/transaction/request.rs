//! From what the host gives to the values of variables.

mod api;
mod call;
mod clock;
mod graphql;
mod nested;
mod sink;

use core::{fmt, mem, time::Duration};
use std::{io::Write as _, sync::Arc};

use super::{Start, Transaction, values::is_stable};
use crate::{
    body::{
        self, BodyError, Outcome, Processor,
        encoding::EncodingError,
        graphql::{Measures, Numbers, Requests},
        urlencoded,
    },
    cookie,
    id::Phase,
    store::{List, Slice, ValueId},
    variable::Variable,
};
use clock::Clock;
use graphql::Reading;
use sink::{Paths, Sink};

impl Transaction {
    pub(super) fn scalar(&self, variable: Variable) -> Slice {
        self.scalars.get(variable as usize).copied().unwrap_or(Slice::EMPTY)
    }

    fn set(&mut self, variable: Variable, slice: Slice) {
        if let Some(scalar) = self.scalars.get_mut(variable as usize) {
            *scalar = slice;
        }
        // A rule may have looked at it too early: at `REQUEST_BODY` in phase 1, say. Of others nothing is kept.
        if self.stage > super::Stage::RequestHeaders && is_stable(variable) {
            self.forget(ValueId(variable as u32));
        }
    }

    fn set_bytes(&mut self, variable: Variable, bytes: &[u8]) {
        let slice = self.store.push(bytes);
        self.set(variable, slice);
    }

    fn set_number(&mut self, variable: Variable, number: u64) {
        let mut digits = [0; 20];
        let text = decimal(number, &mut digits);
        self.set_bytes(variable, text);
    }

    pub(super) fn set_flag(&mut self, variable: Variable, flag: bool) {
        self.set_bytes(variable, if flag { b"1" } else { b"0" });
    }

    /// Sets what has to be written first; nothing is allocated for it.
    fn set_text(&mut self, variable: Variable, text: fmt::Arguments<'_>) {
        let mut buffer = mem::take(&mut self.scratch.expansion);
        buffer.clear();
        // Writing to a vector does not fail.
        let _ = buffer.write_fmt(text);
        self.set_bytes(variable, &buffer);
        self.scratch.expansion = buffer;
    }

    pub(super) fn set_start(&mut self, start: &Start<'_>) {
        self.set_bytes(Variable::UniqueId, start.unique_id.as_bytes());
        let client = start.client.address.to_canonical();
        self.set_text(Variable::RemoteAddr, format_args!("{client}"));
        self.set(Variable::RemoteHost, self.scalar(Variable::RemoteAddr));
        self.set_number(Variable::RemotePort, u64::from(start.client.port));
        let server = start.server.address.to_canonical();
        self.set_text(Variable::ServerAddr, format_args!("{server}"));
        self.set_number(Variable::ServerPort, u64::from(start.server.port));
        self.set_time(start.time.as_secs());
    }

    fn set_time(&mut self, seconds: u64) {
        let clock = Clock::at(seconds);
        self.set_number(Variable::TimeEpoch, seconds);
        self.set_number(Variable::TimeSec, clock.second);
        self.set_number(Variable::TimeMin, clock.minute);
        self.set_number(Variable::TimeHour, clock.hour);
        self.set_number(Variable::TimeDay, clock.day);
        self.set_number(Variable::TimeMon, clock.month);
        self.set_number(Variable::TimeYear, clock.year);
        self.set_number(Variable::TimeWday, clock.weekday);
        let Clock { hour, minute, second, .. } = clock;
        self.set_text(Variable::Time, format_args!("{hour:02}:{minute:02}:{second:02}"));
    }

    pub(super) fn set_duration(&mut self, duration: Duration) {
        let microseconds = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.set_number(Variable::Duration, microseconds);
    }

    /// The request line. `protocol` as in `HTTP/1.1`, `HTTP/2`, `HTTP/3`.
    pub fn request_line(&mut self, method: &[u8], uri: &[u8], protocol: &[u8]) {
        if self.stage != super::Stage::RequestHeaders {
            return;
        }
        let start = self.store.push(method);
        self.store.push(b" ");
        let raw = self.store.push(uri);
        self.store.push(b" ");
        let end = self.store.push(protocol);
        self.set(Variable::RequestLine, Slice { end: end.end, ..start });
        self.set(Variable::RequestMethod, start);
        self.set(Variable::RequestUriRaw, raw);
        self.set(Variable::RequestProtocol, end);
        self.set_uri(uri, raw);
    }

    fn set_uri(&mut self, uri: &[u8], raw: Slice) {
        let path_at = path_start(uri);
        let request_uri = Slice { start: raw.start + offset(path_at), ..raw };
        self.set(Variable::RequestUri, request_uri);
        // A fragment is never sent by a client that means well; what follows it is not a path.
        let rest = uri.get(path_at..).unwrap_or_default();
        let rest = rest.get(..find(rest, b"#").unwrap_or(rest.len())).unwrap_or_default();
        let question = find(rest, b"?");
        let (path, query) = match question {
            Some(at) => {
                let start = request_uri.start + offset(at + 1);
                let end = request_uri.start + offset(rest.len());
                self.set(Variable::QueryString, Slice { start, end, ..raw });
                (rest.get(..at).unwrap_or_default(), rest.get(at + 1..).unwrap_or_default())
            }
            None => (rest, &[][..]),
        };
        let path_slice = Slice { end: request_uri.start + offset(path.len()), ..request_uri };
        let file_name = self.decoded_path(path, path_slice);
        self.set(Variable::RequestFilename, file_name);
        self.set(Variable::PathInfo, file_name);
        self.set(Variable::RequestBasename, self.base_name(file_name));
        self.control.graphql =
            self.program.settings.graphql_paths.contain(self.store.bytes(file_name));
        let outcome = self.parse_arguments(query);
        self.set_flag(Variable::UrlencodedError, outcome.invalid_escapes);
    }

    /// The path with `%XX` decoded; the path itself when there is nothing to decode.
    fn decoded_path(&mut self, path: &[u8], as_sent: Slice) -> Slice {
        if !path.contains(&b'%') {
            return as_sent;
        }
        let mut decoded = mem::take(&mut self.scratch.expansion);
        decoded.clear();
        urlencoded::percent_decode(path, &mut decoded);
        let slice = self.store.push(&decoded);
        self.scratch.expansion = decoded;
        slice
    }

    fn base_name(&self, file_name: Slice) -> Slice {
        let bytes = self.store.bytes(file_name);
        match bytes.iter().rposition(|byte| matches!(byte, b'/' | b'\\')) {
            Some(at) if at + 1 < bytes.len() => {
                Slice { start: file_name.start + offset(at + 1), ..file_name }
            }
            _ => file_name,
        }
    }

    fn parse_arguments(&mut self, query: &[u8]) -> Outcome {
        let separator = self.program.settings.argument_separator;
        let limits = &self.program.limits;
        let mut sink = Sink {
            store: &mut self.store,
            flags: &mut self.flags,
            limits,
            arguments: List::ArgsGet,
            multipart: false,
            left: limits.query_arguments_max.min(limits.arguments_max),
            bytes_left: usize::MAX,
            files_bytes: 0,
            paths: Paths::default(),
        };
        if !self.control.graphql {
            return urlencoded::parse(query, separator, &mut self.scratch.body, &mut sink);
        }
        let mut requests = Requests::new(limits, Numbers::default(), &mut sink);
        let outcome = urlencoded::parse(query, separator, &mut self.scratch.body, &mut requests);
        // An error is a flag already: arguments were left out.
        (self.control.graphql_queried, _) = requests.finish(limits, &mut self.scratch.body);
        outcome
    }

    /// A request header, in the order received. Repeated names are repeated calls.
    pub fn request_header(&mut self, name: &[u8], value: &[u8]) {
        if self.stage == super::Stage::RequestHeaders {
            self.add_header(List::RequestHeaders, name, value);
        }
    }

    /// A trailer field of the request, behind its body: a member of `REQUEST_HEADERS` in phase 2.
    ///
    /// The body is read as the headers before it describe it, whatever a trailer says of its type or coding (RFC 9110,
    /// 6.5.1). Fields beyond [`Limits::headers_max`](crate::Limits) have the request refused with 431, where rules may
    /// block.
    pub fn request_trailer(&mut self, name: &[u8], value: &[u8]) {
        if self.stage == super::Stage::RequestBody {
            self.read_request_body();
            self.add_header(List::RequestHeaders, name, value);
            if self.flags.headers_dropped {
                self.refuse_for_limit(431, Phase::RequestBody);
            }
        }
    }

    /// A trailer field of the response, behind its body: a member of `RESPONSE_HEADERS` in phase 4.
    pub fn response_trailer(&mut self, name: &[u8], value: &[u8]) {
        if self.stage == super::Stage::ResponseBody {
            self.add_header(List::ResponseHeaders, name, value);
        }
    }

    /// A response header, in the order received.
    pub fn response_header(&mut self, name: &[u8], value: &[u8]) {
        if self.stage <= super::Stage::ResponseHeaders {
            self.add_header(List::ResponseHeaders, name, value);
        }
    }

    fn add_header(&mut self, list: List, name: &[u8], value: &[u8]) {
        if self.store.list(list).len() >= self.program.limits.headers_max {
            self.flags.headers_dropped = true;
            return;
        }
        self.store.add_pair(list, name, value);
    }

    /// What follows from the headers as a whole: cookies, host, processor.
    pub(super) fn set_request_headers(&mut self) {
        for position in 0..self.store.list(List::RequestHeaders).len() {
            let Some(&header) = self.store.list(List::RequestHeaders).get(position) else { break };
            if self.store.bytes(header.name).eq_ignore_ascii_case(b"cookie") {
                self.add_cookies(header.value);
                self.unquote_cookies(header.value);
            }
        }
        if let Some(host) = self.store.find_slice(List::RequestHeaders, b"host") {
            let bytes = host_name(self.store.bytes(host)).len();
            self.set(Variable::ServerName, host.prefix(bytes));
        }
        if let Some(value) = self.store.find_slice(List::RequestHeaders, b"authorization") {
            let scheme = self.store.bytes(value).iter().take_while(|&&byte| byte != b' ').count();
            self.set(Variable::AuthType, value.prefix(scheme));
        }
        let content_type = self.store.find(List::RequestHeaders, b"content-type");
        self.control.processor = content_type.and_then(body::from_content_type);
        if self.control.graphql && self.control.processor.is_none() {
            self.control.processor = Some(Processor::Text);
        }
        self.set_processor();
        self.set_arguments_size();
        self.decode_nested(List::ArgsGet, List::ArgsGetDecoded);
        self.decode_nested(List::Cookies, List::CookiesDecoded);
        self.decode_nested_places();
        self.refuse_what_was_dropped();
    }

    /// What was not kept was not inspected: where rules may block, such a request is refused.
    fn refuse_what_was_dropped(&mut self) {
        if self.flags.headers_dropped || self.flags.cookies_dropped {
            self.refuse_for_limit(431, Phase::RequestHeaders);
        } else if self.flags.arguments_dropped {
            self.refuse_for_limit(400, Phase::RequestHeaders);
        }
    }

    pub(super) fn set_processor(&mut self) {
        let name = self.control.processor.map_or("", Processor::name);
        self.set_bytes(Variable::ReqbodyProcessor, name.as_bytes());
    }

    fn add_cookies(&mut self, header: Slice) {
        let line = self.copied(header);
        for (name, value) in cookie::pairs(&line) {
            if self.store.list(List::Cookies).len() >= self.program.limits.cookies_max {
                self.flags.cookies_dropped = true;
                break;
            }
            self.store.add_pair(List::Cookies, name, value);
        }
        self.give_back(line);
    }

    /// Adds what quoted strings stand for, as further values of the same cookies.
    fn unquote_cookies(&mut self, header: Slice) {
        let line = self.copied(header);
        let (store, out) = (&mut self.store, &mut self.scratch.decoded);
        cookie::quoted(&line, out, |name, value| {
            store.add_pair(List::CookiesDecoded, name, value);
        });
        out.clear();
        out.shrink_to(body::BodyScratch::RETAINED_BYTES_MAX);
        self.give_back(line);
    }

    /// A copy of what is read while the store is written to, in a buffer to be [given back](Self::give_back).
    fn copied(&mut self, slice: Slice) -> Vec<u8> {
        let mut copy = mem::take(&mut self.scratch.name);
        copy.clear();
        copy.extend_from_slice(self.store.bytes(slice));
        copy
    }

    fn give_back(&mut self, mut copy: Vec<u8>) {
        copy.clear();
        copy.shrink_to(body::BodyScratch::RETAINED_BYTES_MAX);
        self.scratch.name = copy;
    }

    fn set_arguments_size(&mut self) {
        let pairs = [List::ArgsGet, List::ArgsPost].map(|list| self.store.list(list).iter());
        let size: usize =
            pairs.into_iter().flatten().map(|pair| pair.name.len() + pair.value.len()).sum();
        self.set_number(Variable::ArgsCombinedSize, size as u64);
    }

    /// Runs the body processor and sets what follows from the body.
    pub(super) fn set_request_body(&mut self) {
        self.set_number(Variable::RequestBodyLength, self.store.request_body.len() as u64);
        let encoding = self.decode_request_body().err();
        self.control.body_undecoded = encoding.is_some();
        let processor = self.control.processor.filter(|_| self.control.request_body_access);
        let as_form =
            matches!(processor, Some(Processor::UrlEncoded | Processor::Text | Processor::Raw));
        let is_variable = as_form || self.control.force_request_body;
        let cut = self.cut_observed_body(processor, is_variable);
        let as_sent =
            matches!(processor, Some(Processor::Json | Processor::JsonLines | Processor::Xml));
        if is_variable || as_sent {
            self.set_request_body_variable(is_variable);
        }
        self.set_flag(Variable::InboundDataError, self.flags.request_body_truncated);
        let outcome = match processor {
            Some(processor) => self.process_body(processor),
            None => Outcome::default(),
        };
        if processor.is_none() {
            self.set_graphql(&Measures::default());
        }
        let outcome = cut.map_or(outcome, |cut| cut.outcome(outcome));
        self.set_body_outcome(&outcome, encoding);
        self.set_arguments_size();
        self.decode_nested(List::ArgsPost, List::ArgsPostDecoded);
    }

    fn set_request_body_variable(&mut self, for_all_rules: bool) {
        let body = self.store.request_body_slice();
        let shown = body.prefix(self.observed_bytes_max().unwrap_or(usize::MAX));
        self.flags.request_body_truncated |= shown.len() < body.len();
        self.set(Variable::RequestBodyAsSent, shown);
        if for_all_rules {
            self.set(Variable::RequestBody, shown);
        }
    }

    fn process_body(&mut self, processor: Processor) -> Outcome {
        // The processor reads the body while what it finds is added to the same store.
        let body = mem::take(&mut self.store.request_body);
        let content_type = self.store.find_slice(List::RequestHeaders, b"content-type");
        let content_type = self.copied(content_type.unwrap_or(Slice::EMPTY));
        let paths = match processor {
            Processor::Xml => Paths::new(&self.program.xpaths, &mut self.store),
            _ => Paths::default(),
        };
        // The limit is of both, as in ModSecurity.
        let queried = self.store.list(List::ArgsGet).len();
        let arguments_left = self.program.limits.arguments_max.saturating_sub(queried);
        // The other processors have been given no more than that.
        let bytes_left = self.observed_bytes_max().filter(|_| processor == Processor::Multipart);
        let reads_messages = matches!(processor, Processor::Grpc | Processor::Protobuf);
        let program = Arc::clone(&self.program);
        let call = reads_messages.then(|| self.grpc_call(&program, body.len()));
        let mut posted = Measures::default();
        let numbers = self.queried_numbers();
        let mut sink = Sink {
            store: &mut self.store,
            flags: &mut self.flags,
            limits: &self.program.limits,
            arguments: List::ArgsPost,
            multipart: processor == Processor::Multipart,
            left: arguments_left,
            bytes_left: bytes_left.unwrap_or(usize::MAX),
            files_bytes: 0,
            paths,
        };
        let outcome = match call {
            Some(call) => body::process_messages(
                processor,
                &content_type,
                &body,
                &self.program.limits,
                &call,
                &mut self.scratch.body,
                &mut sink,
            ),
            None if self.control.graphql => {
                let content_type = &content_type;
                let separator = self.program.settings.argument_separator;
                let in_payload = self.control.request_is_message;
                let reading = Reading { processor, content_type, separator, numbers, in_payload };
                let (limits, scratch) = (&self.program.limits, &mut self.scratch.body);
                let (outcome, measures) =
                    graphql::process(reading, &body, limits, scratch, &mut sink);
                posted = measures;
                outcome
            }
            None => body::process(
                processor,
                &content_type,
                &body,
                &self.program.limits,
                self.program.settings.argument_separator,
                &mut self.scratch.body,
                &mut sink,
            ),
        };
        let files_bytes = sink.files_bytes;
        self.store.request_body = body;
        self.set_graphql(&posted);
        self.give_back(content_type);
        self.set_number(Variable::FilesCombinedSize, files_bytes as u64);
        self.set_flag(Variable::InboundDataError, self.flags.request_body_truncated);
        outcome
    }

    fn set_body_outcome(&mut self, outcome: &Outcome, encoding: Option<EncodingError>) {
        let too_large =
            outcome.bytes_without_files > self.program.limits.request_body_no_files_bytes_max;
        let limit = outcome.error.is_some_and(|error| error.kind.is_limit());
        self.flags.body_limit_reached =
            limit || too_large || encoding.is_some_and(EncodingError::is_limit);
        let processor_message = outcome.error.map_or("", BodyError::message);
        let message = match (encoding, outcome.error) {
            (Some(error), _) => error.message(),
            (None, Some(_)) => processor_message,
            (None, None) if too_large => {
                "Request body excluding files is bigger than the maximum expected."
            }
            (None, None) => "",
        };
        self.set_flag(Variable::ReqbodyError, !message.is_empty());
        self.set_bytes(Variable::ReqbodyErrorMsg, message.as_bytes());
        self.set_flag(Variable::ReqbodyProcessorError, outcome.error.is_some());
        self.set_bytes(Variable::ReqbodyProcessorErrorMsg, processor_message.as_bytes());
        if outcome.invalid_escapes {
            self.set_flag(Variable::UrlencodedError, true);
        }
        let flags = outcome.multipart;
        for (variable, flag) in [
            (Variable::MultipartStrictError, flags.strict_error()),
            (Variable::MultipartBoundaryQuoted, flags.boundary_quoted),
            (Variable::MultipartBoundaryWhitespace, flags.boundary_whitespace),
            (Variable::MultipartDataBefore, flags.data_before),
            (Variable::MultipartDataAfter, flags.data_after),
            (Variable::MultipartHeaderFolding, flags.header_folding),
            (Variable::MultipartInvalidHeaderFolding, flags.invalid_header_folding),
            (Variable::MultipartLfLine, flags.lf_line),
            (Variable::MultipartCrlfLfLines, flags.crlf_lf_lines()),
            (Variable::MultipartMissingSemicolon, flags.missing_semicolon),
            (Variable::MultipartInvalidQuoting, flags.invalid_quoting),
            (Variable::MultipartInvalidPart, flags.invalid_part),
            (Variable::MultipartFileLimitExceeded, flags.file_limit_exceeded),
        ] {
            self.set_flag(variable, flag);
        }
        let unmatched = u64::from(flags.unmatched_boundary.number());
        self.set_number(Variable::MultipartUnmatchedBoundary, unmatched);
    }

    /// The response's status and protocol.
    pub fn response_line(&mut self, status: u16, protocol: &[u8]) {
        if self.stage > super::Stage::ResponseHeaders {
            return;
        }
        let start = self.store.push(protocol);
        self.store.push(b" ");
        let mut digits = [0; 20];
        let status = decimal(u64::from(status), &mut digits);
        let end = self.store.push(status);
        self.set(Variable::StatusLine, Slice { end: end.end, ..start });
        self.set(Variable::ResponseProtocol, start);
        self.set(Variable::ResponseStatus, end);
    }

    pub(super) fn set_response_headers(&mut self) {
        let content_type = self.store.find_slice(List::ResponseHeaders, b"content-type");
        let content_type = self.copied(content_type.unwrap_or(Slice::EMPTY));
        self.set_bytes(Variable::ResponseContentType, media_type(&content_type));
        self.give_back(content_type);
    }

    /// Whether the response's media type is one of those inspected.
    pub(super) fn inspects_media_type(&self) -> bool {
        let media_type = self.store.bytes(self.scalar(Variable::ResponseContentType));
        self.program.settings.inspects_media_type(media_type)
    }

    pub(super) fn set_response_body(&mut self) {
        let bytes = self.store.response_body.len() as u64;
        self.flags.response_body_encoded = self.decode_response_body().is_err();
        self.set(Variable::ResponseBody, self.store.response_body_slice());
        self.set_number(Variable::ResponseContentLength, bytes);
        self.set_flag(Variable::OutboundDataError, self.flags.response_body_truncated);
    }
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn find(haystack: &[u8], needle: &[u8; 1]) -> Option<usize> {
    memchr::memchr(needle[0], haystack)
}

/// Where the path begins: behind scheme and host of an absolute URI.
fn path_start(uri: &[u8]) -> usize {
    if uri.first() == Some(&b'/') {
        return 0;
    }
    let Some(scheme) = memchr::memmem::find(uri, b"://") else { return 0 };
    let letters = uri.get(..scheme).unwrap_or_default();
    if letters.is_empty() || !letters.iter().all(u8::is_ascii_alphanumeric) {
        return 0;
    }
    let host = scheme + 3;
    let behind = uri.get(host..).unwrap_or_default();
    host + behind.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(behind.len())
}

/// `example.com:8080` → `example.com`, `[::1]:80` → `[::1]`.
fn host_name(host: &[u8]) -> &[u8] {
    let end = match host.iter().position(|&byte| byte == b']') {
        Some(bracket) => Some(bracket + 1),
        None => host.iter().position(|&byte| byte == b':'),
    };
    end.and_then(|end| host.get(..end)).unwrap_or(host)
}

/// `text/html; charset=utf-8` → `text/html`.
fn media_type(content_type: &[u8]) -> &[u8] {
    content_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii()
}

/// Writes a number in decimal.
pub(super) fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut start = digits.len();
    for (position, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        start = position;
        if number == 0 {
            break;
        }
    }
    digits.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_uris_have_a_path() {
        for (uri, expected) in [
            ("/a://b", 0),
            ("http://host/a", 11),
            ("http://host?a", 11),
            ("http://host", 11),
            ("a/b", 0),
            ("://x", 0),
            ("*", 0),
        ] {
            assert_eq!(path_start(uri.as_bytes()), expected, "{uri}");
        }
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        let mut digits = [0; 20];
        for number in [0, 9, 10, 1_234_567_890, u64::MAX] {
            assert_eq!(decimal(number, &mut digits), number.to_string().as_bytes());
        }
    }
}
