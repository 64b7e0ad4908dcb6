//! What `--help` says, of all commands and of each.

pub(super) const VERSION: &str = concat!("glacis ", env!("CARGO_PKG_VERSION"), "\n");

pub(super) const HELP: &str = "\
Rules of a web application firewall: check them, try them, test them.

Usage: glacis COMMAND [OPTION…]

  lint FILE…                           check files of rules
  eval --rules FILE [REQUESTS|-]       evaluate requests, one JSON object a line
  eval --rules FILE --bench SECONDS    measure the time that they take
  explain --rules FILE [REQUEST|-]     why a request is refused, and what would let it pass
  learn --rules FILE [FILE…]           exclusions for what ordinary requests trip over
  profile --rules FILE [REQUESTS|-]    what each rule costs
  quantify --crs DIR [SENTENCES|-]     false alarms by rule and paranoia level
  ftw --tests DIR --rules FILE         run regression tests in the format of the OWASP CRS
  geo build [--asn] FILE.mmdb          countries of addresses, or their autonomous systems, for
                                       the wasm-filter
  patches seclang|filter FILE…         virtual patches as rules, or for the wasm-filter
  status                               the breakers of a running Envoy
  bans list|add|remove                 who is banned by a running ext-authz
  import FORM FILE…                    rules of another firewall as profiles of ext-proc
  bundle --rules FILE                  rules in one piece, for the wasm-filter's first verdict
  train --crs DIR [REQUESTS|-]         learn weights of a second opinion from labelled requests

`glacis COMMAND --help` says more.

Exit status: 0 all is well, 1 something was found, 2 the command was called wrongly.
";

pub(super) const PATCHES_HELP: &str = "\
Virtual patches, as YAML or JSON, in the form of those who look at requests.

Usage: glacis patches seclang FILE…   rules of phase 1
       glacis patches filter FILE…    the value of virtual_patches in the plugin configuration

Patches that have expired are named on standard error and left out.
";

pub(super) const STATUS_HELP: &str = "\
Say which breakers of a running Envoy are closed, open or half-open, and what has passed uninspected.

Usage: glacis status [OPTION…]

      --admin HOST:PORT   Envoy's admin port (127.0.0.1:9901)
      --token-file FILE   a bearer token, for a proxy before that port that wants one
      --json              for programs

A breaker is what Envoy's health checks and outlier detection make of a cluster: closed while a host is in
service, open when none is, half-open when none is and probes begin to succeed. It is watched for 0.3 s when it
is not closed. The exit status is 1 then.
";

pub(super) const BANS_HELP: &str = "\
List, add and remove bans of a running ext-authz, through its admin port.

Usage: glacis bans list [OPTION…]
       glacis bans add NETWORK --seconds N [OPTION…]
       glacis bans remove NETWORK [OPTION…]

      --admin HOST:PORT   the admin port of ext-authz (127.0.0.1:9102), in plain HTTP
      --token-file FILE   the token of that port (admin.token_file)
      --json              for programs

NETWORK is an address (192.0.2.1) or a network (192.0.2.0/24, 2001:db8::/64): at least 8 bits of IPv4, 16 of
IPv6. A ban lasts for N seconds, at most 31622400 (366 days); adding never shortens one. Where bans are in
Redis, all services and filters follow within two seconds. remove exits with 1 when the network was not banned.
";

pub(super) const IMPORT_HELP: &str = "\
Print the rules of another web application firewall as a configuration of ext-proc.

Usage: glacis import FORM [--crs DIR] FILE…

  ingress-nginx       Ingresses with ModSecurity's annotations, and the controller's ConfigMap, in YAML
  coraza-proxy-wasm   its configuration, alone or in a WasmPlugin or Envoy's configuration
  coraza-caddy        a Caddyfile, or Caddy's JSON
  modsecurity         SecLang: main.conf, modsecurity.conf; or an nginx.conf
  nginx               nginx.conf, with the rules of each server and location

      --crs DIR       the folder of CRS on this machine (/usr/share/glacis/crs, as in the images)

