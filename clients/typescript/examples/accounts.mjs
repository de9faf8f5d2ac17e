// Accounts on NEAR, each created and funded once, and delegate actions (NEP-366), each relayed once, from
// any number of these servers with one key:
//
//   NEAR_RPC=… ACCOUNT=relay.near SECRET_KEY=ed25519:… LANES_URL=… LANES_SECRET=… node accounts.mjs
//   curl --json '{"account":"alice.relay.near","publicKey":"ed25519:…"}' localhost:3000/accounts
//   curl --json '{"delegate":"BASE64 of a SignedDelegate"}' localhost:3000/delegates

import express from "express";
import { TxManager } from "landfall-lanes";

import { answerTo, refusalTo } from "./answers.mjs";
import { delegateOf, keyOf, near } from "./near.mjs";

const { NEAR_RPC, ACCOUNT, SECRET_KEY, LANES_URL, LANES_SECRET, PORT = "3000" } = process.env;
/** What a new account begins with: a tenth of a NEAR. */
const DEPOSIT = 10n ** 23n;

const chain = near(NEAR_RPC, SECRET_KEY);
const key = keyOf(ACCOUNT, SECRET_KEY);
const lanes = new TxManager({
  url: LANES_URL, secret: LANES_SECRET, ledger: chain.ledger, settings: { lookMs: 200 },
});

const app = express();
app.use(express.json());

/** Answers with what `execute` comes to. */
async function answer(response, execute) {
  let told;
  try {
    told = answerTo(await execute());
  } catch (error) {
    told = refusalTo(error);
  }
  response.status(told.status).json(told.body);
}

app.post("/accounts", (request, response) => answer(response, () => {
  const { account, publicKey } = request.body;
  const idempotencyKey = `create:${account}:${publicKey}`;
  const create = chain.creation(account, publicKey, DEPOSIT);
  return lanes.execute(key, idempotencyKey, create, { payload: idempotencyKey });
}));

app.post("/delegates", (request, response) => answer(response, () => {
  const { signed, hash } = delegateOf(request.body.delegate);
  return lanes.execute(key, `delegate:${hash}`, chain.relaying(signed), { payload: hash });
}));

const server = app.listen(Number(PORT), "127.0.0.1", () => {
  console.log(`accounts at http://127.0.0.1:${server.address().port}`);
});
process.on("SIGTERM", () => server.close(() => lanes.stop().then(() => process.exit(0))));
