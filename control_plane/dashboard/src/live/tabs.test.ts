import assert from "node:assert/strict";
import { test } from "node:test";
import { Tabs } from "./tabs.ts";

/** Some tabs of one browser that hear each other. */
function open(count: number): Tabs[] {
  const tabs: Tabs[] = [];
  for (let at = 0; at < count; at++) {
    const tell = (message: unknown) => {
      for (const [other, tab] of tabs.entries()) if (other !== at) tab.hear(message);
    };
    tabs.push(new Tabs({ id: `tab ${at}`, tell, onChange: () => undefined }));
  }
  return tabs;
}

function connections(tabs: readonly Tabs[]): number[] {
  return tabs.map(({ share }) => Number(share.events) + share.outputs);
}

test("ten tabs leave a connection for requests, and the one that is looked at has most", () => {
  const tabs = open(10);
  for (const tab of tabs) {
    tab.turnedTo();
    assert.ok(connections(tabs).reduce((sum, one) => sum + one) < 6);
    assert.deepEqual(tab.share, { events: true, outputs: 2 });
  }
  assert.deepEqual(connections(tabs), [0, 0, 0, 0, 0, 0, 0, 0, 2, 3]);
  tabs[3]?.turnedTo();
  assert.deepEqual(connections(tabs), [0, 0, 0, 3, 0, 0, 0, 0, 0, 2]);
});

test("a tab that was opened in the background has none before somebody looks", () => {
  const tabs = open(3);
  tabs[0]?.turnedTo();
  assert.deepEqual(connections(tabs), [3, 0, 0]);
  tabs[2]?.turnedTo();
  assert.deepEqual(connections(tabs), [2, 0, 3]);
});

test("turning to the same tabs again and again takes nothing from the others", () => {
  const tabs = open(2);
  for (let times = 0; times < 5; times++) for (const tab of tabs) tab.turnedTo();
  assert.deepEqual(connections(tabs), [2, 3]);
});

test("what a closed tab had goes to those before it", () => {
  const tabs = open(3);
  for (const tab of tabs) tab.turnedTo();
  tabs[2]?.leave();
  assert.deepEqual(connections(tabs.slice(0, 2)), [2, 3]);
});

test("what is no message of ours changes nothing", () => {
  const [tab] = open(1);
  tab?.turnedTo();
  for (const message of [null, "x", 1, {}, { id: 3, is: "ahead" }, { id: "tab 9", is: "?" }]) {
    tab?.hear(message);
  }
  assert.deepEqual(tab?.share, { events: true, outputs: 2 });
});
