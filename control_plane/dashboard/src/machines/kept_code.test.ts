import assert from "node:assert/strict";
import { test } from "node:test";
import { forgetCode, type KeptCode, keepCode, keptCode } from "./kept_code.ts";

function store() {
  const items = new Map<string, string>();
  return {
    items,
    getItem: (name: string) => items.get(name) ?? null,
    setItem: (name: string, value: string) => void items.set(name, value),
    removeItem: (name: string) => void items.delete(name),
  };
}

const kept: KeptCode = {
  made: {
    id: "c1",
    code: "word-word",
    expires_at: "2026-03-02T12:10:00Z",
    url: "http://localhost:8000",
    install_line: "curl",
  },
  name: "laptop",
};

test("a code is kept until its time is over, and then nothing is left of it", () => {
  const storage = store();
  assert.equal(keptCode(storage, new Date("2026-03-02T12:00:00Z")), null);
  keepCode(storage, kept);
  assert.deepEqual(keptCode(storage, new Date("2026-03-02T12:09:59Z")), kept);
  assert.equal(keptCode(storage, new Date("2026-03-02T12:10:00Z")), null);
  assert.equal(storage.items.size, 0);
});

test("a forgotten code is gone, and what is no code is none", () => {
  const storage = store();
  keepCode(storage, kept);
  forgetCode(storage);
  assert.equal(storage.items.size, 0);
  for (const odd of ["{", "{}", "7", '{"made":{}}']) {
    storage.setItem("farhand.code", odd);
    assert.equal(keptCode(storage, new Date(0)), null, odd);
  }
});

test("a storage that refuses costs only what a reload would have kept", () => {
  const refuse = () => {
    throw new Error("no");
  };
  const storage = { getItem: refuse, setItem: refuse, removeItem: refuse };
  keepCode(storage, kept);
  assert.equal(keptCode(storage, new Date(0)), null);
});
