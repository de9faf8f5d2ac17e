// The manager against a server of the contract. LANES_URL is where it is, with the account and the
// key of each test in it where there is an object for each; LANES_SECRET is what it shares with us;
// LANES_CLIENT is the built package.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { after, describe, it } from "node:test";

import { Chain } from "./chain.mjs";

const { LANES_URL, LANES_SECRET, LANES_CLIENT, LANES_SPACES } = process.env;
const { LanesClient, NotExecuted, TxManager, sign, importSecret, workerUrl } =
  await import(`${LANES_CLIENT}/esm/index.js`);

const url = LANES_SPACES === "object" ? workerUrl(LANES_URL) : LANES_URL;
const settings = {
  patienceMs: 300_000, buildMs: 500, leaseMs: 1_000, renewMs: 250, turnMs: 300, lookMs: 10,
  rebroadcastMs: 100, rebroadcastMaxMs: 400, fenceAfterMs: 2_000,
};

let worlds = 0;
const chains = [];
after(() => chains.forEach((chain) => chain.close()));

/** A ledger, a key that is nobody else's, and managers on them. */
function world() {
  const key = { accountId: "relay.near", publicKey: `ed25519:${process.pid}-${worlds++}` };
  const chain = new Chain();
  chains.push(chain);
  const start = (more = {}) => new TxManager({
    url, secret: LANES_SECRET, ledger: chain, ...more, settings: { ...settings, ...more.settings },
  });
  // Keys are unique in a space, and a server has one for all.
  const named = (name) => `${key.publicKey} ${name}`;
  const execute = (manager, name) => manager.execute(
    key, named(name), (turn) => turn.send(Chain.sign(turn, name)), { payload: name });
  const client = new LanesClient({
    url: typeof url === "string" ? url : url(key), secret: LANES_SECRET });
  return { key, chain, start, named, execute, client };
}

const doneBy = (executed) => {
  assert.equal(executed.status, "done", JSON.stringify(executed));
  return executed.txHash;
};

async function until(what, holds) {
  for (let tries = 0; tries < 3_000; tries += 1) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.fail(`never: ${what}`);
}

