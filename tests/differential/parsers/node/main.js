// Parses framed requests on standard input with the parser named by the argument; parsers/python/main.py describes
// the frames and the answers.

import { Readable } from "node:stream";

function* flatten(value, name = "") {
  if (Array.isArray(value)) {
    for (const member of value) yield* flatten(member, name);
  } else if (value !== null && typeof value === "object") {
    for (const [key, member] of Object.entries(value)) {
      yield ["arg", key, ""];
      yield* flatten(member, key);
    }
  } else if (typeof value === "string") {
    yield ["arg", name, value];
  }
}

function request(contentType, query, cookie, body) {
  const stream = Readable.from([body], { objectMode: false });
  stream.method = "POST";
  stream.url = "/?" + query.toString("latin1");
  stream.headers = { host: "localhost", "content-length": String(body.length) };
  if (contentType.length > 0) stream.headers["content-type"] = contentType.toString("latin1");
  if (cookie.length > 0) stream.headers.cookie = cookie.toString("latin1");
  return stream;
}

const middleware = (use, incoming) =>
  new Promise((resolve, reject) => use(incoming, {}, (error) => (error ? reject(error) : resolve())));

async function express() {
  const bodyParser = (await import("body-parser")).default;
  const cookieParser = (await import("cookie-parser")).default;
  const qs = (await import("qs")).default;
  const readers = [cookieParser(), bodyParser.json(), bodyParser.urlencoded({ extended: true })];
  return async (contentType, query, cookie, body) => {
    const incoming = request(contentType, query, cookie, body);
    const found = [...flatten(qs.parse(query.toString("latin1"), { allowPrototypes: true }))];
    for (const reader of readers) await middleware(reader, incoming);
    for (const [name, value] of [...flatten(incoming.cookies ?? {})]
      .map(([, name, value]) => [name, value])) found.push(["cookie", name, value]);
    found.push(...flatten(incoming.body ?? {}));
    return found;
  };
}

async function busboy() {
  const create = (await import("busboy")).default;
  return (contentType, query, cookie, body) =>
    new Promise((resolve) => {
      const found = [];
      const incoming = request(contentType, query, cookie, body);
      const parser = create({ headers: incoming.headers });
      parser.on("field", (name, value) => found.push(["arg", name ?? "", value]));
      parser.on("file", (name, file, info) => {
        found.push(["file", name ?? "", info.filename ?? ""]);
        file.on("error", () => {}).resume();
      });
      // Applications have the fields before an error already.
      parser.on("close", () => resolve(found));
      parser.on("error", () => resolve(found));
      parser.end(body);
    });
}

async function formidable() {
  const { default: create } = await import("formidable");
  const { Writable } = await import("node:stream");
  const fileWriteStreamHandler = () => new Writable({ write: (chunk, encoding, done) => done() });
  return (contentType, query, cookie, body) =>
    new Promise((resolve) => {
      const found = [];
      const incoming = request(contentType, query, cookie, body);
      const form = create({ fileWriteStreamHandler, allowEmptyFiles: true, minFileSize: 0 });
      form.on("field", (name, value) =>
        found.push(...(typeof value === "string" ? [["arg", name ?? "", value]] : [["arg", name ?? "", ""], ...flatten(value, name)])));
      form.on("file", (name, file) => found.push(["file", name ?? "", file.originalFilename ?? ""]));
      form.parse(incoming).then(() => resolve(found), () => resolve(found));
    });
}

function undici() {
  return async (contentType, query, cookie, body) => {
    const found = [];
    const form = await new Response(body, { headers: { "content-type": contentType.toString("latin1") } }).formData();
    for (const [name, value] of form) {
      found.push(typeof value === "string" ? ["arg", name, value] : ["file", name, value.name]);
    }
    return found;
  };
}

async function fastXmlParser() {
  const { XMLParser } = await import("fast-xml-parser");
  const parser = new XMLParser({ ignoreAttributes: false });
  return async (contentType, query, cookie, body) =>
    [...flatten(parser.parse(body.toString("utf8")))].map(([, name, value]) => ["xml", name, value]);
}

const parsers = { express, busboy, formidable, undici, "fast-xml-parser": fastXmlParser };

// The first frame in a buffer, and the rest; nothing if it is not complete.
function frame(buffer) {
  const fields = [];
  let at = 0;
  for (let field = 0; field < 4; field += 1) {
    if (buffer.length < at + 4) return undefined;
    const end = at + 4 + buffer.readUInt32BE(at);
    if (buffer.length < end) return undefined;
    fields.push(buffer.subarray(at + 4, end));
    at = end;
  }
  return { fields, rest: buffer.subarray(at) };
}

const parse = await parsers[process.argv[2]]();
// A parser may fail behind its back, in a stream that nobody listens to.
process.on("uncaughtException", () => {});
process.on("unhandledRejection", () => {});

let buffer = Buffer.alloc(0);
for await (const chunk of process.stdin) {
  buffer = Buffer.concat([buffer, chunk]);
  let lines = "";
  for (let next = frame(buffer); next; next = frame(buffer)) {
    buffer = next.rest;
    let found = [];
    let timer;
    try {
      const late = new Promise((resolve) => { timer = setTimeout(resolve, 2000, []); });
      found = await Promise.race([parse(...next.fields), late]);
    } catch {}
    clearTimeout(timer);
    lines += JSON.stringify(found.map((item) => item.map((text) => String(text ?? "").toWellFormed()))) + "\n";
  }
  process.stdout.write(lines);
}
