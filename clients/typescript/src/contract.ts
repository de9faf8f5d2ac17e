// The lane contract (docs/lanes.md), typed. One call is one request; nothing here repeats anything.

import { ID_HEADER, SIGNATURE_HEADER, TIME_HEADER, importSecret, sign } from "./auth.js";

export interface Halt {
  reason: string;
  at_ms: number;
}

export interface Lane {
  id: string;
  epoch: number;
  holder: string | null;
  lease_until_ms: number;
  base_nonce: number | null;
  /** null until the lane was started. */
  next_nonce: number | null;
  seq: number;
  halted: Halt | null;
}

export type Status = "queued" | "inflight" | "done" | "failed";

export interface LaneRecord {
  id: number;
  key: string;
  digest: string;
  status: Status;
  version: number;
  attempt: number | null;
  hash: string | null;
  error: { error_type: string; message: string } | null;
  created_ms: number;
  updated_ms: number;
  completed_ms: number | null;
}

export interface BaseBlock {
  hash: string;
  height: number;
}

/** What was signed, as the contract has it: `bytes` are base64. */
export interface SignedBytes {
  hash: string;
  bytes: string;
  base: BaseBlock | null;
  expires_height: number | null;
}

export interface Variant extends SignedBytes {
  number: number;
  kind: "replaces" | "cancels";
  epoch: number;
  seq: number;
  opened_ms: number;
}

export interface Sighting {
  endpoint: string;
  block_hash: string;
  block_height: number | null;
  was_final: boolean;
  at_ms: number;
}

export type Outcome =
  | { outcome: "done" }
  | { outcome: "own_fault" | "unexplained" | "unprepared"; message: string }
  | { outcome: "relay_fault"; shortage: string; message: string };

export type Fate =
  | { fate: "landed"; hash?: string; block_height: number; block_hash: string; outcomes: Outcome[] }
  | ({ fate: "sunk" } & Certificate);

export interface Certificate {
  kind: "nonce_passed" | "expired" | "refused" | "cancelled" | "displaced" | "operator";
  summary: string;
  evidence: unknown;
}

export interface StoredAttempt extends SignedBytes {
  id: number;
  lane: string;
  epoch: number;
  nonce: number;
  seq: number;
  /** null of a fence. */
  record: number | null;
  variants: Variant[];
  opened_ms: number;
  sightings: Sighting[];
  fate: Fate | null;
  decided_ms: number | null;
}

export interface Mark {
  lane: string;
  nonce: number;
  seq: number;
}

export interface Held {
  lane: string;
  epoch: number;
}

export interface OpenOne extends Held {
  nonce: number;
  record: { id: number; version: number; updated_ms: number } | null;
  signed: SignedBytes;
  marks: Mark[];
  incarnation: string;
  at_ms: number;
}

export type Opened =
  | { answer: "stored"; attempt: StoredAttempt }
  | { answer: "fenced" | "behind" | "restarted"; why: string }
  | { answer: "stale_nonce" | "stale_record" };

export type Varied =
  | { answer: "stored"; variant: Variant }
  | { answer: "fenced" | "behind" | "restarted"; why: string }
  | { answer: "decided" | "stale_number" };

export type Leased =
  | { answer: "yours"; lane: Lane }
  | { answer: "busy"; holder: string; until_ms: number };

export type Entered = { answer: "created" | "already" | "conflict"; record: LaneRecord };

export type Settled = { answer: "done"; moved: number[] } | { answer: "already" | "fenced" };

export type Which =
  | { attempt: number }
  | { lane: string; open: true }
  | { lane: string; nonce: number }
  | { lane: string; above: number; limit?: number };

