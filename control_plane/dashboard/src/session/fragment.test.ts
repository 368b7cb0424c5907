import assert from "node:assert/strict";
import { test } from "node:test";
import { tokenOf } from "./fragment.ts";

test("only the fragment of the sign-in address is a token", () => {
  assert.equal(tokenOf(new URL("http://h/sign-in#fhl_abc-_1")), "fhl_abc-_1");
  assert.equal(tokenOf(new URL("http://h/sign-in")), null);
  assert.equal(tokenOf(new URL("http://h/sign-in#")), null);
  assert.equal(tokenOf(new URL("http://h/chat#fhl_abc")), null);
  assert.equal(tokenOf(new URL("http://h/sign-in?token=fhl_abc")), null);
});

test("a fragment that is not well formed is taken as it is", () => {
  assert.equal(tokenOf(new URL("http://h/sign-in#100%")), "100%");
  assert.equal(tokenOf(new URL("http://h/sign-in#a%20b")), "a b");
});