// Side by side: most of a story is waiting.
describe("the manager", { concurrency: true }, () => {
  it("the first caller executes and later ones have its result", async () => {
    const { key, chain, start, named, execute } = world();
    const manager = start();
    const first = doneBy(await execute(manager, "a"));
    assert.equal(doneBy(await execute(manager, "a")), first);
    assert.equal(doneBy(await execute(start(), "a")), first);
    assert.deepEqual(await manager.find(key, named("a")), { status: "done", txHash: first });
    assert.equal(await manager.find(key, named("b")), null);
    assert.deepEqual(chain.done(), ["a"]);
  });

  it("many at once execute in one order without an invalid nonce", async () => {
    const { chain, start, execute } = world();
    const manager = start();
    // The checks in Rust send two hundred to an object, too.
    const length = LANES_SPACES === "object" ? 50 : 200;
    const names = Array.from({ length }, (_, number) => `key ${number}`);
    const all = await Promise.all(names.map((name) => execute(manager, name)));
    all.forEach(doneBy);
    assert.deepEqual(chain.done(), names);
    assert.equal(chain.invalidNonces, 0);
  });

  it("callers at once execute one key once", async () => {
    const { chain, start, execute } = world();
    const managers = [start(), start()];
    const all = await Promise.all(Array.from({ length: 20 }, (_, n) => execute(managers[n % 2], "a")));
    assert.equal(new Set(all.map(doneBy)).size, 1);
    assert.deepEqual(chain.done(), ["a"]);
  });

  it("another payload under the same key is refused", async () => {
    const { key, chain, start, named, execute } = world();
    const manager = start();
    doneBy(await execute(manager, "a"));
    const other = manager.execute(key, named("a"), (turn) => turn.send(Chain.sign(turn, "b")));
    await assert.rejects(other, (error) => error instanceof NotExecuted && error.reason === "conflict");
    assert.deepEqual(chain.done(), ["a"]);
  });

  it("a builder that fails, hangs or never sends leaves the key free", async () => {
    const { key, chain, start, named, execute } = world();
    const manager = start();
    const builders = [
      () => { throw new Error("no block"); },
      () => new Promise(() => undefined),
      async () => "nothing",
    ];
    for (const build of builders) {
      const refused = manager.execute(key, named("a"), build, { payload: "a" });
      await assert.rejects(refused, (error) => error.reason === "unbuilt");
    }
    doneBy(await execute(manager, "a"));
    assert.deepEqual(chain.done(), ["a"]);
  });

  it("what is sent after its turn was over is not sent", async () => {
    const { key, chain, start, named, execute } = world();
    const manager = start();
    let late;
    const slow = manager.execute(key, named("a"), (turn) => {
      late = turn;
      return new Promise(() => undefined);
    }, { payload: "a" });
    await assert.rejects(slow, (error) => error.reason === "unbuilt");
    await assert.rejects(late.send(Chain.sign(late, "late")));
    doneBy(await execute(manager, "a"));
    assert.deepEqual(chain.done(), ["a"]);
  });

  it("what is reverted, or refused for ever, has failed for good", async () => {
    const { chain, start, execute } = world();
    const manager = start();
    chain.reverting = "a";
    const failed = await execute(manager, "a");
    assert.deepEqual([failed.status, failed.outcome], ["failed", "reverted"]);
    chain.refusing = { refused: "never", isSenders: false };
    assert.equal((await execute(manager, "b")).status, "failed");
    [chain.reverting, chain.refusing] = [null, null];
    assert.deepEqual(await execute(manager, "a"), failed);
    assert.equal((await execute(manager, "b")).status, "failed");
    doneBy(await execute(manager, "c"));
  });

  it("a refusal that is the sender's fault leaves the key free", async () => {
    const { chain, start, execute } = world();
    const manager = start();
    chain.refusing = { refused: "no funds", isSenders: true };
    await assert.rejects(execute(manager, "a"), (error) => error.reason === "unsent");
    chain.refusing = null;
    doneBy(await execute(manager, "a"));
    assert.deepEqual(chain.done(), ["a"]);
  });

  it("what is in flight is told with its hash", async () => {
    const { key, chain, start, named, execute } = world();
    const manager = start({ settings: { patienceMs: 500 } });
    chain.isStopped = true;
    await until("stored", async () => {
      const told = await execute(manager, "a");
      assert.equal(told.status, "inflight");
      return told.txHash !== null;
    });
    chain.isStopped = false;
    await until("done", async () => (await manager.find(key, named("a"))).status === "done");
    assert.deepEqual(chain.done(), ["a"]);
  });

  it("a full line refuses and still answers what is known", async () => {
    const { chain, start, execute } = world();
    const manager = start({ settings: { queueMax: 2 } });
    const known = await execute(manager, "known");
    chain.isStopped = true;
    const calls = ["a", "b", "c"].map((name) => execute(manager, name));
    const full = calls.pop();
    await assert.rejects(full, (error) => error.reason === "full");
    assert.deepEqual(await execute(manager, "known"), known);
    chain.isStopped = false;
    (await Promise.all(calls)).forEach(doneBy);
    assert.deepEqual(chain.done(), ["known", "a", "b"]);
  });

  it("an answer that was lost is no second execution", async () => {
    const { chain, start, execute } = world();
    chain.unanswered = 1;
    doneBy(await execute(start(), "a"));
    assert.deepEqual(chain.done(), ["a"]);
  });

  it("what sank is built anew and done once", async () => {
    const { chain, start, execute } = world();
    const counted = { invalid: 0 };
    const manager = start({ watch: { invalidNonce: () => { counted.invalid += 1; } } });
    chain.lostNonce = 1;
    assert.doesNotMatch(doneBy(await execute(manager, "a")), /\/1\//);
    assert.deepEqual(chain.done(), ["a"]);
    assert.equal(counted.invalid, 1);
  });

  /** Begins one execution whose process stands still around its send, for ever, and loses its lease. */
  async function crash(at) {
    const { chain, start, execute, named, client, key } = world();
    let reached;
    const there = new Promise((resolve) => { reached = resolve; });
    const dead = Object.assign(Object.create(chain), {
      async send(attempt) {
        if (at === "after") await chain.send(attempt).catch(() => undefined);
        reached(attempt.hash);
        return new Promise(() => undefined);
      },
    });
    let isDead = false;
    const fetches = (request) => (isDead ? new Promise(() => undefined) : fetch(request));
    execute(start({ ledger: dead, fetch: fetches, settings: { patienceMs: 1 } }), "a").catch(() => undefined);
    const hash = await there;
    isDead = true;
    const { record } = await client.ask("record", { key: named("a") });
    assert.deepEqual([record.status, record.hash], ["inflight", hash], "stored before it is sent");
    const next = start();
    assert.equal(doneBy(await execute(next, "a")), hash);
    doneBy(await execute(next, "b"));
    assert.deepEqual(chain.done(), ["a", "b"]);
    assert.equal(chain.invalidNonces, 0, key.publicKey);
  }

  it("a crash between store and send ends with the same hash", () => crash("before"));
  it("a crash between send and answer ends with the same hash", () => crash("after"));

  it("two processes take turns on one key", async () => {
    const { chain, start, execute } = world();
    const names = [];
    const changes = () => {
      const done = chain.done();
      return done.slice(1).filter((name, at) => name[0] !== done[at][0]).length;
    };
    // Each has something waiting for as long as it takes.
    const busy = async (manager, who) => {
      for (let number = 0; changes() < 2; number += 1) {
        assert.ok(number < 1_000, "whoever came first kept the lane");
        const name = `${who} ${number}`;
        names.push(name);
        doneBy(await execute(manager, name));
      }
    };
    const [one, two] = [start(), start()];
    const both = Array.from({ length: 8 }, (_, at) => [busy(one, `ours ${at}`), busy(two, `theirs ${at}`)]);
    await Promise.all(both.flat());
    assert.deepEqual(chain.done().sort(), names.sort());
    assert.equal(chain.invalidNonces, 0);
  });

  it("one key sent to two signing keys of a space is executed once", async () => {
    if (LANES_SPACES === "object") return;
    const { chain, start, key, named } = world();
    const other = { ...key, publicKey: `${key.publicKey}-other` };
    const manager = start();
    const all = await Promise.all([key, other].map((one) => manager.execute(
      one, named("a"), (turn) => turn.send(Chain.sign(turn, "a")), { payload: "a" })));
    assert.equal(new Set(all.map(doneBy)).size, 1);
    assert.deepEqual(chain.done(), ["a"]);
  });

  it("a signing key that can be no lane's is refused", async () => {
    const { chain, start, key, named } = world();
    const endless = { ...key, publicKey: "k".repeat(300) };
    const refused = start().execute(endless, named("a"), (turn) => turn.send(Chain.sign(turn, "a")));
    await assert.rejects(refused, (error) => error.kind === "refused");
    assert.deepEqual(chain.done(), []);
  });

  it("a nonce that nobody stored halts the lane", async () => {
    const { key, chain, start, execute, client } = world();
    const manager = start();
    doneBy(await execute(manager, "a"));
    await chain.send(Chain.sign({ key, nonce: 5 }, "somebody else's"));
    await until("final", async () => (await chain.lastNonce(key)) === 5);
    await assert.rejects(execute(manager, "b"), (error) => error.reason === "halted");
    await client.ask("adopt", { lane: `${key.accountId}:${key.publicKey}`, ledger_nonce: 5 });
    doneBy(await execute(manager, "b"));
  });

  it("a forged and a replayed request are refused", async () => {
    const { key, client } = world();
    const lane = `${key.accountId}:${key.publicKey}`;
    await client.ask("lease", { lane, holder: "we", ttl_ms: 1_000 });
    const base = typeof url === "string" ? url : url(key);
    const body = JSON.stringify({ lane, reason: "by hand" });
    const path = new URL(`${base}/halt`).pathname;
    const ask = async (secret, timeMs, id) => {
      const asked = { method: "POST", path, timeMs, id, body };
      const signature = await sign(await importSecret(secret), asked);
      const headers = {
        "landfall-time": String(timeMs), "landfall-id": id, "landfall-signature": signature,
      };
      return (await fetch(`${base}/halt`, { method: "POST", headers, body })).status;
    };
    const halted = async () => (await client.ask("lanes", {})).lanes
      .find((one) => one.id === lane).halted !== null;
    assert.equal(await ask("a secret that somebody has guessed at", Date.now(), "f".repeat(20)), 401);
    assert.equal(await ask(LANES_SECRET, Date.now() - 60_000, "old-0123456789abcdef"), 401);
    assert.equal((await fetch(`${base}/halt`, { method: "POST", body })).status, 401);
    assert.equal(await halted(), false, "nothing happened");
    const [now, id] = [Date.now(), crypto.randomUUID()];
    assert.equal(await ask(LANES_SECRET, now, id), 200);
    assert.equal(await ask(LANES_SECRET, now, id), 401);
    assert.equal(await halted(), true);
  });

  it("a signature is as the contract has it", async () => {
    const secret = await importSecret("0123456789abcdef0123456789abcdef");
    const id = "00000000-0000-4000-8000-000000000000";
    const body = '{"key":"create:alice.near"}';
    const asked = { method: "POST", path: "/v1/record", timeMs: 1_700_000_000_000, id, body };
    assert.equal(await sign(secret, asked),
      "v1=7eede5d4e4ebaf8cbf88fd7d34f8fe73acd4a95711a2c2cd6ad540f81f11c808");
  });

  it("the package is CommonJS, too", () => {
    const required = createRequire(import.meta.url)(`${LANES_CLIENT}/cjs/index.js`);
    assert.equal(typeof required.TxManager, "function");
  });
});
