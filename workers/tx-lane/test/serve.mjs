// The Worker on real workerd, by miniflare: node serve.mjs MINIFLARE BUILT FOLDER PORT, with the
// Worker's variables in WORKER_VARIABLES as JSON. Says where it listens.

import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [, , miniflare, built, folder, port] = process.argv;
const { Miniflare } = createRequire(join(miniflare, "package.json"))("miniflare");

const sources = (at) => readdirSync(at, { withFileTypes: true, recursive: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith(".js"))
  .map((entry) => join(entry.parentPath ?? entry.path, entry.name));
const entry = join(built, "workers/tx-lane/src/worker.js");
const module = (path) => ({ type: "ESModule", path, contents: readFileSync(path, "utf8") });

const worker = new Miniflare({
  host: "127.0.0.1",
  port: Number(port),
  compatibilityDate: "2026-04-01",
  modulesRoot: built,
  modules: [module(entry), ...sources(built).filter((path) => path !== entry).map(module)],
  durableObjects: { TX_LANE: { className: "TxLane", useSQLite: true } },
  durableObjectsPersist: folder,
  bindings: JSON.parse(process.env.WORKER_VARIABLES),
});
const url = await worker.ready;
console.log(url.origin);
