// What an object keeps, and the rules by which it changes: those of landfall-core's opening.rs and
// execution.rs, on one lane.
//
// Every method is called inside a transaction of the object's storage.

import type {
  Fate, Lane, LaneRecord, Mark, OpenOne, Opened, Settled, SignedBytes, Sighting, StoredAttempt,
  Varied,
} from "../../../clients/typescript/src/contract.js";
import { Corrupt, Mistaken } from "./answer.js";

const NONCE = "nonce:lastCommitted";
/** No lease lasts longer. One that seems to was given before the clock was set back. */
export const LEASE_MAX_MS = 600_000;

/** The lane without what has keys of its own. */
interface StoredLane {
  id: string;
  epoch: number;
  holder: string | null;
  lease_until_ms: number;
  base_nonce: number | null;
  seq: number;
  halted: Lane["halted"];
}

/** Ids that were given. */
interface Counters {
  record: number;
  attempt: number;
}

const digits = (number: number): string => String(number).padStart(16, "0");

export class Space {
  readonly #storage: DurableObjectStorage;
  readonly #name: string;
  readonly nowMs: number;

  constructor(storage: DurableObjectStorage, name: string, nowMs: number) {
    this.#storage = storage;
    this.#name = name;
    this.nowMs = nowMs;
  }

  static attemptKey(nonce: number): string {
    return `attempt:${digits(nonce)}`;
  }

  async identity(): Promise<{ id: string; incarnation: string; shared: true }> {
    let id = await this.#storage.get<string>("identity");
    if (id === undefined) {
      id = crypto.randomUUID();
      await this.#storage.put("identity", id);
    }
    // Storage that was answered for is never behind: an object lives on with all it has stored.
    return { id, incarnation: id, shared: true };
  }

  // Lanes

  async lane(): Promise<Lane | null> {
    const stored = await this.#storage.get<StoredLane>("lane");
    if (stored === undefined) return null;
    const last = await this.#storage.get<number>(NONCE);
    return { ...stored, next_nonce: last === undefined ? null : last + 1 };
  }

