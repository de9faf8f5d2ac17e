// How an EVM chain is sent to and looked at, and a plain payout on it. One node is asked here: give it
// one of your own.
//
// Lanes count from 1 and EVM from 0: what is signed under the lane's nonce n has the chain's n - 1.

import { Transaction, Wallet, getBytes, hexlify } from "ethers";

/** The signing key, as lanes know it. */
export const keyOf = (privateKey) => {
  const { address, signingKey } = new Wallet(privateKey);
  return { accountId: address.toLowerCase(), publicKey: signingKey.compressedPublicKey };
};

export function evm(url) {
  const call = async (method, params) => {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
      signal: AbortSignal.timeout(10_000),
    });
    const { result, error } = await response.json();
    if (error) throw new Error(error.message);
    return result;
  };

  const ledger = {
    order: "queues",
    async lastNonce(key) {
      return Number(await call("eth_getTransactionCount", [key.accountId, "finalized"]));
    },
    async send(attempt) {
      await call("eth_sendRawTransaction", [hexlify(attempt.bytes)]);
    },
    async look({ hashes }) {
      for (const hash of hashes) {
        const receipt = await call("eth_getTransactionReceipt", [hash]);
        if (receipt === null) continue;
        const final = await call("eth_getBlockByNumber", ["finalized", false]);
        if (final === null || Number(final.number) < Number(receipt.blockNumber)) {
          return { look: "included" };
        }
        // The chain as it is now: the receipt may be of a block that fell off it.
        const block = await call("eth_getBlockByNumber", [receipt.blockNumber, false]);
        if (block?.hash !== receipt.blockHash) return { look: "included" };
        const failed = receipt.status === "0x1" ? {} : { failed: "reverted" };
        const blockHeight = Number(receipt.blockNumber);
        return { look: "landed", hash, blockHeight, blockHash: receipt.blockHash, ...failed };
      }
      return { look: "adrift" };
    },
    /** The same for half as much again, so that a block takes it. */
    async replace(attempt) {
      const { privateKey } = ledger;
      const before = Transaction.from(hexlify(attempt.bytes));
      const more = (fee) => (fee * 3n) / 2n;
      return sign(privateKey, {
        ...plain(before),
        maxFeePerGas: more(before.maxFeePerGas),
        maxPriorityFeePerGas: more(before.maxPriorityFeePerGas),
      });
    },
  };

  const plain = ({ to, value, nonce, chainId, gasLimit }) =>
    ({ type: 2, to, value, nonce, chainId, gasLimit });

  const sign = async (privateKey, transaction) => {
    const signed = await new Wallet(privateKey).signTransaction(transaction);
    return { hash: Transaction.from(signed).hash, bytes: getBytes(signed) };
  };

  /** Builds a payout when its turn comes, and hands it to the turn. */
  const payout = (privateKey, to, amount) => async (turn) => {
    const [chainId, block] = await Promise.all([
      call("eth_chainId", []), call("eth_getBlockByNumber", ["latest", false])]);
    const tip = 1_000_000_000n;
    return turn.send(await sign(privateKey, {
      type: 2,
      to,
      value: BigInt(amount),
      nonce: turn.nonce - 1,
      chainId: Number(chainId),
      gasLimit: 21_000n,
      maxPriorityFeePerGas: tip,
      maxFeePerGas: 2n * BigInt(block.baseFeePerGas) + tip,
    }));
  };

  /** With the key that replacements are signed with. */
  const signingWith = (privateKey) => Object.assign(ledger, { privateKey });

  return { ledger, payout, signingWith };
}
