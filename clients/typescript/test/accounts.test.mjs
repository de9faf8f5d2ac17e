// The example that creates accounts and relays, as its clients see it: ACCOUNTS_URL and OTHER_URL are two
// servers with one key, NEAR_RPC the ledger, PARENT the account below which accounts are made, APP where
// near-api-js is.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { test } from "node:test";

const { ACCOUNTS_URL, OTHER_URL, NEAR_RPC, PARENT, APP } = process.env;
const near = createRequire(`${APP}/accounts.mjs`).resolve("near-api-js");
const { KeyPair } = createRequire(near)("near-api-js");
const { actionCreators, buildDelegateAction, encodeSignedDelegate, signDelegateAction } =
  createRequire(near)("@near-js/transactions");
const pair = KeyPair.fromRandom("ed25519");
const PUBLIC_KEY = pair.getPublicKey().toString();

async function query(params) {
  const body = JSON.stringify({
    jsonrpc: "2.0", id: "1", method: "query", params: { finality: "final", ...params } });
  const headers = { "content-type": "application/json" };
  return (await (await fetch(NEAR_RPC, { method: "POST", headers, body })).json()).result;
}

const balance = async (account) =>
  (await query({ request_type: "view_account", account_id: account }))?.amount;

/** As a client does: again until it has a final answer. */
async function ask(url, asked) {
  for (let tries = 0; tries < 100; tries += 1) {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(asked),
    });
    const told = await response.json();
    if (response.status !== 202 && response.status !== 503) return told;
  }
  return assert.fail(`${url} is never final`);
}

const create = (url, account) => ask(`${url}/accounts`, { account, publicKey: PUBLIC_KEY });

test("accounts are created and funded once, whoever asks how often", async () => {
  const accounts = Array.from({ length: 6 }, (_, number) => `user-${number}.${PARENT}`);
  const asked = accounts.flatMap((account) => [ACCOUNTS_URL, OTHER_URL, ACCOUNTS_URL]
    .map((url) => [account, create(url, account)]));
  const hashes = new Map();
  for (const [account, telling] of asked) {
    const told = await telling;
    assert.equal(told.status, "done", JSON.stringify(told));
    assert.equal(told.txHash, hashes.get(account) ?? told.txHash);
    hashes.set(account, told.txHash);
  }
  assert.equal(new Set(hashes.values()).size, accounts.length);
  for (const account of accounts) assert.equal(await balance(account), (10n ** 23n).toString());
});

test("what the ledger will not do has failed, and says why", async () => {
  const told = await create(ACCOUNTS_URL, "somebody.elses.near");
  assert.equal(told.status, "failed", JSON.stringify(told));
  assert.match(told.outcome, /CreateAccountNotAllowed/);
});

test("a delegate action is relayed once, whoever asks how often", async () => {
  const [sender, receiver] = [`user-0.${PARENT}`, `user-1.${PARENT}`];
  const { nonce } = await query({
    request_type: "view_access_key", account_id: sender, public_key: PUBLIC_KEY });
  const delegateAction = buildDelegateAction({
    senderId: sender,
    receiverId: receiver,
    publicKey: pair.getPublicKey(),
    nonce: BigInt(nonce) + 1n,
    maxBlockHeight: 10n ** 9n,
    actions: [actionCreators.transfer(5n)],
  });
  const sign = async (message) =>
    pair.sign(createHash("sha256").update(message).digest()).signature;
  const { signedDelegateAction } = await signDelegateAction({ delegateAction, signer: { sign } });
  const delegate = Buffer.from(encodeSignedDelegate(signedDelegateAction)).toString("base64");
  const all = await Promise.all([ACCOUNTS_URL, OTHER_URL, ACCOUNTS_URL]
    .map((url) => ask(`${url}/delegates`, { delegate })));
  for (const told of all) {
    assert.deepEqual(told, { status: "done", txHash: all[0].txHash }, JSON.stringify(told));
  }
  assert.equal(await balance(receiver), (10n ** 23n + 5n).toString());
});
