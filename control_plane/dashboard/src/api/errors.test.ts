import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError, failureOf, messageOf, SignedOut, Unreachable } from "./errors.ts";

const told = (code: string, message: string) => ({ error: { code, message } });

test("what the server says is what a person reads", () => {
  const failure = failureOf(409, told("conflict", "cannot stop: it is closed"));
  assert.ok(failure instanceof ApiError);
  assert.equal(messageOf(failure), "cannot stop: it is closed");
  assert.equal(failure.retryable, false);
});

test("401 means signed out, whatever the body", () => {
  assert.ok(failureOf(401, undefined) instanceof SignedOut);
  assert.equal(
    failureOf(401, told("sign_in_link_unusable", "cannot sign in: it was used")).message,
    "cannot sign in: it was used",
  );
});

test("our own trouble is worth trying again, and so is that of what lies between", () => {
  assert.equal(failureOf(503, told("unavailable", "cannot answer now")).retryable, true);
  assert.ok(failureOf(502, "<html>") instanceof Unreachable);
  assert.ok(failureOf(502, undefined).retryable);
});

test("a strange answer is said to be one", () => {
  for (const body of [undefined, null, 3, [], {}, { error: "no" }, { error: { message: 3 } }]) {
    assert.match(failureOf(418, body).message, /status 418/);
  }
});

test("anything that was thrown has words", () => {
  assert.equal(messageOf("odd"), "odd");
  assert.equal(messageOf(new Error("cannot")), "cannot");
});
