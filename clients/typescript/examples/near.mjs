// How NEAR is sent to and looked at, an account created on it, and a delegate action relayed. One node is asked here, which must keep
// history and track the sender's shard: give it one of your own.

import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import nearApi from "near-api-js";

const { InMemorySigner, KeyPair, utils } = nearApi;
// near-api-js has this one, and does not hand on all of it.
const require = createRequire(createRequire(import.meta.url).resolve("near-api-js"));
const { SCHEMA, actionCreators, encodeDelegateAction, signTransaction } =
  require("@near-js/transactions");

/** The signing key, as lanes know it. */
export const keyOf = (accountId, secretKey) =>
  ({ accountId, publicKey: KeyPair.fromString(secretKey).getPublicKey().toString() });

export function near(url, secretKey) {
  const pair = KeyPair.fromString(secretKey);

  const call = async (method, params) => {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", id: "1", method, params }),
      signal: AbortSignal.timeout(10_000),
    });
    const { result, error } = await response.json();
    if (error) throw Object.assign(new Error(JSON.stringify(error)), { cause: error.cause });
    return result;
  };

  const finalBlock = async () => (await call("block", { finality: "final" })).header;

  const sign = async ({ key, nonce }, receiver, actions) => {
    const { hash, height } = await finalBlock();
    const signer = await InMemorySigner.fromKeyPair("lanes", key.accountId, pair);
    const [digest, signed] = await signTransaction(receiver, BigInt(nonce), actions,
      utils.serialize.base_decode(hash), signer, key.accountId, "lanes");
    return {
      hash: utils.serialize.base_encode(digest), bytes: signed.encode(), base: { hash, height } };
  };

  const seen = async (attempt) => {
    try {
      return await call("tx", {
        tx_hash: attempt.hash, sender_account_id: attempt.key.accountId, wait_until: "NONE" });
    } catch (error) {
      if (error.cause?.name === "UNKNOWN_TRANSACTION") return null;
      throw error;
    }
  };

  const ledger = {
    order: "overtakes",
    async lastNonce(key) {
      const found = await call("query", {
        request_type: "view_access_key", finality: "final", account_id: key.accountId,
        public_key: key.publicKey });
      return found.nonce;
    },
    async send(attempt) {
      const bytes = Buffer.from(attempt.bytes).toString("base64");
      await call("send_tx", { signed_tx_base64: bytes, wait_until: "INCLUDED" });
    },
    async look(attempt) {
      const found = await seen(attempt);
      if (found === null || found.final_execution_status === "NONE") return { look: "adrift" };
      if (found.final_execution_status !== "FINAL") return { look: "included" };
      const failure = found.status?.Failure;
      // It used no nonce, and another block may hold it.
      if (failure?.InvalidTxError !== undefined) return { look: "adrift" };
      const blockHash = found.transaction_outcome.block_hash;
      const { header } = await call("block", { block_id: blockHash });
      const failed = failure === undefined ? {} : { failed: JSON.stringify(failure) };
      return { look: "landed", blockHeight: header.height, blockHash, ...failed };
    },
    /** Nothing, to oneself. */
    fence: (turn) => sign(turn, turn.key.accountId, [actionCreators.transfer(0n)]),
    /** The fence is final above it: who does not know it now never will. */
    async inquest(attempt, fence) {
      if (await seen(attempt) !== null) return ledger.look(attempt);
      const [used, { height }] = [await ledger.lastNonce(attempt.key), await finalBlock()];
      if (used < fence.nonce) return { look: "adrift" };
      const summary = `nonce ${attempt.nonce} was passed by ${used}, and it is not known`;
      const evidence = { used, height };
      return { look: "sunk", certificate: { kind: "nonce_passed", summary, evidence } };
    },
  };

  /** Builds the creation of an account when its turn comes, and hands it to the turn. */
  const creation = (account, publicKey, deposit) => async (turn) => turn.send(
    await sign(turn, account, [
      actionCreators.createAccount(),
      actionCreators.transfer(BigInt(deposit)),
      actionCreators.addKey(utils.PublicKey.fromString(publicKey), actionCreators.fullAccessKey()),
    ]));

  /** Relays what a user has signed: the relay pays, and the user's own key decides. */
  const relaying = ({ delegateAction, signature }) => async (turn) => turn.send(
    await sign(turn, delegateAction.senderId, [
      actionCreators.signedDelegate({ delegateAction, signature })]));

  return { ledger, creation, relaying };
}

/** A delegate action from its bytes in base64, and the hash that names it (NEP-461). */
export function delegateOf(base64) {
  const signed = utils.serialize.deserialize(SCHEMA.SignedDelegate, Buffer.from(base64, "base64"));
  const digest = createHash("sha256").update(encodeDelegateAction(signed.delegateAction)).digest();
  return { signed, hash: digest.toString("hex") };
}
