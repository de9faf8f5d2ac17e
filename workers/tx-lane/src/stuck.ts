// What an alarm does for an attempt that nobody looks after: looks, and sends the same bytes again.
//
// It settles what has landed and is final, and nothing else: that something is sunk is for whoever
// holds the key to prove.

import type { Fate, StoredAttempt } from "../../../clients/typescript/src/contract.js";
import type { AlarmLedger } from "./ledgers.js";

/** The fate of an attempt that has landed; null if that is not known. */
export async function lookAfter(
  ledger: AlarmLedger, attempt: StoredAttempt,
): Promise<Extract<Fate, { fate: "landed" }> | null> {
  const all = [attempt, ...attempt.variants];
  // No account's name has a colon, and every key's does.
  const sender = attempt.lane.split(":")[0] ?? "";
  for (const { hash } of all) {
    const landed = await ledger.look(hash, sender).catch(() => null);
    if (landed === "waits") return null;
    if (landed !== null) {
      return {
        fate: "landed",
        ...(hash === attempt.hash ? {} : { hash }),
        block_height: landed.blockHeight,
        block_hash: landed.blockHash,
        outcomes: attempt.record === null ? [] : [landed.failed === undefined
          ? { outcome: "done" } : { outcome: "own_fault", message: landed.failed }],
      };
    }
  }
  // The answer decides nothing: the next alarm looks again.
  const newest = all.at(-1) ?? attempt;
  await ledger.send(newest.bytes).catch(() => undefined);
  return null;
}
