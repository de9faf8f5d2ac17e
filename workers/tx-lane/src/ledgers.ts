// How an alarm asks a ledger. One node is believed here: give it one of your own, or leave LEDGER out,
// and what is stuck waits for whoever next holds the key.

import { fromBase64 } from "../../../clients/typescript/src/contract.js";
import type { Env } from "./env.js";

export interface Landed {
  blockHeight: number;
  blockHash: string;
  failed?: string;
}

export interface AlarmLedger {
  /** Sends stored bytes, in base64. */
  send(bytes: string): Promise<void>;
  /** Final; `waits` if it is in a block that is not; null if it is not found. */
  look(hash: string, sender: string): Promise<Landed | "waits" | null>;
}

const TIMEOUT_MS = 10_000;

export function ledgerOf(env: Env): AlarmLedger | null {
  const { LEDGER: ledger, LEDGER_RPC: url } = env;
  if (url === undefined || url === "") return null;
  if (ledger === "near") return near(url);
  return ledger === "evm" ? evm(url) : null;
}

async function call(url: string, method: string, params: unknown): Promise<unknown> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  const answer = (await response.json()) as { result?: unknown; error?: unknown };
  if (answer.error !== undefined) throw new Error(JSON.stringify(answer.error));
  return answer.result;
}

function near(url: string): AlarmLedger {
  return {
    async send(bytes) {
      await call(url, "send_tx", { signed_tx_base64: bytes, wait_until: "NONE" });
    },
    async look(hash, sender) {
      const params = { tx_hash: hash, sender_account_id: sender, wait_until: "NONE" };
      const found = (await call(url, "tx", params)) as {
        final_execution_status?: string;
        status?: { Failure?: unknown };
        transaction_outcome?: { block_hash: string };
      };
      if (found.final_execution_status !== "FINAL") return "waits";
      const blockHash = found.transaction_outcome?.block_hash ?? "";
      const block = (await call(url, "block", { block_id: blockHash })) as {
        header: { height: number };
      };
      const failure = found.status?.Failure;
      // A transaction that was invalid used no nonce: another block may hold it.
      if (failure !== undefined && JSON.stringify(failure).includes("InvalidTxError")) return "waits";
      const landed = { blockHeight: block.header.height, blockHash };
      return failure === undefined ? landed : { ...landed, failed: JSON.stringify(failure) };
    },
  };
}

function evm(url: string): AlarmLedger {
  return {
    async send(bytes) {
      const hex = Array.from(fromBase64(bytes), (byte) => byte.toString(16).padStart(2, "0"));
      await call(url, "eth_sendRawTransaction", [`0x${hex.join("")}`]);
    },
    async look(hash) {
      const receipt = (await call(url, "eth_getTransactionReceipt", [hash])) as {
        blockNumber: string; blockHash: string; status: string;
      } | null;
      if (receipt === null) return null;
      const final = (await call(url, "eth_getBlockByNumber", ["finalized", false])) as {
        number: string;
      } | null;
      const height = Number(receipt.blockNumber);
      if (final === null || Number(final.number) < height) return "waits";
      // The chain as it is now: the receipt may be of a block that fell off it.
      const block = (await call(url, "eth_getBlockByNumber", [receipt.blockNumber, false])) as {
        hash: string;
      } | null;
      if (block?.hash !== receipt.blockHash) return "waits";
      const landed = { blockHeight: height, blockHash: receipt.blockHash };
      return receipt.status === "0x1" ? landed : { ...landed, failed: "reverted" };
    },
  };
}
