// What each check of the wasm-filter takes for a request, in a host of our own under V8, the engine that Envoy has
// for WASM too. The host answers from memory; a call to it and back takes some hundred nanoseconds in JavaScript, more
// than in Envoy, and is told apart: "calls" is how many a request makes.
//
// node checks.mjs GLACIS_WASM_FILTER.wasm REQUESTS [GLACIS_WASM_FILTER_ENGINE.wasm BUNDLE]
import { readFile } from "node:fs/promises";

const [file, count, engine, bundle] = process.argv.slice(2);
if (count === undefined) {
  console.error("usage: node checks.mjs FILTER.wasm REQUESTS [FILTER_WITH_ENGINE.wasm BUNDLE]");
  process.exit(2);
}
const [OK, NOT_FOUND] = [0, 1];
const plain = await WebAssembly.compile(await readFile(file));

const FIELDS = new Map(Object.entries({
  ":method": "GET",
  ":path": "/products/42?page=2&q=winter%20coat",
  ":authority": "shop.example.com",
  ":scheme": "https",
  "user-agent": "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36",
  "accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
  "accept-language": "en-US,en;q=0.9",
  "accept-encoding": "gzip, deflate, br",
  "sec-ch-ua": '"Google Chrome";v="141", "Not?A_Brand";v="8", "Chromium";v="141"',
  "sec-ch-ua-mobile": "?0",
  "sec-ch-ua-platform": '"Windows"',
  "sec-fetch-dest": "document",
  "cookie": "session=abcdef0123456789; theme=dark",
}).map(([name, value]) => [name, Buffer.from(value)]));

// All fields as hosts write a map down: their number, the lengths, names and values.
function pairs(from) {
  const number = (value) => { const out = Buffer.alloc(4); out.writeUInt32LE(value); return out; };
  const zero = Buffer.from([0]);
  const fields = [...from].map(([name, value]) => [Buffer.from(name), value]);
  const lengths = fields.flatMap(([name, value]) => [number(name.length), number(value.length)]);
  const texts = fields.flatMap(([name, value]) => [name, zero, value, zero]);
  return Buffer.concat([number(fields.length), ...lengths, ...texts]);
}
const PROPERTIES = new Map(Object.entries({
  "source\0address": "192.0.2.7:4711",
  "destination\0address": "192.0.2.1:443",
  "request\0protocol": "HTTP/2",
}).map(([name, value]) => [name, Buffer.from(value)]));

