//! The text that `--help` prints after the options of a command.

pub(super) const COMMANDS: &str = "\
Exit status: 0 success, 1 findings (errors in rules or input, a blocked request, a failed test, an open
breaker), 2 usage error, 3 a verdict differs from --expect, 4 a service cannot be reached.";

pub(super) const STATUS: &str = "\
A breaker is what Envoy's health checks and outlier detection make of a cluster: closed while a host is in
service, open when none is, half-open when none is and probes begin to succeed. It is watched for 0.3 s when it
is not closed. The exit status is 1 then, and 4 if the admin port cannot be reached.";

pub(super) const DOCTOR: &str = "\
Checks what is named: a configuration, rules, Envoy's configuration, running services. Each check has a permanent
id; docs/reference/doctor.md lists them with their remedies. The exit status is 1 if there is an error or a
warning, and 4 if a port cannot be reached. Notes do not change it.";

pub(super) const BANS: &str = "\
A network has at least 8 bits of IPv4, 16 of IPv6. Adding a ban never shortens one. Where bans are in Redis, all
services and filters follow within two seconds. `remove` exits with 1 when the network was not banned.";

pub(super) const IMPORT: &str = "\
Every directive of the input is in the output: as a key, as SecLang, or in a comment with the reason. Included
files are read. An import that recognises nothing exits with 1.";

pub(super) const BUNDLE: &str = "\
Prints the rules in base64, on one line: the value of first_verdict.rules in the plugin configuration. Rules and
data files together are at most 8 MiB.";

pub(super) const GEO: &str = "\
Takes the country of each network from country.iso_code or country_code, and prints the table in base64, on one
line: the value of geo.table in the plugin configuration.

A table has at most 65534 different systems; more are left out, those with the fewest networks first.";

pub(super) const LINT: &str = "\
Results go to standard output. In the format `text`, warnings and the count go to standard error. A file is at
most 64 MiB. The exit status is 1 if there is an error, and with --strict if there is a warning.";

pub(super) const EVAL: &str = "\
In:  {\"id\", \"class\"?, \"time\"?, \"client\": {\"ip\", \"port\"}?, \"server\": {\"ip\", \"port\"}?, \"method\", \"uri\",
      \"protocol\", \"headers\": [[name, value]…] or {name: value}, \"body\"? or \"body_base64\"?,
      \"response\": {\"status\", \"protocol\", \"headers\", \"body\"? or \"body_base64\"?}?}
     Method, URI, names, values and body that are not UTF-8 are written {\"base64\": \"…\"}.
Out: {\"id\", \"action\": \"allow|deny|redirect|drop\", \"status\", \"phase\", \"matched\": [{\"id\", \"phase\", \"msg\",
      \"logdata\", \"severity\", \"tags\", \"matches\": [{\"variable\", \"value\"}]}],
      \"scores\": {\"inbound\", \"outbound\"}, \"location\"?, \"error\"?,
      \"second_opinion\"?: {\"attack\", \"score\", \"threshold\", \"value\", \"sum\", \"reasons\": [{\"rule\", \"weight\"}]}}
     status is that of the block, otherwise that of the response given, otherwise 200; phase is the
     phase of the block, otherwise null. matched has every rule that matched and logs.

Instead of JSON lines, REQUESTS may be a HAR file, a file with one raw HTTP request, a URL, a request line in
quotes, or, after `--`, a curl command. Nothing is sent. Options of curl that change nothing in a request are named.

A line that is not such an object is answered by {\"id\", \"error\"}, and makes the exit status 1. Blank
lines are left out. A line is at most 64 MiB; of a longer one only the error remains. Response phases
are evaluated when a response is given and the request was not blocked.";

pub(super) const TRAIN: &str = "\
In: requests as for `glacis eval`, each with \"source\", the name of the data set that it comes from, and
\"label\": \"attack\", \"benign\", or \"technical\" for what is no attack, but has no part in the threshold: code and
commands that people write about. At most 1000000 requests and 1024 sources.

Rules of all levels run. Each source is left out in turn, and the weights learned from the others are tried
on it; the threshold and the figures in the file come from that. Two sources of each label are needed. The
same input gives the same file on the same platform (docs/second-opinion.md).";

pub(super) const EXPLAIN: &str = "\
Prints the verdict, the rules that found an attack with the matched text, how the score came about, which rule
blocked, and the narrowest exclusion that allows the request, which is tried out before it is shown. Bookkeeping
rules are in one line; --all shows them.

In: requests as for `glacis eval` (also a URL, 'GET /?q=1 HTTP/1.1', raw HTTP, HAR, or `-- curl …`), or audit
records of Glacis. What a record lacks (bodies and headers, unless SecAuditLogParts asks for them) or masks is
listed, and so are rules that the record names and that do not match again.

An exclusion is given in two ways: for all requests, to be placed after the rules, and for one path, to be placed
before them. At most 48 rulesets are built to find and to try it. Exit status 1: a request is blocked.";

pub(super) const LEARN: &str = "\
Requests may have `time` (RFC 3339) and `client`. What looks like an attack is no evidence. An exclusion with which
known attacks are no longer found is narrowed to the values that were seen, or declined. docs/learn.md has the steps.";

pub(super) const LEARN_API: &str = "\
In: requests as for `glacis eval`, or audit records. With rules (--crs DIR), requests that they block are left out, and
so are requests with a `response` of status 400 and above. The exit status is 1 when a line is no request.
docs/openapi.md has the steps.";

pub(super) const QUANTIFY: &str = "\
A sentence is the value of a parameter in the query of a GET, as in go-ftw; a number and a tab before it (the Leipzig
Corpora Collection) are left out. Everything is evaluated once, at the highest level, and each match counts for the
level of its rule. `blocked` counts requests whose score with the rules up to a level reaches the threshold.
The exit status is 1 when a line is no request; it is counted as skipped.";

pub(super) const PROFILE: &str = "\
In: requests as for `glacis eval`, at most 1000000. They are evaluated once before anything is counted,
so that what is built while requests are evaluated is there.

A rule's time is that of its gate and its whole chain. Work whose result other rules use too (what a chain
of transformations makes of a value, a scan, a sieve) is charged to the rule that asks first: that part of
its time is shown as shared. Scans before the rules of a phase are part of no rule's time.";

pub(super) const FTW: &str = "\
--overrides: [{test: 920100-4, reason: …, skip: true}], or expect: {…} like output, with `tests: [920100-4, …]`
for several; one that is not needed is a failure.

--audit-log: requests carry an x-request-id header, by which their record is found. Envoy must preserve it, every
request must have a record (SecAuditEngine On), and nothing may be masked in it. A test that looks at matched rules
fails without a record. Without this option such tests are skipped.

In process the backend is imagined: POST /reflect answers as its JSON body says (status, headers, body,
encodedBody), everything else with an empty 200. A status is that of the block, or of the backend. Rules that log are
what a test means by the log.

total = passed + failed + skipped; overridden counts those of them whose expectation was replaced or
that an override skips.";