  async #keep({ next_nonce: _, ...lane }: Lane): Promise<void> {
    await this.#storage.put("lane", lane satisfies StoredLane);
  }

  /** The lane, if it is the object's own. */
  async #own(name: string): Promise<Lane | null> {
    if (name !== this.#name) throw new Mistaken(`this is the object of ${this.#name}`);
    return this.lane();
  }

  async #held(name: string, epoch: number): Promise<Lane | null> {
    const lane = await this.#own(name);
    return lane !== null && lane.epoch === epoch && lane.holder !== null ? lane : null;
  }

  async lease(name: string, holder: string, ttlMs: number): Promise<
    { answer: "yours"; lane: Lane } | { answer: "busy"; holder: string; until_ms: number }
  > {
    const lane = (await this.#own(name)) ?? {
      id: name, epoch: 0, holder: null, lease_until_ms: 0, base_nonce: null, next_nonce: null,
      seq: 0, halted: null,
    };
    const { lease_until_ms: untilMs } = lane;
    const isLeased = untilMs > this.nowMs && untilMs <= this.nowMs + LEASE_MAX_MS;
    if (lane.holder !== null && lane.holder !== holder && isLeased) {
      return { answer: "busy", holder: lane.holder, until_ms: untilMs };
    }
    lane.epoch += 1;
    [lane.holder, lane.lease_until_ms] = [holder, this.nowMs + ttlMs];
    await this.#keep(lane);
    return { answer: "yours", lane };
  }

  async renew(name: string, epoch: number, ttlMs: number): Promise<boolean> {
    const lane = await this.#held(name, epoch);
    if (lane === null) return false;
    lane.lease_until_ms = this.nowMs + ttlMs;
    await this.#keep(lane);
    return true;
  }

  async release(name: string, epoch: number): Promise<void> {
    const lane = await this.#held(name, epoch);
    if (lane === null) return;
    [lane.holder, lane.lease_until_ms] = [null, 0];
    await this.#keep(lane);
  }

  async start(name: string, epoch: number, ledgerNonce: number): Promise<boolean> {
    const lane = await this.#held(name, epoch);
    if (lane === null || lane.next_nonce !== null) return false;
    lane.base_nonce = ledgerNonce;
    await this.#keep(lane);
    await this.#storage.put(NONCE, ledgerNonce);
    return true;
  }

  async halt(name: string, reason: string): Promise<void> {
    const lane = await this.#known(name);
    lane.halted ??= { reason, at_ms: this.nowMs };
    await this.#keep(lane);
  }

  async adopt(name: string, ledgerNonce: number): Promise<void> {
    const lane = await this.#known(name);
    lane.halted = null;
    lane.epoch = Math.max(lane.epoch + 1, this.nowMs);
    lane.seq = Math.max(lane.seq, this.nowMs);
    [lane.holder, lane.lease_until_ms] = [null, 0];
    lane.base_nonce = Math.max(lane.base_nonce ?? 0, ledgerNonce);
    await this.#keep(lane);
    await this.#storage.put(NONCE, Math.max((lane.next_nonce ?? 0) - 1, ledgerNonce));
  }

  async #known(name: string): Promise<Lane> {
    const lane = await this.#own(name);
    if (lane === null) throw new Corrupt(`lane ${name} is not in the store`);
    return lane;
  }

  // Records

  async record(key: string): Promise<LaneRecord | null> {
    return (await this.#storage.get<LaneRecord>(`idem:${key}`)) ?? null;
  }

  async recordOf(id: number): Promise<LaneRecord | null> {
    const key = await this.#storage.get<string>(`record:${digits(id)}`);
    return key === undefined ? null : this.record(key);
  }

  async enter(key: string, digest: string, atMs: number): Promise<
    { answer: "created" | "already" | "conflict"; record: LaneRecord }
  > {
    const known = await this.record(key);
    if (known !== null) {
      return { answer: known.digest === digest ? "already" : "conflict", record: known };
    }
    const counters = await this.#count("record");
    const record: LaneRecord = {
      id: counters.record, key, digest, status: "queued", version: 1, attempt: null, hash: null,
      error: null, created_ms: atMs, updated_ms: atMs, completed_ms: null,
    };
    await this.#storage.put({ [`idem:${key}`]: record, [`record:${digits(record.id)}`]: key });
    return { answer: "created", record };
  }

  async forget(beforeMs: number, limit: number): Promise<number> {
    let [forgotten, startAfter]: [number, string | undefined] = [0, undefined];
    while (forgotten < limit) {
      const options = { prefix: "idem:", limit: 128 };
      const page: Map<string, LaneRecord> = await this.#storage.list(
        startAfter === undefined ? options : { ...options, startAfter });
      const isOver = (record: LaneRecord): boolean =>
        record.completed_ms !== null && record.completed_ms < beforeMs;
      const over = Array.from(page.values()).filter(isOver).slice(0, limit - forgotten);
      const keys = over.flatMap((one) => [`idem:${one.key}`, `record:${digits(one.id)}`]);
      for (let at = 0; at < keys.length; at += 128) {
        await this.#storage.delete(keys.slice(at, at + 128));
      }
      forgotten += over.length;
      if (page.size < 128) break;
      startAfter = Array.from(page.keys()).at(-1);
    }
    return forgotten;
  }

  async #count(which: keyof Counters): Promise<Counters> {
    const counters = (await this.#storage.get<Counters>("counters")) ?? { record: 0, attempt: 0 };
    counters[which] += 1;
    await this.#storage.put("counters", counters);
    return counters;
  }

  async #move(record: LaneRecord, change: Partial<LaneRecord>, atMs: number): Promise<void> {
    const moved = { ...record, ...change, version: record.version + 1, updated_ms: atMs };
    await this.#storage.put(`idem:${record.key}`, moved satisfies LaneRecord);
  }

  // Attempts

  async attempt(id: number): Promise<StoredAttempt | null> {
    const nonce = await this.#storage.get<number>(`attempt-id:${digits(id)}`);
    return nonce === undefined ? null : this.attemptAt(nonce);
  }

  async attemptAt(nonce: number): Promise<StoredAttempt | null> {
    return (await this.#storage.get<StoredAttempt>(Space.attemptKey(nonce))) ?? null;
  }

  async openAttempts(): Promise<StoredAttempt[]> {
    const nonces = await this.#storage.list<number>({ prefix: "open:" });
    const found = await Promise.all(Array.from(nonces.values(), (nonce) => this.attemptAt(nonce)));
    return found.filter((attempt) => attempt !== null);
  }

  /** Sunk ones explain nothing and do not count, however many there are. */
  async attemptsAfter(above: number, limit: number): Promise<StoredAttempt[]> {
    const found: StoredAttempt[] = [];
    let startAfter = Space.attemptKey(above);
    while (found.length < limit) {
      const options = { prefix: "attempt:", startAfter, limit: 128 };
      const page = await this.#storage.list<StoredAttempt>(options);
      found.push(...Array.from(page.values()).filter((one) => one.fate?.fate !== "sunk"));
      const last = Array.from(page.keys()).at(-1);
      if (page.size < 128 || last === undefined) break;
      startAfter = last;
    }
    return found.slice(0, limit);
  }

  /** Why nothing may be signed on the lane by whoever asks, or the lane. */
  async #admitted(
    asked: { lane: string; epoch: number; marks: Mark[]; incarnation: string },
    passesHalt: boolean,
  ): Promise<{ answer: "fenced" | "behind" | "restarted"; why: string } | { lane: Lane }> {
    const { incarnation } = await this.identity();
    if (asked.incarnation !== incarnation) {
      return { answer: "restarted", why: "the object is another one" };
    }
    const lane = await this.#held(asked.lane, asked.epoch);
    if (lane === null) {
      return { answer: "fenced", why: `epoch ${asked.epoch} of lane ${asked.lane} is over` };
    }
    if (lane.halted !== null && !passesHalt) {
      return { answer: "fenced", why: `lane ${lane.id} is halted: ${lane.halted.reason}` };
    }
    for (const mark of asked.marks) {
      const reached = mark.lane === lane.id ? lane : { next_nonce: null, seq: 0 };
      const isThere = reached.next_nonce !== null && reached.next_nonce > mark.nonce;
      if (!isThere || reached.seq < mark.seq) {
        return { answer: "behind", why: `nonce ${mark.nonce} of lane ${mark.lane} is no longer stored` };
      }
    }
    return { lane };
  }

  async open(asked: OpenOne): Promise<Opened> {
    const isFence = asked.record === null;
    const admitted = await this.#admitted(asked, isFence);
    if ("answer" in admitted) return admitted;
    const { lane } = admitted;
    const next = lane.next_nonce;
    if (next === null || !(asked.nonce === next || (isFence && asked.nonce > next))) {
      return { answer: "stale_nonce" };
    }
    const record = asked.record && (await this.recordOf(asked.record.id));
    if (asked.record !== null) {
      const isCurrent = record !== null && record.status === "queued" && record.attempt === null
        && record.version === asked.record.version && record.updated_ms === asked.record.updated_ms;
      if (!isCurrent) return { answer: "stale_record" };
    }
    const { attempt: id } = await this.#count("attempt");
    lane.seq += 1;
    await this.#keep(lane);
    const attempt: StoredAttempt = {
      id, lane: lane.id, epoch: asked.epoch, nonce: asked.nonce, seq: lane.seq,
      record: record?.id ?? null, ...asked.signed, variants: [], opened_ms: asked.at_ms,
      sightings: [], fate: null, decided_ms: null,
    };
    await this.#storage.put({
      [NONCE]: asked.nonce,
      [Space.attemptKey(asked.nonce)]: attempt,
      [`attempt-id:${digits(id)}`]: asked.nonce,
      [`open:${digits(asked.nonce)}`]: asked.nonce,
    });
    if (record !== null) {
      const { hash } = asked.signed;
      await this.#move(record, { status: "inflight", attempt: id, hash }, asked.at_ms);
    }
    return { answer: "stored", attempt };
  }

  async vary(asked: {
    attempt: number; lane: string; epoch: number; number: number; kind: "replaces" | "cancels";
    signed: SignedBytes; marks: Mark[]; incarnation: string; at_ms: number;
  }): Promise<Varied> {
    const admitted = await this.#admitted(asked, asked.kind === "cancels");
    if ("answer" in admitted) return admitted;
    const { lane } = admitted;
    const attempt = await this.#stored(asked.attempt);
    if (attempt.fate !== null) return { answer: "decided" };
    if (asked.number !== attempt.variants.length + 1) return { answer: "stale_number" };
    lane.seq += 1;
    await this.#keep(lane);
    const variant = {
      number: asked.number, kind: asked.kind, epoch: asked.epoch, seq: lane.seq,
      opened_ms: asked.at_ms, ...asked.signed,
    };
    attempt.variants.push(variant);
    await this.#storage.put(Space.attemptKey(attempt.nonce), attempt);
    return { answer: "stored", variant };
  }

  async #stored(id: number): Promise<StoredAttempt> {
    const attempt = await this.attempt(id);
    if (attempt === null) throw new Corrupt(`attempt ${id} is not in the store`);
    return attempt;
  }

  async sight(name: string, epoch: number, id: number, sightings: Sighting[]): Promise<boolean> {
    const attempt = await this.#stored(id);
    if (attempt.fate !== null || (await this.#held(name, epoch)) === null) return false;
    attempt.sightings.push(...sightings);
    await this.#storage.put(Space.attemptKey(attempt.nonce), attempt);
    return true;
  }

  async settle(
    name: string, epoch: number, id: number, fate: Fate, atMs: number,
  ): Promise<Settled> {
    const attempt = await this.#stored(id);
    if ((await this.#held(name, epoch)) === null) return { answer: "fenced" };
    if (attempt.fate !== null) return { answer: "already" };
    return { answer: "done", moved: await this.#decide(attempt, fate, atMs) };
  }

  /** An alarm's own: what is final on the ledger is so whoever holds the lane. */
  async settleAsObject(id: number, fate: Fate): Promise<void> {
    const attempt = await this.#stored(id);
    if (attempt.fate === null) await this.#decide(attempt, fate, this.nowMs);
  }

  async #decide(attempt: StoredAttempt, fate: Fate, atMs: number): Promise<number[]> {
    const decided = { ...attempt, fate, decided_ms: atMs };
    await this.#storage.put(Space.attemptKey(attempt.nonce), decided);
    await this.#storage.delete([`open:${digits(attempt.nonce)}`]);
    const record = attempt.record === null ? null : await this.recordOf(attempt.record);
    if (record === null || record.attempt !== attempt.id) return [];
    await this.#move(record, { attempt: null, ...comesTo(fate, attempt, atMs) }, atMs);
    return [record.id];
  }
}

/** What a fate means for the record that the attempt carried. */
function comesTo(fate: Fate, attempt: StoredAttempt, atMs: number): Partial<LaneRecord> {
  const failedWith = (errorType: string, message: string): Partial<LaneRecord> => ({
    status: "failed", completed_ms: atMs, error: { error_type: errorType, message },
  });
  if (fate.fate === "landed") {
    const hash = fate.hash ?? attempt.hash;
    const outcome = fate.outcomes[0];
    if (outcome?.outcome === "done") return { status: "done", hash, completed_ms: atMs };
    return { hash, ...failedWith("reverted", outcome?.message ?? "it was reverted") };
  }
  const refusal = refusalOf(fate);
  if (refusal?.relays_fault === false) return failedWith("refused", fate.summary);
  return { status: "queued", hash: null };
}

function refusalOf(fate: Extract<Fate, { fate: "sunk" }>): { relays_fault?: unknown } | undefined {
  const evidence = fate.evidence as { relays_fault?: unknown; refused?: object } | null;
  if (fate.kind === "refused") return evidence ?? {};
  return fate.kind === "cancelled" ? evidence?.refused : undefined;
}
