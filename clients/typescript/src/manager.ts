// The transaction manager: each idempotency key once, in one order per signing key.
//
// Invariant: what is sent is stored before, by `turn.send` alone. Invariant: new bytes for a key are
// built only after all that was stored for it is proven never to land.
// Not here: one lane's work (line.ts), the contract (contract.ts).

import { sha256 } from "./auth.js";
import { LanesClient, LanesError, type ClientOptions, type LaneRecord } from "./contract.js";
import type { LaneKey, Ledger, Signed } from "./ledger.js";
import { laneOf } from "./ledger.js";
import { Line, type Job } from "./line.js";
import { sleep } from "./time.js";

/** What an execution comes to. */
export type Executed =
  /** Landed, final. */
  | { status: "done"; txHash: string }
  /** Proven, at finality, not to have done what it was to do. Another try needs another key. */
  | { status: "failed"; txHash: string | null; outcome: string }
  /** Neither yet. Call again with the same key. */
  | { status: "inflight"; txHash: string | null };

/** Why a call did nothing, by what to do next. */
export class NotExecuted extends Error {
  /**
   * `conflict`: the key stands for another payload; use another. `full`: call later. `halted`: an
   * operator must look. `unbuilt`, `unsent`: nothing happened, the same key may be used again.
   */
  readonly reason: "conflict" | "full" | "halted" | "unbuilt" | "unsent" | "bad_key";

  constructor(reason: NotExecuted["reason"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "NotExecuted";
    this.reason = reason;
  }
}

/** An execution's turn on its lane. */
export interface Turn {
  key: LaneKey;
  /** To be signed under. */
  nonce: number;
  /** Stores what was signed, and only then sends it. Once a turn. */
  send(signed: Signed): Promise<{ txHash: string }>;
}

/**
 * Builds, signs, and gives what it has signed to `turn.send`. MUST NOT send by itself. MAY be called
 * again, with another nonce, if all that was stored before is proven never to land.
 */
export type BuildAndSend = (turn: Turn) => Promise<unknown>;

/** Told of what is worth watching as it happens. */
export interface Watch {
  queued?(lane: string, depth: number): void;
  contended?(lane: string): void;
  invalidNonce?(lane: string): void;
  sent?(lane: string, tookMs: number): void;
  tookOver?(lane: string, attempts: number): void;
  halted?(lane: string, reason: string): void;
}

/** Times in milliseconds. */
export interface Settings {
  /** Executions that may wait for one key. */
  queueMax: number;
  /** How long a call waits for a final answer before it says that it is in flight. */
  patienceMs: number;
  /** How long a builder may take. Its lane does nothing else meanwhile. */
  buildMs: number;
  leaseMs: number;
  renewMs: number;
  /** How long a lane is held while others may want it. */
  turnMs: number;
  /** Wait between looks: about a block. */
  lookMs: number;
  /** First wait before the same bytes are sent again; doubles up to the most. */
  rebroadcastMs: number;
  rebroadcastMaxMs: number;
  /** How long an attempt may be adrift before a fence decides it, or a replacement is sought. */
  fenceAfterMs: number;
}

export const DEFAULTS: Settings = {
  queueMax: 1_000,
  patienceMs: 60_000,
  buildMs: 10_000,
  leaseMs: 10_000,
  renewMs: 3_000,
  turnMs: 5_000,
  lookMs: 600,
  rebroadcastMs: 1_000,
  rebroadcastMaxMs: 30_000,
  fenceAfterMs: 60_000,
};

export interface ManagerOptions extends Omit<ClientOptions, "url"> {
  /** The space of a key: one address for all, or the Worker's for each (`workerUrl`). */
  url: string | ((key: LaneKey) => string);
  ledger: Ledger;
  /** Told apart from other processes by it; drawn if it is not given. */
  holder?: string;
  settings?: Partial<Settings>;
  watch?: Watch;
}

/** Where the Worker has the object of each key. */
export function workerUrl(origin: string): (key: LaneKey) => string {
  const part = encodeURIComponent;
  return (key) => `${origin.replace(/\/+$/, "")}/v1/${part(key.accountId)}/${part(key.publicKey)}`;
}

/** Bytes of an idempotency key: every backend can index so many. */
const KEY_MAX_BYTES = 256;

export class TxManager {
  readonly #options: ManagerOptions;
  readonly #settings: Settings;
  readonly #holder: string;
  readonly #lines = new Map<string, Line>();

