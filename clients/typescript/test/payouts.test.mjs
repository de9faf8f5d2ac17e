// The examples, as their clients see them: PAYOUTS_URL is one of them, EVM_RPC the chain it pays on.

import assert from "node:assert/strict";
import { test } from "node:test";

const { PAYOUTS_URL, EVM_RPC } = process.env;

const call = async (method, params) => {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  const headers = { "content-type": "application/json" };
  return (await (await fetch(EVM_RPC, { method: "POST", headers, body })).json()).result;
};
const receiver = (number) => `0x${"ab".repeat(18)}${number.toString(16).padStart(4, "0")}`;
const balance = async (to) => Number(await call("eth_getBalance", [to, "latest"]));

/** As a client does: with the same key until it has a final answer. */
async function pay(key, to, amount) {
  for (let tries = 0; tries < 100; tries += 1) {
    const response = await fetch(`${PAYOUTS_URL}/payouts`, {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": key },
      body: JSON.stringify({ to, amount }),
    });
    const told = await response.json();
    if (response.status !== 202 && response.status !== 503) return [response.status, told];
  }
  return assert.fail(`${key} is never final`);
}

test("a payout is made once, whoever asks how often", async () => {
  const to = receiver(1);
  const all = await Promise.all([1, 2, 3].map(() => pay("once", to, "1000")));
  for (const [status, told] of all) {
    assert.equal(status, 200, JSON.stringify(told));
    assert.equal(told.status, "done");
    assert.equal(told.txHash, all[0][1].txHash);
  }
  assert.equal(await balance(to), 1000);
  const [status] = await pay("once", to, "2000");
  assert.equal(status, 409);
  assert.equal(await balance(to), 1000);
});

test("ten at once are paid once each", async () => {
  const numbers = Array.from({ length: 10 }, (_, number) => number + 10);
  const all = await Promise.all(numbers.map((one) => pay(`many ${one}`, receiver(one), `${one}`)));
  all.forEach(([status, told]) => assert.equal(status, 200, JSON.stringify(told)));
  for (const one of numbers) assert.equal(await balance(receiver(one)), one);
});
