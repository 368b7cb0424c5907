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

test("what a machine has found out about itself is told in lines of its own", () => {
  const found = {
    cpus: 1,
    gpus: ["NVIDIA A10"],
    disk_bytes: 400 * 2 ** 30,
    disk_free_bytes: 8.25 * 2 ** 30,
    has_battery: true,
    on_battery: true,
    tools: { git: "2.39.2", docker: "24.0.7", odd: "" },
    repositories: [
      { remote: "github.com/acme/web", path: "/home/ada/web" },
      { remote: "git.acme.test/app", path: "/home/ada/app" },
    ],
  };
  assert.deepEqual(factLines({ facts: found, daemon_version: "" }), [
    ["Hardware", "1 CPU, NVIDIA A10"],
    ["Disk", "8.3 GB free of 400 GB"],
    ["Power", "on battery"],
    ["Repositories", "acme/web, git.acme.test/app"],
    ["Tools", "docker 24.0.7, git 2.39.2, odd"],
  ]);
  const odd = { tools: 3, repositories: [null, {}], gpus: "many", has_battery: false };
  assert.deepEqual(factLines({ facts: odd, daemon_version: "" }), []);
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