  constructor(options: ManagerOptions) {
    this.#options = options;
    this.#settings = { ...DEFAULTS, ...options.settings };
    this.#holder = options.holder ?? `ts-${crypto.randomUUID()}`;
  }

  /**
   * Executes what `buildAndSend` builds, once for this idempotency key, and waits for its fate for
   * as long as the settings say. Whoever comes later with the same key has the same answer; with
   * another payload, a refusal.
   */
  async execute(
    key: LaneKey,
    idempotencyKey: string,
    buildAndSend: BuildAndSend,
    { payload = "" }: { payload?: string | Uint8Array } = {},
  ): Promise<Executed> {
    const bytes = new TextEncoder().encode(idempotencyKey).length;
    if (bytes < 1 || bytes > KEY_MAX_BYTES) {
      throw new NotExecuted("bad_key", `an idempotency key has 1 to ${KEY_MAX_BYTES} bytes`);
    }
    const line = this.#line(key);
    if (line.length >= this.#settings.queueMax) {
      return this.#known(line, idempotencyKey, await sha256(payload));
    }
    const job = line.push(idempotencyKey, sha256(payload), buildAndSend);
    return this.#await(line, job);
  }

  /** What is known of an idempotency key of this signing key; null if it was never used. */
  async find(key: LaneKey, idempotencyKey: string): Promise<Executed | null> {
    const { record } = await this.#line(key).client.ask("record", { key: idempotencyKey });
    return record && toldBy(record);
  }

  /** Takes nothing new, and returns when all lanes are given back. */
  async stop(): Promise<void> {
    await Promise.all(Array.from(this.#lines.values(), (line) => line.stop()));
  }

  #line(key: LaneKey): Line {
    const lane = laneOf(key);
    let line = this.#lines.get(lane);
    if (line === undefined) {
      const { url, ledger, watch = {}, ...rest } = this.#options;
      const base = typeof url === "string" ? url : url(key);
      const client = new LanesClient({ ...rest, url: base });
      line = new Line({
        key, lane, client, ledger, watch, holder: this.#holder, settings: this.#settings,
      });
      this.#lines.set(lane, line);
    }
    return line;
  }

  /** Whoever asks for what is there already is not refused because a line is full. */
  async #known(line: Line, idempotencyKey: string, digest: string): Promise<Executed> {
    const { record } = await line.client.ask("record", { key: idempotencyKey });
    if (record !== null && record.digest !== digest) throw conflict();
    if (record === null || record.status === "queued") {
      throw new NotExecuted("full", `${line.length} wait for ${line.lane}`);
    }
    return toldBy(record);
  }

  /** The job's end, or what is known when the time is over. */
  async #await(line: Line, job: Job): Promise<Executed> {
    const over = Symbol("over");
    const timer = new AbortController();
    const late = sleep(this.#settings.patienceMs, timer.signal).then(() => over);
    try {
      const ended = await Promise.race([job.ended, late]);
      if (typeof ended !== "symbol") return toldBy(ended);
    } finally {
      timer.abort();
    }
    // What began goes on; a refusal that nobody waits for is nobody's.
    job.ended.catch(() => undefined);
    try {
      const { record } = await line.client.ask("record", { key: job.idempotencyKey });
      return record === null ? { status: "inflight", txHash: null } : toldBy(record);
    } catch (error) {
      if (error instanceof LanesError) return { status: "inflight", txHash: null };
      throw error;
    }
  }
}

export function conflict(): NotExecuted {
  return new NotExecuted("conflict", "the idempotency key stands for another payload");
}

function toldBy(record: LaneRecord): Executed {
  switch (record.status) {
    case "done":
      return { status: "done", txHash: record.hash ?? "" };
    case "failed":
      return { status: "failed", txHash: record.hash, outcome: record.error?.message ?? "" };
    default:
      return { status: "inflight", txHash: record.hash };
  }
}
