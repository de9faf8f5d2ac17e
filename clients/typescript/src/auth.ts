// Who may ask: HMAC-SHA256 over method, path, time, an id drawn for the request, and the body
// (docs/lanes.md). Web Crypto alone, so that it is the same in Node, in workerd and in browsers'
// service workers.

export const TIME_HEADER = "landfall-time";
export const ID_HEADER = "landfall-id";
export const SIGNATURE_HEADER = "landfall-signature";
/** How far a sender's clock may be off, either way. */
export const WINDOW_MS = 30_000;
/** A digest has no more to give. */
export const SECRET_MIN_BYTES = 32;

const SCHEME = "landfall-lanes-v1";
const PREFIX = "v1=";
const ID = /^[0-9a-zA-Z-]{16,64}$/;
const encoder = new TextEncoder();

/** A request, as far as it is signed. */
export interface Asked {
  method: string;
  /** As it is sent, with the query if there is one. */
  path: string;
  timeMs: number;
  id: string;
  body: string;
}

export async function sha256(data: string | Uint8Array): Promise<string> {
  const bytes = typeof data === "string" ? encoder.encode(data) : data;
  return hex(await crypto.subtle.digest("SHA-256", bytes as BufferSource));
}

function hex(buffer: ArrayBuffer): string {
  return Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A secret, ready to sign with. */
export async function importSecret(secret: string): Promise<CryptoKey> {
  const bytes = encoder.encode(secret);
  if (bytes.length < SECRET_MIN_BYTES) {
    throw new Error(`a secret has at least ${SECRET_MIN_BYTES} bytes`);
  }
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  return crypto.subtle.importKey("raw", bytes, algorithm, false, ["sign", "verify"]);
}

async function signedText(asked: Asked): Promise<Uint8Array> {
  const { method, path, timeMs, id, body } = asked;
  const lines = [SCHEME, method, path, String(timeMs), id, await sha256(body)];
  return encoder.encode(lines.join("\n"));
}

export async function sign(secret: CryptoKey, asked: Asked): Promise<string> {
  const text = (await signedText(asked)) as BufferSource;
  return PREFIX + hex(await crypto.subtle.sign("HMAC", secret, text));
}

async function hasSigned(secret: CryptoKey, asked: Asked, signature: string): Promise<boolean> {
  const digits = signature.slice(PREFIX.length);
  if (!signature.startsWith(PREFIX) || !/^[0-9a-f]{64}$/.test(digits)) return false;
  const bytes = Uint8Array.from(digits.match(/../g) ?? [], (byte) => parseInt(byte, 16));
  const text = (await signedText(asked)) as BufferSource;
  // Compared in constant time, by the runtime.
  return crypto.subtle.verify("HMAC", secret, bytes, text);
}

/** Knows the secrets, and every request that it let in for as long as it could come again. */
export class Gatekeeper {
  readonly #secrets: CryptoKey[];
  /** What was sent earlier may have been taken by an earlier life. */
  readonly #startedMs: number;
  /** Ids with the time at which each may be forgotten. */
  readonly #taken = new Map<string, number>();

  constructor(secrets: CryptoKey[], startedMs: number) {
    this.#secrets = secrets;
    this.#startedMs = startedMs;
  }

  /** Why a request is not let in; null if it is. Only what is signed well is remembered. */
  async refusal(asked: Asked, signature: string, nowMs: number): Promise<string | null> {
    if (!ID.test(asked.id)) return "the id of a request has 16 to 64 characters of 0-9a-zA-Z-";
    const good = await Promise.all(this.#secrets.map((one) => hasSigned(one, asked, signature)));
    if (!good.includes(true)) return "another signature";
    if (Math.abs(asked.timeMs - nowMs) > WINDOW_MS) return "its time is too far away";
    if (asked.timeMs < this.#startedMs) return "it was sent before this server was started";
    // Nothing is awaited from here on: of two at once, one is the second.
    this.#forget(nowMs);
    if (this.#taken.has(asked.id)) return "it was taken before";
    this.#taken.set(asked.id, Gatekeeper.untilMs(asked.timeMs, nowMs));
    return null;
  }

  /** Until when a request must be remembered. */
  static untilMs(timeMs: number, nowMs: number): number {
    return Math.max(timeMs, nowMs) + 2 * WINDOW_MS;
  }

  #forget(nowMs: number): void {
    for (const [id, untilMs] of this.#taken) {
      // In the order of arrival: whatever comes after is about as young.
      if (untilMs >= nowMs) break;
      this.#taken.delete(id);
    }
  }
}