/** Each operation: what it takes, and what it answers. */
export interface Operations {
  lease: [{ lane: string; holder: string; ttl_ms: number }, Leased];
  renew: [{ lanes: Held[]; ttl_ms: number }, { renewed: boolean[] }];
  release: [{ lanes: Held[] }, Record<string, never>];
  start: [Held & { ledger_nonce: number }, { started: boolean }];
  halt: [{ lane: string; reason: string }, Record<string, never>];
  adopt: [{ lane: string; ledger_nonce: number }, Record<string, never>];
  lanes: [Record<string, never>, { lanes: Lane[] }];
  identity: [Record<string, never>, { id: string; incarnation: string; shared: boolean }];
  enter: [{ key: string; digest: string; at_ms: number }, Entered];
  record: [{ key: string }, { record: LaneRecord | null }];
  records: [{ ids: number[] }, { records: LaneRecord[] }];
  forget: [{ before_ms: number; limit: number }, { forgotten: number }];
  open: [{ attempts: OpenOne[] }, { answers: Opened[] }];
  vary: [
    Omit<OpenOne, "nonce" | "record"> & {
      attempt: number;
      number: number;
      kind: "replaces" | "cancels";
    },
    Varied,
  ];
  sight: [Held & { attempt: number; sightings: Sighting[] }, { noted: boolean }];
  settle: [Held & { attempt: number; fate: Fate; at_ms: number }, Settled];
  attempts: [Which, { attempts: StoredAttempt[] }];
}

export type Operation = keyof Operations;

/** No answer of the contract, cut by what the caller does next. */
export class LanesError extends Error {
  /**
   * `unavailable`: it may have been done; ask, or repeat it. `refused`: never valid, or not from
   * you; nothing happened. `corrupt`: stop, and look.
   */
  readonly kind: "unavailable" | "refused" | "corrupt";

  constructor(kind: LanesError["kind"], message: string) {
    super(message);
    this.name = "LanesError";
    this.kind = kind;
  }
}

export interface ClientOptions {
  /** The space's address: `http://host:3050/v1`. */
  url: string;
  secret: string;
  /** How long an answer may take, in milliseconds; shorter than a lease. */
  timeoutMs?: number;
  fetch?: (request: Request) => Promise<Response>;
  now?: () => number;
}

/** One space of the contract. */
export class LanesClient {
  readonly #options: ClientOptions;
  #secret: Promise<CryptoKey> | undefined;

  constructor(options: ClientOptions) {
    this.#options = options;
  }

  async ask<O extends Operation>(
    operation: O,
    body: Operations[O][0],
  ): Promise<Operations[O][1]> {
    const { url, timeoutMs = 5_000, now = Date.now } = this.#options;
    const address = new URL(`${url.replace(/\/+$/, "")}/${operation}`);
    const text = JSON.stringify(body);
    this.#secret ??= importSecret(this.#options.secret);
    const timeMs = now();
    const id = crypto.randomUUID();
    const path = address.pathname;
    const asked = { method: "POST", path, timeMs, id, body: text };
    const request = new Request(address, {
      method: "POST",
      // A redirect would carry a signed request to whoever is named.
      redirect: "manual",
      headers: {
        "content-type": "application/json",
        [TIME_HEADER]: String(timeMs),
        [ID_HEADER]: id,
        [SIGNATURE_HEADER]: await sign(await this.#secret, asked),
      },
      body: text,
      signal: AbortSignal.timeout(timeoutMs),
    });
    const send = this.#options.fetch ?? ((one: Request) => fetch(one));
    let status = 0;
    let answer: unknown;
    try {
      const response = await send(request);
      status = response.status;
      answer = await response.json();
    } catch (error) {
      throw new LanesError("unavailable", `${operation}: ${status || ""} ${String(error)}`);
    }
    if (status === 200) return answer as Operations[O][1];
    const said = answer as { error?: string; message?: string };
    const message = `${operation}: ${status}: ${said.message ?? "no message"}`;
    // A clock that was set, or a server that was started a moment ago: the next try is another.
    if (status === 400 || status === 404 || status === 413) throw new LanesError("refused", message);
    throw new LanesError(said.error === "corrupt" ? "corrupt" : "unavailable", message);
  }
}

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