Every directive is in what is printed: as a key, as SecLang, or in a comment with the reason. Included files
are read. Several FILEs make one document.
";

pub(super) const GEO_HELP: &str = "\
Make a table of countries, or of autonomous systems, for the wasm-filter from a database in MaxMind's format.

Usage: glacis geo build [OPTION…] FILE.mmdb

Takes the country of each network from country.iso_code or country_code, and prints the table in
base64, on one line: the value of geo.table in the plugin configuration.

      --asn            numbers of autonomous systems, from autonomous_system_number (asn): the value
                       of asn.table
      --only N,N,…     with --asn: of these systems alone, which makes the table small
  -q, --quiet          do not say how large it is

A table has at most 65534 different systems; more are left out, those with the fewest networks first.
";

/// The options that name rules, as the help of each command shows them.
macro_rules! rules_help {
    () => {
        "\
  -r, --rules FILE     a file of rules; repeat it for more, in order
  --base               the base configuration of Glacis, at this place in the order
  --crs DIR            the OWASP CRS in DIR, and the base configuration before it unless --base
                       stands further in front
  --defaults NAME      what applies where crs-setup.conf says nothing: glacis, or crs for CRS as it comes
                       (docs/reference/defaults.md)
  --exclusions FILE    exclusions as YAML, such as `glacis learn` prints
"
    };
}

pub(super) const LEARN_HELP: &str = concat!(
    "\
Prints the smallest set of narrow exclusions (rule, parameter, path) with which ordinary requests pass.

Usage: glacis learn --rules FILE [OPTION…] [FILE…|-]

",
    rules_help!(),
    "\
      --min-requests N     requests that an exclusion needs (3)
      --min-clients N      clients that it needs (2; without effect where the input names no client)
      --min-days N         days that it needs (2; without effect where the input has no times)
      --expires-days N     days for which exclusions hold (90)
      --attacks FILE       an attack in each line, to check with besides those that are built in
      --format FORMAT      auto, requests (as for eval), audit (records of Glacis) or har
      --report FILE        write there what was declined, and why, instead of on standard error
  -q, --quiet              print exclusions only

Requests may have `time` (RFC 3339) and `client`. What looks like an attack is no evidence, and an exclusion with which
known attacks are no longer found is narrowed to the values that were seen, or declined. docs/learn.md has the steps.
"
);

