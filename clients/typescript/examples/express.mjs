// Payouts over HTTP, each once, from any number of these servers with one key:
//
//   EVM_RPC=… PRIVATE_KEY=0x… LANES_URL=http://127.0.0.1:3050/v1 LANES_SECRET=… node express.mjs
//   curl -H 'Idempotency-Key: payroll-1' --json '{"to":"0x…","amount":"1000"}' localhost:3000/payouts

import express from "express";
import { TxManager } from "landfall-lanes";

import { answerTo, refusalTo } from "./answers.mjs";
import { evm, keyOf } from "./evm.mjs";

const { EVM_RPC, PRIVATE_KEY, LANES_URL, LANES_SECRET, PORT = "3000" } = process.env;
const chain = evm(EVM_RPC);
const key = keyOf(PRIVATE_KEY);
const lanes = new TxManager({
  url: LANES_URL,
  secret: LANES_SECRET,
  ledger: chain.signingWith(PRIVATE_KEY),
  settings: { lookMs: 200 },
});

const app = express();
app.use(express.json());
app.post("/payouts", async (request, response) => {
  const { to, amount } = request.body;
  const idempotencyKey = `payout:${request.get("idempotency-key")}`;
  const payload = JSON.stringify([to, amount]);
  let told;
  try {
    const send = chain.payout(PRIVATE_KEY, to, amount);
    told = answerTo(await lanes.execute(key, idempotencyKey, send, { payload }));
  } catch (error) {
    told = refusalTo(error);
  }
  response.status(told.status).json(told.body);
});

const server = app.listen(Number(PORT), "127.0.0.1", () => {
  console.log(`payouts at http://127.0.0.1:${server.address().port}`);
});
process.on("SIGTERM", () => server.close(() => lanes.stop().then(() => process.exit(0))));