// A host with this configuration: a function that handles a request, and what it took to configure the module.
async function host(configuration, module = plain, counting = false, head = FIELDS) {
  const all = pairs(head);
  let calls = 0;
  let exports, view, bytes;
  const text = Buffer.from(JSON.stringify(configuration));
  const shared = new Map();
  const properties = new Map();
  const refresh = () => {
    if (bytes?.buffer !== exports.memory.buffer) {
      bytes = Buffer.from(exports.memory.buffer);
      view = new DataView(exports.memory.buffer);
    }
  };
  const give = (data, pointer, length) => {
    const place = data.length ? exports.proxy_on_memory_allocate(data.length) : 0;
    refresh();
    data.copy(bytes, place);
    view.setUint32(pointer, place, true);
    view.setUint32(length, data.length, true);
    return OK;
  };
  const read = (pointer, length) => { refresh(); return bytes.subarray(pointer, pointer + length); };
  // Names are ASCII, and this is several times as fast.
  const name = (pointer, length) => { refresh(); return bytes.latin1Slice(pointer, pointer + length); };
  let time = 1_790_000_000_000_000_000n;
  const known = {
    proxy_log: (_, pointer, length) => { console.error(read(pointer, length).toString()); return OK; },
    proxy_get_current_time_nanoseconds: (pointer) => {
      refresh();
      view.setBigUint64(pointer, (time += 1000n), true);
      return OK;
    },
    proxy_get_buffer_bytes: (_, start, max, pointer, length) => give(text, pointer, length),
    proxy_get_header_map_value: (_, field, size, pointer, length) => {
      const value = head.get(name(field, size));
      return value ? give(value, pointer, length) : NOT_FOUND;
    },
    proxy_get_header_map_pairs: (_, pointer, length) => give(all, pointer, length),
    proxy_set_property: (path, size, value, length) => {
      properties.set(name(path, size), name(value, length));
      return OK;
    },
    proxy_get_property: (path, size, pointer, length) => {
      const value = PROPERTIES.get(name(path, size));
      return value ? give(value, pointer, length) : NOT_FOUND;
    },
    proxy_get_shared_data: (key, size, pointer, length, version) => {
      const found = shared.get(name(key, size));
      if (!found) return NOT_FOUND;
      view.setUint32(version, found.version, true);
      return give(found.value, pointer, length);
    },
    proxy_set_shared_data: (key, size, value, length) => {
      const found = shared.get(name(key, size));
      const version = (found?.version ?? 0) + 1;
      shared.set(name(key, size), { value: Buffer.from(read(value, length)), version });
      return OK;
    },
    proxy_define_metric: (kind, text, size, pointer) => { refresh(); view.setUint32(pointer, 1, true); return OK; },
    random_get: (pointer, length) => { read(pointer, length).fill(7); return OK; },
    environ_sizes_get: (one, other) => { refresh(); view.setUint32(one, 0, true); view.setUint32(other, 0, true); return OK; },
  };
  const imports = {};
  for (const wanted of WebAssembly.Module.imports(module)) {
    const answer = known[wanted.name] ?? (() => OK);
    (imports[wanted.module] ??= {})[wanted.name] = counting ? (...all) => { calls += 1; return answer(...all); } : answer;
  }
  exports = (await WebAssembly.instantiate(module, imports)).exports;
  exports._initialize?.();
  exports.proxy_on_context_create(1, 0);
  exports.proxy_on_vm_start(1, 0);
  const begun = process.hrtime.bigint();
  if (!exports.proxy_on_configure(1, text.length)) throw new Error("the configuration is refused");
  const seconds = Number(process.hrtime.bigint() - begun) / 1e9;
  let next = 1;
  const run = () => {
    next += 1;
    exports.proxy_on_context_create(next, 1);
    const action = exports.proxy_on_request_headers(next, head.size, 1);
    exports.proxy_on_response_headers(next, 2, 1);
    exports.proxy_on_done?.(next);
    exports.proxy_on_delete(next);
    if (action !== 0) throw new Error("it was refused");
  };
  return { run, seconds, properties, calls: () => calls, memory: () => exports.memory.buffer.byteLength };
}

function nanoseconds(run, times) {
  const begun = process.hrtime.bigint();
  for (let i = 0; i < times; i++) run();
  return Number(process.hrtime.bigint() - begun) / times;
}

const networks = (n) => Array.from({ length: n }, (_, i) => `198.${18 + (i >> 8)}.${i & 255}.0/24`);
const limit = (more) => ({ requests: 1_000_000_000, per_seconds: 1, ...more });
const patch = (i, when) => ({ id: `p${i}`, cve: "CVE-1-1", title: "t", rule: 9_100_000 + i, when });
const CHECKS = {
  nothing: {},
  "limit by address": { rate_limits: [limit()] },
  "limit by cookie and path": { rate_limits: [limit({ key: [{ cookie: "session" }, { path: ["/products/{id}"] }] })] },
  "1,000 networks": { address_lists: { deny: networks(1_000) } },
  bots: { bots: {} },
  "100 patches": {
    virtual_patches: Array.from({ length: 100 }, (_, i) => patch(i, [{ target: "path", prefix: `/a/${i}/` }])),
  },
  "a patch with a pattern": { virtual_patches: [patch(0, [{ target: "method", equals: "GET" }, { target: "query", regex: "(?:a|b)c{2,9}\\d" }])] },
};
CHECKS.together = {
  ...CHECKS["1,000 networks"], ...CHECKS.bots, ...CHECKS["100 patches"], ...CHECKS["limit by address"],
};
const times = Number(count);
const rounds = 5;
const hosts = await Promise.all(Object.entries(CHECKS).map(async ([name, check]) => [name, await host(check)]));
const best = new Map();
for (let round = 0; round <= rounds; round++) {
  for (const [name, { run }] of hosts) {
    const took = nanoseconds(run, Math.ceil(times / rounds));
    // The first round warms up.
    if (round > 0) best.set(name, Math.min(took, best.get(name) ?? Infinity));
  }
}
const nothing = best.get("nothing");
const CALLS = 100;
async function calls(check) {
  const counting = await host(check, plain, true);
  counting.run();
  const before = counting.calls();
  for (let i = 0; i < CALLS; i++) counting.run();
  return (counting.calls() - before) / CALLS;
}
console.log("nanoseconds for a request, the best of five rounds; what the check adds to a module that does nothing; calls");
for (const [name, took] of best) {
  const made = await calls(CHECKS[name]);
  const columns = [took.toFixed(0), (took - nothing).toFixed(0), made.toFixed(1)];
  console.log(name.padEnd(26) + columns.map((column) => column.padStart(9)).join(""));
}
console.log("target: below 5000 together");

