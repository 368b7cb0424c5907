import assert from "node:assert/strict";
import { test } from "node:test";
import { addressLacks, isLoopback } from "./loopback.ts";

test("an address that only this computer reaches is known as such", () => {
  for (const url of [
    "http://127.0.0.1:8420",
    "http://127.1.2.3",
    "http://localhost:1",
    "http://a.localhost",
    "http://[::1]:9",
  ])
    assert.equal(isLoopback(url), true, url);
  for (const url of ["http://box:8420", "https://127.example.org", "http://10.0.0.1", "nonsense"])
    assert.equal(isLoopback(url), false, url);
});

test("an address of this computer lacks reach, plain http elsewhere lacks encryption", () => {
  assert.equal(addressLacks("http://127.0.0.1:8000"), "reach");
  assert.equal(addressLacks("https://localhost"), "reach");
  assert.equal(addressLacks("http://farhand.example:8000"), "encryption");
  assert.equal(addressLacks("https://farhand.example"), null);
});
