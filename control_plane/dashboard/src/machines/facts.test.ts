import assert from "node:assert/strict";
import { test } from "node:test";
import { factLines, systemLine, trustSentence } from "./facts.ts";

const DEBIAN = {
  os: "linux",
  os_version: "Debian GNU/Linux 12 (bookworm)",
  arch: "x86_64",
  cpus: 2,
  memory_bytes: 25_276_510_208,
  user: "ada",
  hostname: "laptop",
  time_zone: "America/New_York",
};

test("a system is named by its own words, then its architecture", () => {
  assert.equal(systemLine({ facts: DEBIAN }), "Debian GNU/Linux 12 (bookworm) · x86_64");
  assert.equal(
    systemLine({ facts: { os: "macos", os_version: "15.1", arch: "arm64" } }),
    "macOS 15.1 · arm64",
  );
  assert.equal(systemLine({ facts: { os: "linux" } }), "linux");
  assert.equal(systemLine({ facts: {} }), "");
});

test("the trust level says what happens there", () => {
  assert.deepEqual(trustSentence({ facts: DEBIAN, trust_level: "trusted" }), {
    word: "Trusted",
    sentence: "commands run as ada, without a sandbox",
  });
  assert.match(trustSentence({ facts: {}, trust_level: "off" }).sentence, /^no command runs/);
  assert.equal(trustSentence({ facts: {}, trust_level: "later" }).word, "later");
});

test("facts that a machine does not tell take no line", () => {
  assert.deepEqual(factLines({ facts: DEBIAN, daemon_version: "0.1.0" }), [
    ["Hardware", "2 CPUs, 24 GB"],
    ["Host name", "laptop"],
    ["Account", "ada"],
    ["Time zone", "America/New York"],
    ["Daemon", "0.1.0"],
  ]);
  assert.deepEqual(
    factLines({ facts: { cpus: "many", memory_bytes: null }, daemon_version: "" }),
    [],
  );
  assert.deepEqual(factLines({ facts: { cpus: 1, memory_bytes: 2 ** 30 }, daemon_version: "" }), [
    ["Hardware", "1 CPU, 1 GB"],
  ]);
});
