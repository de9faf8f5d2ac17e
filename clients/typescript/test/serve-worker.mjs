// The Worker of the example and workers/tx-lane beside it on real workerd: node serve-worker.mjs MINIFLARE
// TX_LANE CLIENT ETHERS EXAMPLES FOLDER PORT, with the example's variables in WORKER_VARIABLES. What
// a bundler would do is done by hand.

import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [, , miniflare, txLane, client, ethers, examples, folder, port] = process.argv;
const { Miniflare } = createRequire(join(miniflare, "package.json"))("miniflare");
const variables = JSON.parse(process.env.WORKER_VARIABLES);

const sources = (at) => readdirSync(at, { withFileTypes: true, recursive: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith(".js"))
  .map((entry) => join(entry.parentPath ?? entry.path, entry.name));
const module = (path, contents) => ({ type: "ESModule", path, contents });
const bundled = (text) => text.replaceAll('"landfall-lanes"', '"./landfall-lanes/index.js"')
  .replaceAll('"ethers"', '"./ethers.js"').replace(/"(\.\/\w+)\.mjs"/g, '"$1.js"');
const example = (name) => module(
  `/app/${name}.js`, bundled(readFileSync(join(examples, `${name}.mjs`), "utf8")));

const entry = join(txLane, "workers/tx-lane/src/worker.js");
const plain = (path) => module(path, readFileSync(path, "utf8"));
const worker = new Miniflare({
  host: "127.0.0.1",
  port: Number(port),
  durableObjectsPersist: folder,
  workers: [
    {
      name: "payouts",
      compatibilityDate: "2026-04-01",
      modulesRoot: "/app",
      modules: [
        example("worker"),
        example("answers"),
        example("evm"),
        module("/app/ethers.js", readFileSync(ethers, "utf8")),
        ...sources(client).map((path) => module(
          path.replace(client, "/app/landfall-lanes"), readFileSync(path, "utf8"))),
      ],
      bindings: variables,
      serviceBindings: { LANES: "tx-lane" },
    },
    {
      name: "tx-lane",
      compatibilityDate: "2026-04-01",
      modulesRoot: txLane,
      modules: [plain(entry), ...sources(txLane).filter((path) => path !== entry).map(plain)],
      durableObjects: { TX_LANE: { className: "TxLane", useSQLite: true } },
      bindings: { LANES_SECRET: variables.LANES_SECRET },
    },
  ],
});
console.log(`payouts at ${(await worker.ready).origin}`);
