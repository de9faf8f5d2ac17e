// The same payouts from a Cloudflare Worker. Each request may have an isolate of its own, so the order is
// kept by workers/tx-lane, which this one reaches by a service binding (LANES).

import { TxManager, workerUrl } from "landfall-lanes";

import { answerTo, refusalTo } from "./answers.mjs";
import { evm, keyOf } from "./evm.mjs";

export default {
  async fetch(request, env, context) {
    const { EVM_RPC, PRIVATE_KEY, LANES_SECRET, LANES } = env;
    const chain = evm(EVM_RPC);
    const lanes = new TxManager({
      url: workerUrl("https://tx-lane"),
      fetch: (asked) => LANES.fetch(asked),
      secret: LANES_SECRET,
      ledger: chain.signingWith(PRIVATE_KEY),
      // A request is short, and others wait for the key.
      settings: { lookMs: 200, patienceMs: 25_000, leaseMs: 5_000, renewMs: 1_000 },
    });
    const { to, amount } = await request.json();
    const idempotencyKey = `payout:${request.headers.get("idempotency-key")}`;
    let told;
    try {
      const send = chain.payout(PRIVATE_KEY, to, amount);
      const payload = JSON.stringify([to, amount]);
      told = answerTo(await lanes.execute(keyOf(PRIVATE_KEY), idempotencyKey, send, { payload }));
    } catch (error) {
      told = refusalTo(error);
    }
    // The lane is given back after the answer.
    context.waitUntil(lanes.stop());
    return Response.json(told.body, { status: told.status });
  },
};