pub(super) const QUANTIFY_HELP: &str = concat!(
    "\
Counts false alarms on harmless texts, by rule and paranoia level.

Usage: glacis quantify --crs DIR [OPTION…] [FILE|-]

",
    rules_help!(),
    "\
      --against DIR        another CRS: the same texts with its rules, and the difference
      --paranoia N         the highest level that is evaluated (4)
      --sentences          lines are texts, also if the first one begins with {
      --requests           lines are requests as for `glacis eval`
  -j, --jobs N             threads (as many as the machine has)
      --json               the format of go-ftw's quantitative tests

A sentence is the value of a parameter in the query of a GET, as in go-ftw; a number and a tab before it (the Leipzig
Corpora Collection) are left out. Everything is evaluated once, at the highest level, and each match counts for the
level of its rule. `blocked` counts requests whose score with the rules up to a level reaches the threshold.
The exit status is 1 when a line is no request; it is counted as skipped.
"
);

pub(super) const BUNDLE_HELP: &str = concat!(
    "\
Packs rules with all the files that they name, for the wasm-filter's first verdict.

Usage: glacis bundle --rules FILE [--rules FILE…] [OPTION…]

",
    rules_help!(),
    "\
  -q, --quiet          do not say how large it is

Prints it in base64, on one line: the value of first_verdict.rules in the plugin configuration. Rules and
data files together are at most 8 MiB.
"
);

pub(super) const LINT_HELP: &str = "\
Parses and compiles rules. Errors go to standard output as file:line:column: message, each with the
line and a caret; what has no effect here is remarked on standard error.

Usage: glacis lint [--quiet] [--strict] [--base] [--crs DIR] [--defaults NAME] FILE…

  --base        the base configuration of Glacis, at this place in the order
  --crs DIR     the OWASP CRS in DIR, and the base configuration before it unless --base
                stands further in front
  --defaults NAME
                what applies where crs-setup.conf says nothing: glacis, or crs for CRS as it comes
  -q, --quiet   no remarks on standard error
  --strict      exit with 1 if there is a warning, such as a directive without effect here

The files are one ruleset, in the order given. A file is at most 64 MiB.
";

pub(super) const EVAL_HELP: &str = concat!(
    "\
Evaluates requests against rules: a JSON object a line in, one a line out, in the same order.

Usage: glacis eval --rules FILE [--rules FILE…] [OPTION…] [REQUESTS.jsonl|-]

",
    rules_help!(),
    "\
  -j, --jobs N         use N threads (1)
  --bench SECONDS      instead of answers: after a warm-up, repeat the requests on one thread for this
                       time, and print what one took in nanoseconds of CPU time, by class
  --reuse              with --bench: one transaction reused, instead of one made for each request
  --each               with --bench: a line for each request, with its verdict and the rules that
                       matched, instead of classes
  --second-opinion[=FILE]
                       beside the verdict the score by learned weights: those that Glacis ships, or those
                       of FILE (docs/second-opinion.md)
  -q, --quiet          no remarks on standard error

In:  {\"id\", \"class\"?, \"time\"?, \"client\": {\"ip\", \"port\"}?, \"server\": {\"ip\", \"port\"}?, \"method\", \"uri\",
      \"protocol\", \"headers\": [[name, value]…], \"body\"? or \"body_base64\"?,
      \"response\": {\"status\", \"protocol\", \"headers\", \"body\"? or \"body_base64\"?}?}
     Method, URI, names, values and body that are not UTF-8 are written {\"base64\": \"…\"}.
Out: {\"id\", \"action\": \"allow|deny|redirect|drop\", \"status\", \"phase\", \"matched\": [{\"id\", \"phase\", \"msg\",
      \"logdata\", \"severity\", \"tags\", \"matches\": [{\"variable\", \"value\"}]}],
      \"scores\": {\"inbound\", \"outbound\"}, \"location\"?, \"error\"?,
      \"second_opinion\"?: {\"attack\", \"score\", \"threshold\", \"value\", \"sum\", \"reasons\": [{\"rule\", \"weight\"}]}}
     status is that of the refusal, otherwise that of the response given, otherwise 200; phase is the
     phase of the refusal, otherwise null. matched holds every rule that matched and logs.

A line that is not such an object is answered by {\"id\", \"error\"}, and makes the exit status 1. Blank
lines are left out. A line is at most 64 MiB; of a longer one only the error remains. Response phases
are evaluated when a response is given and the request was not refused.
"
);

pub(super) const TRAIN_HELP: &str = concat!(
    "\
Learns weights of a second opinion from labelled requests, and prints the file of weights.

Usage: glacis train --crs DIR --date YYYY-MM-DD [OPTION…] [REQUESTS.jsonl|-]

",
    rules_help!(),
    "\
  --date YYYY-MM-DD    the day that the file carries
  --name NAME          what the weights are called (CRS)
  --false-alarms P     the threshold lets at most P percent of held-out benign requests be alarms (0.1)
  --l2 X               the strength of regularisation (0.00001)
  -j, --jobs N         use N threads (1)
  -q, --quiet          no figures on standard error

In: requests as for `glacis eval`, each with \"source\", the name of the data set that it comes from, and
\"label\": \"attack\", \"benign\", or \"technical\" for what is no attack, but has no part in the threshold: code and
commands that people write about. At most 1000000 requests and 1024 sources.

Rules of all levels run. Each source is left out in turn, and the weights learned from the others are tried
on it; the threshold and the figures in the file come from that. Two sources of each label are needed. The
same input gives the same file on the same platform (docs/second-opinion.md).
"
);

pub(super) const EXPLAIN_HELP: &str = concat!(
    "\
Tells what became of a request and why: each rule that matched, on which value, what transformations made
of the value, what the operator found in it, how the scores came about, which rule refused; and the
narrowest exclusion that lets the request pass, which is tried out before it is shown.

Usage: glacis explain --rules FILE [--rules FILE…] [OPTION…] [REQUESTS.jsonl|-]

",
    rules_help!(),
    "\
  --id ID              only the request of this name
  --all                also rules that neither log nor change a score
  --second-opinion[=FILE]
                       also the score by learned weights, as a sum
  --json               one JSON object for each request
  -q, --quiet          no remarks on standard error

In: requests as for `glacis eval`, or audit records of Glacis. What a record does not hold (bodies and
headers, unless SecAuditLogParts asks for them) or masks is said, and rules that the record names and
that do not match again are listed.

An exclusion is given in two ways: for all requests, to stand behind the rules, and for one path, to stand
before them. At most 48 rulesets are built to find and to try it. Exit status 1: a request is refused.
"
);

pub(super) const PROFILE_HELP: &str = concat!(
    "\
Tells what rules cost over a file of requests: how often each was visited, named as a candidate by its
gate, run, and matched; the texts and bytes given to its operator; its time. The same for each chain of
transformations, and what scans beforehand cost.

Usage: glacis profile --rules FILE [--rules FILE…] [OPTION…] [REQUESTS.jsonl|-]

",
    rules_help!(),
    "\
  --top N              show the N rules, and chains of transformations, that cost most (20; with
                       --json all that cost anything)
  --passes N           evaluate all requests N times (1); counts are over all passes
  --counts             no times: the answer is the same on each run, sorted by bytes
  --json               one JSON object
  -q, --quiet          no remarks on standard error

In: requests as for `glacis eval`, at most 1000000. They are evaluated once before anything is counted,
so that what is built while requests are evaluated is there.

A rule's time is that of its gate and its whole chain. Work whose result other rules use too (what a chain
of transformations makes of a value, a scan, a sieve) is charged to the rule that asks first: that part of
its time is shown as shared. Scans before the rules of a phase are part of no rule's time.
"
);

pub(super) const FTW_HELP: &str = concat!(
    "\
Runs regression tests in the format of the OWASP CRS (FTW, version 2): in process without a web server,
or against a running proxy.

Usage: glacis ftw --tests DIR --rules FILE [--rules FILE…] [OPTION…]
       glacis ftw --tests DIR --url http://HOST:PORT [--audit-log FILE] [OPTION…]

  --tests PATH         a test file, or a folder of them (*.yaml, *.yml, below it too); may be repeated
",
    rules_help!(),
    "\
  --overrides FILE     tests that are skipped, or expect something else, each with its reason:
                       overrides: [{test: 920100-4, reason: …, skip: true}, or expect: {…} like output],
                       with `tests: [920100-4, …]` for several; one that is not needed is a failure
  --only PREFIX        only tests whose id begins so, such as 942100 or 942100-3; may be repeated
  -j, --jobs N         use N threads, each with a connection of its own (1)
  --json               the report as JSON
  -q, --quiet          no remarks on standard error

  --url URL            send the requests to this proxy, byte by byte as the test says
  --audit-log FILE     where the audit records of ext-proc appear. Requests carry an x-request-id
                       header, by which their record is found: Envoy must preserve it, every request
                       must have a record (SecAuditEngine On), and nothing be masked in it. A test
                       that looks at matched rules fails without a record. Without this option such
                       tests are skipped.

In process the backend is imagined: POST /reflect answers as its JSON body says (status, headers, body,
encodedBody), everything else with an empty 200. A status is that of the rules' refusal, or of the
backend. Rules that log are what a test means by the log.

total = passed + failed + skipped; overridden counts those of them whose expectation was replaced or
that an override skips.
"
);
