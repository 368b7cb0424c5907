/**
 * What can go wrong with a request, as three kinds:
 *
 *     RequestError
 *     ├── ApiError      the server answered and said no; `message` is its own sentence
 *     ├── SignedOut     the session opens nothing any more: sign in again
 *     └── Unreachable   no answer (or one of a proxy in between): worth trying again
 */

export abstract class RequestError extends Error {
  abstract readonly retryable: boolean;
}

export class ApiError extends RequestError {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
  }

  get retryable(): boolean {
    return this.status >= 500 || this.status === 429;
  }
}

export class SignedOut extends RequestError {
  readonly retryable = false;
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = "SignedOut";
    this.code = code;
  }
}

export class Unreachable extends RequestError {
  readonly retryable = true;

  constructor(cause?: unknown) {
    super("cannot reach the server: it is away or the network is; trying again");
    this.name = "Unreachable";
    this.cause = cause;
  }
}

/** Returns what an unsuccessful answer means; `body` is its JSON, or undefined when it had none. */
export function failureOf(status: number, body: unknown): RequestError {
  const told = toldBy(body);
  if (status === 401) {
    return new SignedOut(
      told?.code ?? "not_authenticated",
      told?.message ?? "cannot answer: this page is not signed in",
    );
  }
  if (told !== undefined) return new ApiError(status, told.code, told.message);
  // Ours always says what went wrong; this answer came from something in between.
  if (status >= 500) return new Unreachable(`status ${status}`);
  return new ApiError(status, "unexpected", `cannot read the server's answer: status ${status}`);
}

/** Returns what to show a person for anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function toldBy(body: unknown): { code: string; message: string } | undefined {
  if (typeof body !== "object" || body === null || !("error" in body)) return undefined;
  const { error } = body;
  if (typeof error !== "object" || error === null) return undefined;
  const { code, message } = error as { code?: unknown; message?: unknown };
  return typeof message === "string" ? { code: String(code ?? ""), message } : undefined;
}
