// What a caller brings: how its ledger is sent to and looked at. Asked also for what others have
// signed with the same key, after a crash of theirs.

import type { BaseBlock, Certificate } from "./contract.js";

/** One signing key of one account. */
export interface LaneKey {
  accountId: string;
  publicKey: string;
}

/** The name of a key's lane. */
export function laneOf(key: LaneKey): string {
  return `${key.accountId}:${key.publicKey}`;
}

/** A signed transaction. */
export interface Signed {
  /** The ledger's own name for these bytes. */
  hash: string;
  bytes: Uint8Array;
  base?: BaseBlock | null;
  expiresHeight?: number | null;
}

/** A transaction that is stored, and may have been sent. */
export interface Attempt extends Signed {
  key: LaneKey;
  nonce: number;
  /** Every hash under which it may land; more than its own where it was replaced. */
  hashes: string[];
  isFence: boolean;
}

/** A certain refusal of bytes that were never sent before. */
export interface Refusal {
  refused: string;
  /** Funds, keys, limits: another try with the same key may go well. */
  isSenders: boolean;
}

export type Look =
  /** Unknown: it may still land. */
  | { look: "adrift" }
  /** In a block that is not final. */
  | { look: "included" }
  /** Final. `failed` is why it did not do what it was to do, if so. */
  | { look: "landed"; blockHeight: number; blockHash: string; hash?: string; failed?: string }
  /** Proven that it can never land. */
  | { look: "sunk"; certificate: Certificate };

/** One ledger. */
export interface Ledger {
  /**
   * `overtakes`: a later nonce that lands kills the earlier ones (NEAR). `queues`: nothing lands
   * before its predecessor (EVM).
   */
  order: "overtakes" | "queues";
  /** The last nonce that the ledger has used for the key, at a final block; of a key never used, the one before its first. */
  lastNonce(key: LaneKey): Promise<number>;
  /** Sends the bytes; they may have been sent before. Whatever it throws means: look. */
  send(attempt: Attempt): Promise<Refusal | void>;
  /** `landed` MUST be final. What is not found is adrift. */
  look(attempt: Attempt): Promise<Look>;
  /** Where later nonces decide earlier ones: signs what does nothing, and MUST NOT send it. */
  fence?(turn: { key: LaneKey; nonce: number }): Promise<Signed>;
  /**
   * Everything that can be told of an attempt that a look does not find, now that `fence` is final
   * above it. `sunk` MUST be proven, at or past the fence's block.
   */
  inquest?(attempt: Attempt, fence: Attempt): Promise<Look>;
  /** Where attempts queue: the same on better terms, under the same nonce; null if there are none. */
  replace?(attempt: Attempt): Promise<Signed | null>;
}
