// Runs the glacis command as WASM under V8, the engine that Envoy has for WASM too.
//
// node --no-turbo-fast-api-calls run.mjs GLACIS.wasm RULES.conf REQUESTS.jsonl SECONDS
//
// Without that option Node.js 20 crashes now and then in its WASI functions.
// The command measures with the monotonic clock; here that is the CPU time of the process.
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const MONOTONIC = 1;
const PROCESS_CPU_TIME = 2;

const [file, rules, requests, seconds] = process.argv.slice(2);
if (seconds === undefined) {
  console.error("usage: node run.mjs GLACIS.wasm RULES.conf REQUESTS.jsonl SECONDS");
  process.exit(2);
}
const wasi = new WASI({
  version: "preview1",
  args: ["glacis", "eval", "-q", "--rules", rules, "--bench", seconds, "--reuse", "--each", requests],
  preopens: { "/": "/" },
  returnOnExit: true,
});
const imports = wasi.getImportObject();
const clock = imports.wasi_snapshot_preview1.clock_time_get;
imports.wasi_snapshot_preview1.clock_time_get = (id, precision, result) =>
  clock(id === MONOTONIC ? PROCESS_CPU_TIME : id, precision, result);
const module = await WebAssembly.compile(await readFile(file));
process.exitCode = wasi.start(await WebAssembly.instantiate(module, imports));
