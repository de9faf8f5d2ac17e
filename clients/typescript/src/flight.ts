// One stored attempt, from its first byte to its fate.
//
// Invariant: the same bytes may be sent any number of times, others never without being stored.
// Invariant: only what is landed and final, or proven never to land, is settled.

import type { Certificate, Fate, LaneRecord, Outcome, StoredAttempt } from "./contract.js";
import { fromBase64, toBase64 } from "./contract.js";
import type { Attempt, Look, Refusal } from "./ledger.js";
import type { Stay } from "./line.js";
import { sleep } from "./time.js";

/** That a lane is ours, and until when by our own clock. */
export interface Hold {
  epoch: number;
  untilMs: number;
  isLost: boolean;
}

/** Why an attempt is pursued no further here. */
export type End =
  | { end: "final"; record: LaneRecord }
  /** The ledger will not take it from this sender as it is. */
  | { end: "unsent"; why: string }
  /** Proven sunk, or another's now: the record tells. */
  | { end: "again" };

export class Flight {
  readonly #stay: Stay;
  readonly #stored: StoredAttempt;
  /** Resolved when its first broadcast, if there is one, is over. */
  readonly sent: Promise<void>;
  /** Resolved when it is in a block, decided, or no longer ours. */
  readonly included: Promise<void>;
  readonly decided: Promise<End>;
  #wasSent!: () => void;
  #wasIncluded!: () => void;

