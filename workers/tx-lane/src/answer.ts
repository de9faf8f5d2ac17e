// Answers that are none of the contract's.

export function failed(status: number, error: string, message: string): Response {
  return Response.json({ error, message }, { status });
}

/** A question that can never be valid. Nothing happened. */
export class Mistaken extends Error {}

/** What is stored contradicts the rules. */
export class Corrupt extends Error {}