// The longest heads that Envoy takes by default: 60 KiB, 100 fields. All checks but patches, and limits that compare
// the path, the host, headers and cookies.
const LIMITS = [
  limit(),
  limit({ name: "key", key: [{ header: "authorization" }, { cookie: "session" }, { header: "user-agent" }, "host"] }),
  limit({ name: "path", key: [{ path: ["/products/{id}", "/{a}/{b}/{c}"] }], match: { paths: ["/login", "/{a}/x/**"] } }),
];
const LONGEST = 58 << 10;
const filled = (text) => text.repeat(LONGEST / text.length);
const HEADS = {
  "a short head": {},
  "path: one segment": { ":path": "/" + filled("a") },
  "path: slashes": { ":path": filled("/") },
  "path: 8 KiB of segments": { ":path": "/a".repeat(4 << 10) },
  "path: 8 KiB of escapes": { ":path": "/%2e%2e/a".repeat(900) },
  "path: escapes": { ":path": filled("/%2e%2e") },
  "path: a query": { ":path": "/?" + filled("a=%41&") },
  "user-agent": { "user-agent": filled("Mozilla/5.0 (") },
  "cookies": { cookie: filled("a=b;") },
  "cookies of one name": { cookie: filled("session=%41;") },
  "authorization": { authorization: "Basic " + filled("QUJD") },
  "a list": { authorization: filled("a,") },
  "fields": Object.fromEntries(Array.from({ length: 85 }, (_, i) => [`x-field-${i}`, "v".repeat(640)])),
};
console.log(`\nmicroseconds for a request with so long a head, all checks but patches (target: below 1000)`);
for (const [text, more] of Object.entries(HEADS)) {
  const head = new Map([...FIELDS, ...Object.entries(more).map(([field, value]) => [field, Buffer.from(value)])]);
  const check = { ...CHECKS["1,000 networks"], bots: { scanners: "tag" }, rate_limits: LIMITS };
  const { run } = await host(check, plain, false, head);
  nanoseconds(run, Math.ceil(times / 200));
  const took = Math.min(...Array.from({ length: rounds }, () => nanoseconds(run, Math.ceil(times / 1000))));
  console.log(text.padEnd(26) + (took / 1000).toFixed(1).padStart(9));
}
if (bundle !== undefined) {
  const rules = (await readFile(bundle, "utf8")).trim();
  const large = await WebAssembly.compile(await readFile(engine));
  const first = await host({ first_verdict: { rules } }, large);
  const configured = first.memory();
  for (let i = 0; i < times / 10; i++) first.run();
  const took = nanoseconds(first.run, times / 10);
  const verdict = first.properties.get("glacis.first_verdict");
  const mib = (bytes) => (bytes / 2 ** 20).toFixed(1);
  console.log(`first verdict (${verdict}): ${took.toFixed(0)} ns; configured in ${first.seconds.toFixed(2)} s; ` +
    `memory of a VM ${mib(configured)} MiB, after the requests ${mib(first.memory())} MiB; ` +
    `the rules take ${(rules.length / 1024).toFixed(0)} KiB in the configuration`);
}