  constructor(stay: Stay, stored: StoredAttempt, isFresh: boolean) {
    this.#stay = stay;
    this.#stored = stored;
    this.sent = new Promise((resolve) => {
      this.#wasSent = resolve;
    });
    this.included = new Promise((resolve) => {
      this.#wasIncluded = resolve;
    });
    this.decided = this.#pursue(isFresh).finally(() => {
      this.#wasSent();
      this.#wasIncluded();
    });
    // Whoever waits hears of it; nobody may.
    this.decided.catch(() => undefined);
  }

  get attempt(): Attempt {
    const stored = this.#stored;
    const newest = stored.variants.at(-1) ?? stored;
    return {
      key: this.#stay.line.parts.key,
      nonce: stored.nonce,
      hash: newest.hash,
      bytes: fromBase64(newest.bytes),
      base: newest.base,
      expiresHeight: newest.expires_height,
      hashes: [stored.hash, ...stored.variants.map((variant) => variant.hash)],
      isFence: stored.record === null,
    };
  }

  async #pursue(isFresh: boolean): Promise<End> {
    const { ledger, settings } = this.#stay.line.parts;
    let resendMs = settings.rebroadcastMs;
    let sentMs = -Infinity;
    let adriftMs = performance.now();
    if (isFresh) {
      const refusal = await this.#send();
      sentMs = performance.now();
      // Never sent before: a refusal is a proof, but a nonce left out would hold up all after it.
      if (refusal && ledger.order === "overtakes") return this.#refused(refusal);
    }
    this.#wasSent();
    while (this.#isOurs()) {
      const look = await ledger.look(this.attempt).catch((): Look => ({ look: "adrift" }));
      if (look.look === "landed" || look.look === "sunk") return this.#settle(look);
      if (look.look === "included") {
        this.#wasIncluded();
        adriftMs = performance.now();
      } else if (performance.now() - sentMs >= resendMs && this.#isOurs()) {
        if (sentMs > -Infinity) resendMs = Math.min(2 * resendMs, settings.rebroadcastMaxMs);
        await this.#send();
        sentMs = performance.now();
      }
      if (performance.now() - adriftMs >= settings.fenceAfterMs && this.#isOurs()) {
        const decided = await this.#decide();
        if (decided !== null) return decided;
        adriftMs = performance.now();
      }
      await sleep(settings.lookMs);
    }
    return { end: "again" };
  }

  /** Whether the lane is ours for as long as a call may take. */
  #isOurs(): boolean {
    return !this.#stay.hold.isLost && performance.now() < this.#stay.hold.untilMs;
  }

  async #send(): Promise<Refusal | null> {
    const { ledger, watch, lane } = this.#stay.line.parts;
    if (!this.#isOurs()) return null;
    const sinceMs = performance.now();
    try {
      return (await ledger.send(this.attempt)) ?? null;
    } catch {
      // It may have arrived: a look tells.
      return null;
    } finally {
      watch.sent?.(lane, performance.now() - sinceMs);
    }
  }

  /** Adrift for long: a fence above it where later nonces decide, a replacement where they queue. */
  async #decide(): Promise<End | null> {
    const { ledger } = this.#stay.line.parts;
    if (ledger.order === "queues") return this.#replace();
    const fence = await this.#stay.fence();
    if (fence === null || (await fence.decided).end === "unsent") return null;
    if (ledger.inquest === undefined || !this.#isOurs()) return null;
    const look = await ledger.inquest(this.attempt, fence.attempt).catch(() => null);
    if (look?.look !== "landed" && look?.look !== "sunk") return null;
    return this.#settle(look);
  }

  async #replace(): Promise<null> {
    const { ledger, client, lane } = this.#stay.line.parts;
    const { hold, incarnation } = this.#stay;
    const signed = await ledger.replace?.(this.attempt).catch(() => null);
    if (!signed || !this.#isOurs()) return null;
    const bytes = toBase64(signed.bytes);
    const varied = await client.ask("vary", {
      attempt: this.#stored.id,
      lane,
      epoch: hold.epoch,
      number: this.#stored.variants.length + 1,
      kind: "replaces",
      signed: {
        hash: signed.hash, bytes, base: signed.base ?? null,
        expires_height: signed.expiresHeight ?? null,
      },
      marks: [],
      incarnation,
      at_ms: Date.now(),
    }).catch(() => {
      // It may be stored, now or later: a new epoch finds it.
      hold.isLost = true;
      return null;
    });
    if (varied?.answer === "stored") {
      this.#stored.variants.push(varied.variant);
      await this.#send();
    } else if (varied !== null && varied.answer !== "decided") hold.isLost = true;
    return null;
  }

  async #refused({ refused, isSenders }: Refusal): Promise<End> {
    const evidence = { reason: refused, relays_fault: isSenders };
    const certificate: Certificate = { kind: "refused", summary: refused, evidence };
    const end = await this.#settle({ look: "sunk", certificate });
    return isSenders && end.end === "again" ? { end: "unsent", why: refused } : end;
  }

  /** Stores the fate; the record tells what it came to. */
  async #settle(look: Extract<Look, { look: "landed" | "sunk" }>): Promise<End> {
    const { client, lane, watch, settings } = this.#stay.line.parts;
    const { id, record } = this.#stored;
    const fate = fateOf(look, this.#stored);
    if (look.look === "sunk" && look.certificate.kind === "nonce_passed") watch.invalidNonce?.(lane);
    while (this.#isOurs()) {
      const { epoch } = this.#stay.hold;
      const asked = { attempt: id, lane, epoch, fate, at_ms: Date.now() };
      const settled = await client.ask("settle", asked).catch(() => null);
      if (settled?.answer === "fenced") break;
      const found = settled && (await this.#record(record));
      if (found !== null) return found;
      await sleep(settings.lookMs);
    }
    return { end: "again" };
  }

  /** What the record has come to; null if it cannot be read now. */
  async #record(id: number | null): Promise<End | null> {
    if (id === null) return { end: "again" };
    const { client } = this.#stay.line.parts;
    const found = await client.ask("records", { ids: [id] }).catch(() => null);
    const record = found?.records[0];
    if (record === undefined) return null;
    const isFinal = record.status === "done" || record.status === "failed";
    return isFinal ? { end: "final", record } : { end: "again" };
  }
}

function fateOf(look: Extract<Look, { look: "landed" | "sunk" }>, stored: StoredAttempt): Fate {
  if (look.look === "sunk") return { fate: "sunk", ...look.certificate };
  const outcome: Outcome = look.failed === undefined
    ? { outcome: "done" }
    : { outcome: "own_fault", message: look.failed };
  return {
    fate: "landed",
    ...(look.hash !== undefined && look.hash !== stored.hash ? { hash: look.hash } : {}),
    block_height: look.blockHeight,
    block_hash: look.blockHash,
    outcomes: stored.record === null ? [] : [outcome],
  };
}
